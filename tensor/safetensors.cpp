#include "tensor/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <numeric>
#include <tuple>

#include "tensor/factory.h"
#include "tensor/json.h"
#include "tensor/safetensors_format.h"

namespace weft {

namespace {

// --- reading ------------------------------------------------------------------------------------------------------

// A bool whose byte is neither 0 nor 1 is undefined behaviour in C++.
bool has_odd_bools(const std::byte* data, int64_t count) {
  return std::any_of(data, data + count, [](std::byte b) { return b > std::byte{1}; });
}

// One tensor of a checked file. With `owner` it aliases the file's memory and keeps it alive; without, it is a copy.
Tensor make_tensor(const SafetensorsEntry& entry, const std::byte* file, int64_t data_start,
                   const Ref<MappedFile>& owner) {
  if (entry.nbytes() == 0) return empty(entry.shape, entry.dtype);
  const std::byte* data = file + data_start + entry.begin;
  const bool odd_bools = entry.dtype == DType::boolean && has_odd_bools(data, entry.nbytes());
  const bool aligned = reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(size_of(entry.dtype)) == 0;
  if (owner && aligned && !odd_bools)
    return from_blob(const_cast<std::byte*>(data), entry.shape, entry.dtype, [owner] {});
  Tensor tensor = empty(entry.shape, entry.dtype);
  auto* out = static_cast<std::byte*>(tensor.data());
  if (odd_bools) {
    std::transform(data, data + entry.nbytes(), out, [](std::byte b) { return std::byte{b != std::byte{0}}; });
  } else {
    std::memcpy(out, data, static_cast<size_t>(entry.nbytes()));
  }
  return tensor;
}

Safetensors make_all(const SafetensorsHeader& header, const std::byte* file, const Ref<MappedFile>& owner) {
  Safetensors result;
  for (const SafetensorsEntry& entry : header.entries)
    result.tensors.insert(entry.name, make_tensor(entry, file, header.data_start, owner));
  for (const auto& [name, stored] : header.aliases) {
    Tensor tied = result.tensors.at(stored);
    result.tensors.insert(name, std::move(tied));
  }
  for (const auto& [key, value] : header.metadata) {
    const auto alias = header.aliases.find(key);
    const bool ties = alias != header.aliases.end() && alias->second == value;
    if (!ties && key != detail::kAliasesKey) result.metadata.insert(key, value);
  }
  return result;
}

// --- writing ------------------------------------------------------------------------------------------------------

struct Plan {
  std::string header;                   // with its length in front and padding behind
  std::vector<const Tensor*> in_order;  // of their bytes in the file
};

Metadata find_aliases(const StateDict& tensors) {
  using Key = std::tuple<const Storage*, int64_t, std::vector<int64_t>, std::vector<int64_t>, DType>;
  std::map<Key, std::string_view> first;
  Metadata aliases;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.numel() == 0) continue;  // nothing to share
    const auto [found, is_new] = first.try_emplace(Key(tensor.storage().get(), tensor.offset(), tensor.shape().vector(),
                                                       tensor.strides().vector(), tensor.dtype()),
                                                   name);
    if (!is_new) aliases.insert(name, std::string(found->second));
  }
  return aliases;
}

// The user's metadata and what ties names.
Metadata complete_metadata(const StateDict& tensors, const Metadata& user, const Metadata& aliases) {
  constexpr std::string_view op = "save_safetensors";
  Metadata metadata = user;
  WEFT_CHECK(!user.contains(detail::kAliasesKey), op, "the metadata key {} is Weft's own", detail::kAliasesKey);
  const auto is_stored = [&](std::string_view name) { return tensors.contains(name) && !aliases.contains(name); };
  if (aliases.empty() && detail::aliases_of(user, is_stored, "metadata").empty()) return metadata;
  Tree listed = Tree::map();
  for (const auto& [name, stored] : aliases) {
    if (!user.contains(name)) metadata.insert(name, stored);
    listed[name] = stored;
  }
  metadata.insert(std::string(detail::kAliasesKey), to_json(listed));
  return metadata;
}

Plan make_plan(const StateDict& tensors, const Metadata& user_metadata) {
  constexpr std::string_view op = "save_safetensors";
  for (const auto& [name, tensor] : tensors) {
    WEFT_CHECK(tensor.defined(), op, "tensor {} is undefined", printable(name));
    WEFT_CHECK(!tensor.is_meta(), op, "tensor {} is on the meta device and has no data", printable(name));
    WEFT_CHECK(detail::is_tensor_name(name), op, "a tensor cannot be called {}: {}", printable(name),
               name == "__metadata__" ? "the format's own name" : "it holds a zero byte");
  }
  const Metadata aliases = find_aliases(tensors);
  const Metadata metadata = complete_metadata(tensors, user_metadata, aliases);

  std::vector<const StateDict::value_type*> stored;
  for (const auto& entry : tensors)
    if (!aliases.contains(entry.first)) stored.push_back(&entry);
  std::vector<size_t> order(stored.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return size_of(stored[a]->second.dtype()) > size_of(stored[b]->second.dtype());
  });
  Plan plan;
  std::vector<int64_t> begin(stored.size());
  int64_t offset = 0;
  for (size_t i : order) {
    const Tensor& tensor = stored[i]->second;
    begin[i] = offset;
    WEFT_CHECK(!__builtin_add_overflow(offset, tensor.nbytes(), &offset), op, "more than 2^63 bytes of tensors");
    plan.in_order.push_back(&tensor);
  }

  std::string json = "{";
  if (!metadata.empty()) {
    json += "\"__metadata__\":{";
    for (const auto& [key, value] : metadata) {
      if (json.back() != '{') json += ',';
      json += json_quote(key) + ':' + json_quote(value);
    }
    json += '}';
  }
  for (size_t i = 0; i < stored.size(); ++i) {
    const auto& [name, tensor] = *stored[i];
    if (json.size() > 1) json += ',';
    json += json_quote(name);
    json +=
        fmt::format(":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}", safetensors_name(tensor.dtype()),
                    fmt::join(tensor.shape(), ","), begin[i], begin[i] + tensor.nbytes());
  }
  json += '}';
  json.resize((json.size() + 7) / 8 * 8, ' ');
  WEFT_CHECK(json.size() <= 100'000'000, op, "the header would have {} bytes, more than the 100 MB that readers take",
             json.size());
  const uint64_t length = json.size();
  plan.header.assign(reinterpret_cast<const char*>(&length), sizeof(length));
  plan.header += json;
  return plan;
}

// Gives the elements in row-major order to write(pointer, bytes), in the longest runs that memory has.
template <class Write>
void write_elements(const Tensor& tensor, Write&& write) {
  if (tensor.numel() == 0) return;
  const Tensor host = tensor.device() == cpu_device ? tensor : tensor.to(cpu_device);
  const int64_t element = size_of(host.dtype());
  const auto* data = static_cast<const char*>(host.data());
  const Shape& shape = host.shape();
  const Strides& strides = host.strides();
  int outer = host.dim();
  int64_t run = 1;
  while (outer > 0 && (strides[outer - 1] == run || shape[outer - 1] == 1)) run *= shape[--outer];
  std::array<int64_t, Shape::kMaxDims> index{};
  int64_t offset = 0;
  for (;;) {
    write(data + offset * element, static_cast<size_t>(run * element));
    int d = outer - 1;
    for (; d >= 0; --d) {
      const auto i = static_cast<size_t>(d);
      offset += strides[d];
      if (++index[i] < shape[d]) break;
      offset -= strides[d] * shape[d];
      index[i] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : file_(MappedFile::open(path)), header_(read_safetensors_header(file_->bytes(), path.string())) {
  for (size_t i = 0; i < header_.entries.size(); ++i) positions_.insert(header_.entries[i].name, i);
}

bool SafetensorsFile::contains(std::string_view name) const {
  return positions_.contains(name) || header_.aliases.contains(name);
}

Tensor SafetensorsFile::tensor(std::string_view name, LoadOptions options) const {
  const auto alias = header_.aliases.find(name);
  const auto found = positions_.find(alias == header_.aliases.end() ? name : std::string_view(alias->second));
  if (found == positions_.end())
    fail(ErrorCode::not_found, "load_safetensors", "{}: no tensor {}; there are: {}", file_->path().string(),
         printable(name), printable(positions_.some_keys(), 500));
  return tensor(header_.entries[found->second], options);
}

Tensor SafetensorsFile::tensor(const SafetensorsEntry& entry, LoadOptions options) const {
  return make_tensor(entry, file_->data(), header_.data_start, options.copy ? Ref<MappedFile>() : file_);
}

Safetensors load_safetensors(const std::filesystem::path& path, LoadOptions options) {
  const Ref<MappedFile> file = MappedFile::open(path);
  const SafetensorsHeader header = read_safetensors_header(file->bytes(), path.string());
  return make_all(header, file->data(), options.copy ? Ref<MappedFile>() : file);
}

Safetensors parse_safetensors(std::span<const std::byte> file, std::string_view origin) {
  return make_all(read_safetensors_header(file, origin), file.data(), {});
}

void save_safetensors(const StateDict& tensors, const std::filesystem::path& path, const Metadata& metadata) {
  const Plan plan = make_plan(tensors, metadata);
  AtomicFile file(path);
  file.write(plan.header);
  for (const Tensor* tensor : plan.in_order)
    write_elements(*tensor, [&](const char* data, size_t bytes) { file.write(data, bytes); });
  file.commit();
}

std::string to_safetensors(const StateDict& tensors, const Metadata& metadata) {
  Plan plan = make_plan(tensors, metadata);
  std::string bytes = std::move(plan.header);
  for (const Tensor* tensor : plan.in_order)
    write_elements(*tensor, [&](const char* data, size_t count) { bytes.append(data, count); });
  return bytes;
}

}  // namespace weft
