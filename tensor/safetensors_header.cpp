// The checks of a safetensors header. Everything in it may be hostile: no size is believed before it is compared, and
// comparisons are written so that nothing is added to a number from the file.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>

#include "tensor/json.h"
#include "tensor/safetensors.h"
#include "tensor/safetensors_format.h"

namespace weft {

static_assert(std::endian::native == std::endian::little, "the format's numbers are little-endian and are not swapped");

namespace {

constexpr std::string_view kOp = "load_safetensors";
constexpr uint64_t kMaxHeaderBytes = 100'000'000;
// In the order of DType.
constexpr std::array<std::string_view, kDTypeCount> kNames = {"F64", "F32", "F16", "BF16", "F8_E4M3", "F8_E5M2",
                                                              "I64", "I32", "I16", "I8",   "U8",      "BOOL"};

// Takes the header's JSON apart as it is read, so that a large hostile one costs no more than its own size.
class HeaderReader final : public JsonEvents {
 public:
  HeaderReader(std::string_view origin, SafetensorsHeader& header) : origin_(origin), header_(header) {}

  void null() override { wrong("null"); }
  void boolean(bool value) override { wrong(value ? "true" : "false"); }
  void negative_integer(int64_t value) override { wrong(std::to_string(value)); }
  void real(double, const std::string& text) override { wrong(printable(text)); }

  void unsigned_integer(uint64_t value) override {
    if (place_ == Place::shape) {
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        corrupt("the size {} in the shape of tensor {} is too large", value, printable(entry_.name));
      if (entry_.shape.size() == Shape::kMaxDims)
        fail(ErrorCode::unsupported, kOp, "{}: tensor {} has more than {} dimensions", origin_, printable(entry_.name),
             Shape::kMaxDims);
      entry_.shape.push_back(static_cast<int64_t>(value));
    } else if (place_ == Place::offsets) {
      if (offset_count_ == 2) wrong("a third number");
      offsets_[offset_count_++] = value;
    } else {
      wrong(std::to_string(value));
    }
  }

  void string(std::string& value) override {
    if (place_ == Place::metadata) {
      header_.metadata[key_] = std::move(value);
    } else if (place_ == Place::entry && field_ == Field::dtype) {
      const auto found = std::find(kNames.begin(), kNames.end(), value);
      if (found == kNames.end())
        fail(ErrorCode::unsupported, kOp, "{}: tensor {} has the unknown dtype {}; known are {}", origin_,
             printable(entry_.name), printable(value), fmt::join(kNames, " "));
      entry_.dtype = static_cast<DType>(found - kNames.begin());
    } else {
      wrong(fmt::format("\"{}\"", printable(value)));
    }
  }

  void start_object() override {
    if (place_ == Place::start) {
      place_ = Place::file;
    } else if (place_ == Place::file && key_ == "__metadata__") {
      place_ = Place::metadata;
    } else if (place_ == Place::file) {
      place_ = Place::entry;
      entry_ = {};
      entry_.name = key_;
      has_ = {};
    } else {
      wrong("an object");
    }
  }

  void key(std::string& value) override {
    if (place_ == Place::entry) {
      const std::array<std::string_view, 3> fields = {"dtype", "shape", "data_offsets"};
      const auto found = std::find(fields.begin(), fields.end(), value);
      if (found == fields.end())
        corrupt("tensor {} has the unknown field {}; expected {}", printable(entry_.name), printable(value),
                fmt::join(fields, ", "));
      field_ = static_cast<Field>(found - fields.begin());
      if (std::exchange(has_[static_cast<size_t>(field_)], true))
        corrupt("duplicate key {} in tensor {}", value, printable(entry_.name));
      return;
    }
    if (place_ == Place::metadata) {
      if (header_.metadata.contains(value)) corrupt("duplicate key {} in __metadata__", printable(value));
    } else {
      if (seen_.contains(value)) corrupt("duplicate key {}", printable(value));
      if (value.find('\0') != std::string::npos) corrupt("the tensor name {} holds a zero byte", printable(value));
      seen_.insert(value, {});
    }
    key_ = std::move(value);
  }

  void end_object() override {
    if (place_ == Place::entry) {
      const std::array<std::string_view, 3> fields = {"dtype", "shape", "data_offsets"};
      for (size_t i = 0; i < fields.size(); ++i)
        if (!has_[i]) corrupt("tensor {} has no {}", printable(entry_.name), fields[i]);
      add_entry();
    }
    place_ = Place::file;  // the end of the outermost object ends the text, too
  }

  void start_array() override {
    if (place_ == Place::entry && field_ == Field::shape) {
      place_ = Place::shape;
    } else if (place_ == Place::entry && field_ == Field::offsets) {
      place_ = Place::offsets;
      offset_count_ = 0;
    } else {
      wrong("an array");
    }
  }

  void end_array() override {
    if (place_ == Place::offsets && offset_count_ != 2) wrong(fmt::format("{} of them", offset_count_));
    place_ = Place::entry;
  }

 private:
  enum class Place { start, file, metadata, entry, shape, offsets };
  enum class Field { dtype, shape, offsets };

  template <class... Args>
  [[noreturn]] void corrupt(fmt::format_string<Args...> text, Args&&... args) const {
    fail(ErrorCode::corrupt_data, kOp, "{}: {}", origin_, fmt::format(text, std::forward<Args>(args)...));
  }

  [[noreturn]] void wrong(std::string_view got) const {
    std::string expected;
    switch (place_) {
      case Place::start: corrupt("the header must be a JSON object, got {}", got);
      case Place::file: corrupt("{} must be an object, got {}", printable(key_), got);
      case Place::metadata: corrupt("__metadata__ entry {} must be a string, got {}", printable(key_), got);
      case Place::shape:
        corrupt("the shape of tensor {} must be whole numbers of 0 or more, got {}", printable(entry_.name), got);
      case Place::entry:
        if (field_ == Field::dtype)
          corrupt("the dtype of tensor {} must be a string, got {}", printable(entry_.name), got);
        if (field_ == Field::shape)
          corrupt("the shape of tensor {} must be an array, got {}", printable(entry_.name), got);
        [[fallthrough]];
      case Place::offsets:
        corrupt("data_offsets of tensor {} must be two whole numbers of 0 or more, got {}", printable(entry_.name),
                got);
    }
    fail(ErrorCode::internal, kOp, "unknown place in a header");
  }

  void add_entry() {
    const auto [begin, end] = offsets_;
    if (begin > end)
      corrupt("data_offsets of tensor {} end before they begin: [{}, {}]", printable(entry_.name), begin, end);
    if (end > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      corrupt("data_offsets of tensor {} are beyond any file: [{}, {}]", printable(entry_.name), begin, end);
    entry_.begin = static_cast<int64_t>(begin);
    entry_.end = static_cast<int64_t>(end);
    // With a zero among the sizes the others still make strides, so their product is checked all the same.
    int64_t product = size_of(entry_.dtype);
    bool empty = false;
    for (int64_t size : entry_.shape) {
      empty = empty || size == 0;
      if (__builtin_mul_overflow(product, std::max<int64_t>(size, 1), &product))
        corrupt("the shape {} of tensor {} overflows: more than 2^63 bytes", entry_.shape, printable(entry_.name));
    }
    const int64_t needed = empty ? 0 : product;
    if (needed != entry_.nbytes())
      corrupt("tensor {} of {}{} needs {} bytes, but its data_offsets [{}, {}] span {}", printable(entry_.name),
              entry_.dtype, entry_.shape, needed, begin, end, entry_.nbytes());
    header_.entries.push_back(std::move(entry_));
  }

  std::string_view origin_;
  SafetensorsHeader& header_;
  Place place_ = Place::start;
  Field field_ = Field::dtype;
  std::string key_;
  struct Nothing {};
  OrderedMap<Nothing> seen_;
  SafetensorsEntry entry_;
  std::array<bool, 3> has_{};
  std::array<uint64_t, 2> offsets_{};
  size_t offset_count_ = 0;
};

// The tensors' bytes must fill `data_bytes`, each byte once.
void check_coverage(const SafetensorsHeader& header, int64_t data_bytes, std::string_view origin) {
  std::vector<const SafetensorsEntry*> by_place;
  by_place.reserve(header.entries.size());
  for (const SafetensorsEntry& entry : header.entries) by_place.push_back(&entry);
  std::sort(by_place.begin(), by_place.end(),
            [](const auto* a, const auto* b) { return a->begin != b->begin ? a->begin < b->begin : a->end < b->end; });
  int64_t covered = 0;
  for (const SafetensorsEntry* entry : by_place) {
    if (entry->end > data_bytes)
      fail(ErrorCode::corrupt_data, kOp,
           "{}: tensor {} ends at byte {} of the data, but the file holds {} (cut short while it was written or "
           "copied?)",
           origin, printable(entry->name), entry->end, data_bytes);
    if (entry->begin != covered)
      fail(ErrorCode::corrupt_data, kOp, "{}: tensor {} begins at byte {} of the data, expected {}: {}", origin,
           printable(entry->name), entry->begin, covered,
           entry->begin < covered ? "it overlaps another" : "a gap no tensor covers");
    covered = entry->end;
  }
  if (covered != data_bytes)
    fail(ErrorCode::corrupt_data, kOp, "{}: {} bytes follow the last tensor", origin, data_bytes - covered);
}

}  // namespace

std::string_view safetensors_name(DType dtype) { return kNames[static_cast<size_t>(dtype)]; }

bool detail::is_tensor_name(std::string_view name) {
  return name != "__metadata__" && name.find('\0') == std::string_view::npos;
}

Metadata detail::aliases_of(const Metadata& metadata, const std::function<bool(std::string_view)>& is_tensor,
                            std::string_view origin) {
  Metadata aliases;
  const auto fits = [&](const std::string& alias, const std::string& stored) {
    return is_tensor(stored) && !is_tensor(alias) && is_tensor_name(alias) && alias != kAliasesKey;
  };
  const auto listed = metadata.find(kAliasesKey);
  if (listed == metadata.end()) {
    // Another tool's file. "format" says who wrote it, whatever the tensors are called.
    for (const auto& [key, value] : metadata)
      if (key != "format" && fits(key, value)) aliases.insert(key, value);
    return aliases;
  }
  const Tree tree = parse_json(listed->second, fmt::format("{}: {}", origin, kAliasesKey), kOp);
  if (!tree.is_map()) fail(ErrorCode::corrupt_data, kOp, "{}: {} must be a JSON object", origin, kAliasesKey);
  for (const auto& [key, value] : tree.as_map()) {
    if (!value.is_string() || !fits(key, value.as_string()))
      fail(ErrorCode::corrupt_data, kOp, "{}: {} cannot tie {} to {}", origin, kAliasesKey, printable(key),
           value.is_string() ? printable(value.as_string()) : to_string(value));
    aliases.insert(key, value.as_string());
  }
  return aliases;
}

SafetensorsHeader read_safetensors_header(std::span<const std::byte> file, std::string_view origin) {
  const auto corrupt = [&](std::string text) { fail(ErrorCode::corrupt_data, kOp, "{}: {}", origin, text); };
  if (file.size() < sizeof(uint64_t))
    corrupt(fmt::format("{} bytes are too short for a safetensors file, which begins with an 8-byte header length",
                        file.size()));
  uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof(length));
  if (length > kMaxHeaderBytes)
    corrupt(fmt::format("header too large: {} bytes, at most {} are allowed (not a safetensors file?)", length,
                        kMaxHeaderBytes));
  if (length > file.size() - sizeof(length))
    corrupt(fmt::format("the header should have {} bytes, but the file ends {} after its length (cut short?)", length,
                        file.size() - sizeof(length)));
  std::string_view text(reinterpret_cast<const char*>(file.data()) + sizeof(length), length);
  if (!text.starts_with('{')) corrupt("the header does not begin with '{'");
  while (text.ends_with(' ')) text.remove_suffix(1);
  if (!text.ends_with('}')) corrupt("the header does not end with '}' and spaces");

  SafetensorsHeader header;
  header.data_start = static_cast<int64_t>(sizeof(length) + length);
  HeaderReader reader(origin, header);
  read_json(text, origin, kOp, reader);
  check_coverage(header, static_cast<int64_t>(file.size()) - header.data_start, origin);
  if (!header.metadata.empty() && !header.entries.empty()) {
    OrderedMap<bool> names;
    for (const SafetensorsEntry& entry : header.entries) names[entry.name] = true;
    header.aliases = detail::aliases_of(
        header.metadata, [&](std::string_view name) { return names.contains(name); }, origin);
  }
  return header;
}

}  // namespace weft
