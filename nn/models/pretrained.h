// Weights and configurations in Hugging Face's folders: config.json beside model.safetensors, or beside
// model.safetensors.index.json and the shards it names.
//
//   auto gpt = nn::models::GPT2::from_pretrained("gpt2");                     // strict: all weights or an error
//   nn::LoadReport report;
//   auto bert = nn::models::Bert::from_pretrained(folder, {.report = &report});  // whatever fits; the report says what not
//
// A model comes back in eval mode. Weights are converted to the model's dtype.
#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "nn/module.h"
#include "tensor/tree.h"

namespace weft::nn::models {

struct PretrainedOptions {
  LoadReport* report = nullptr;     // where given, missing and unexpected names go there instead of being an error
  std::optional<DType> dtype = {};  // of the model; none: f32
};

// config.json of `folder`.
Tree read_config(const std::filesystem::path& folder);
// All tensors of `folder`, mapped, not read. One error names every shard that is not there, or every tensor that the
// index promises and its shard lacks.
StateDict read_weights(const std::filesystem::path& folder);

// Entries of a configuration, or `otherwise` where there is none or null.
int64_t config_int(const Tree& config, std::string_view key, int64_t otherwise);
double config_real(const Tree& config, std::string_view key, double otherwise);
bool config_flag(const Tree& config, std::string_view key, bool otherwise);
std::string config_text(const Tree& config, std::string_view key, std::string_view otherwise);

// Copies `weights` into `model` and sets it to eval mode. A name that is missing is none where another name of the same
// (tied) parameter is there. `op`: the model's name, for errors; `folder`: where they came from.
void load_pretrained(ModuleBase& model, const StateDict& weights, const PretrainedOptions& options, const char* op,
                     const std::filesystem::path& folder);

// The same tensors by other names, in the same order; a tensor whose new name is empty is left out.
StateDict renamed(const StateDict& weights, const std::function<std::string(const std::string& name)>& rename);

}  // namespace weft::nn::models
