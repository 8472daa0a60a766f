#include "nn/models/pretrained.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensor/json.h"
#include "tensor/safetensors.h"

namespace weft::nn::models {
namespace {

constexpr const char* kOp = "from_pretrained";

// One error that names all of `problems`.
void fail_with(ErrorCode code, const std::filesystem::path& folder, std::string_view what,
               const std::vector<std::string>& problems) {
  if (!problems.empty()) fail(code, kOp, "{}: {}: {}", folder.string(), what, fmt::join(problems, ", "));
}

StateDict read_shards(const std::filesystem::path& folder, const std::filesystem::path& index_path) {
  const Tree index = parse_json(read_file(index_path), index_path.string(), kOp);
  WEFT_CHECK(index.is_map() && index.contains("weight_map") && index["weight_map"].is_map(), kOp,
             "{} has no weight_map", index_path.string());
  OrderedMap<std::vector<std::string>> by_shard;
  std::vector<std::string> absent, lost;
  for (const auto& [name, shard] : index["weight_map"].as_map()) by_shard[shard.as_string()].push_back(name);
  for (const auto& [shard, names] : by_shard) {
    // A shard is a file of this folder; a path out of it is no shard.
    WEFT_CHECK(!shard.empty() && std::filesystem::path(shard).filename() == shard, kOp, "{} names the shard '{}'",
               index_path.string(), printable(shard));
    if (!std::filesystem::exists(folder / shard)) absent.push_back(shard);
  }
  fail_with(ErrorCode::not_found, folder, "missing shards", absent);
  StateDict weights;
  for (const auto& [shard, names] : by_shard) {
    const SafetensorsFile file(folder / shard);
    for (const std::string& name : names) {
      if (file.contains(name))
        weights[name] = file.tensor(name);
      else
        lost.push_back(fmt::format("{} (in {})", name, shard));
    }
  }
  fail_with(ErrorCode::corrupt_data, folder, "tensors of the index that their shards lack", lost);
  return weights;
}

bool same_memory(const Tensor& a, const Tensor& b) {
  return a.storage() == b.storage() && a.offset() == b.offset() && a.shape() == b.shape();
}

}  // namespace

Tree read_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  Tree config = parse_json(read_file(path), path.string(), kOp);
  WEFT_CHECK(config.is_map(), kOp, "{} is not a JSON object", path.string());
  return config;
}

StateDict read_weights(const std::filesystem::path& folder) {
  const std::filesystem::path whole = folder / "model.safetensors", index = folder / "model.safetensors.index.json";
  if (std::filesystem::exists(whole)) return load_safetensors(whole).tensors;
  if (std::filesystem::exists(index)) return read_shards(folder, index);
  fail(ErrorCode::not_found, kOp, "{} has neither model.safetensors nor model.safetensors.index.json", folder.string());
}

int64_t config_int(const Tree& config, std::string_view key, int64_t otherwise) {
  return config.contains(key) && !config[key].is_null() ? config[key].as_int() : otherwise;
}
double config_real(const Tree& config, std::string_view key, double otherwise) {
  return config.contains(key) && !config[key].is_null() ? config[key].as_double() : otherwise;
}
bool config_flag(const Tree& config, std::string_view key, bool otherwise) {
  return config.contains(key) && !config[key].is_null() ? config[key].as_bool() : otherwise;
}
std::string config_text(const Tree& config, std::string_view key, std::string_view otherwise) {
  return config.contains(key) && !config[key].is_null() ? config[key].as_string() : std::string(otherwise);
}

void load_pretrained(ModuleBase& model, const StateDict& weights, const PretrainedOptions& options, const char* op,
                     const std::filesystem::path& folder) {
  if (options.dtype) model.to(*options.dtype);
  const StateDict own = model.state_dict();
  StateDict fitting;
  std::vector<std::string> misshapen;
  LoadReport report;
  for (const auto& [name, target] : own) {
    const auto source = weights.find(name);
    if (source != weights.end()) {
      if (source->second.shape() == target.shape())
        fitting[name] = source->second;
      else
        misshapen.push_back(fmt::format("{} is {}, expected {}", name, source->second.shape(), target.shape()));
      continue;
    }
    const bool tied = std::any_of(own.begin(), own.end(), [&, &slot = target](const auto& other) {
      return weights.contains(other.first) && same_memory(other.second, slot);
    });
    if (!tied) report.missing.push_back(name);
  }
  for (const auto& [name, source] : weights)
    if (!own.contains(name)) report.unexpected.push_back(name);
  const bool complete = report.missing.empty() && report.unexpected.empty();
  if (!misshapen.empty() || (!complete && options.report == nullptr))
    fail(ErrorCode::invalid_argument, op,
         "{} does not fit the model: missing: [{}]; unexpected: [{}]; of other shape: [{}]{}", folder.string(),
         fmt::join(report.missing, ", "), fmt::join(report.unexpected, ", "), fmt::join(misshapen, ", "),
         misshapen.empty() ? "; give a report to load the rest" : "");
  model.load_state_dict(fitting, /*strict=*/false);
  model.eval();
  if (options.report) *options.report = std::move(report);
}

StateDict renamed(const StateDict& weights, const std::function<std::string(const std::string& name)>& rename) {
  StateDict result;
  for (const auto& [name, tensor] : weights)
    if (std::string to = rename(name); !to.empty()) result.insert(std::move(to), tensor);
  return result;
}

}  // namespace weft::nn::models
