// Safetensors: the file format of weights. Eight bytes with the length of a header (little-endian), the header (JSON:
// names, dtypes, shapes, places), then the tensors' bytes without gaps. https://huggingface.co/docs/safetensors
//
//   save_safetensors(net.state_dict(), "mlp.safetensors");
//   auto [tensors, metadata] = load_safetensors("mlp.safetensors");
//   Tensor w = SafetensorsFile("gpt2.safetensors").tensor("wte.weight");      // one of many, nothing else is read
//
// Loaded tensors alias a private mapping of the file: no copy, pages are read when they are touched, and an in-place
// write stays in this process. A file is checked in full before any tensor of it is given out; see SafetensorsHeader.
//
// Tied tensors (the same storage, offset, shape and strides under two names) are stored once, under the first name. The
// others become metadata entries `name: first name`, as safetensors.torch.save_model writes them, and load ties them
// again. To keep such entries apart from a user's own, `weft.aliases` holds them as JSON; where a file has it, it alone
// counts.
//
// Dtypes: F64 F32 F16 BF16 F8_E4M3 F8_E5M2 I64 I32 I16 I8 U8 BOOL. Errors: corrupt_data for a file that does not keep
// the format, unsupported for a dtype or rank that Weft lacks, not_found and io as in tensor/file.h.
#pragma once
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/file.h"
#include "tensor/state_dict.h"

namespace weft {

using Metadata = OrderedMap<std::string>;

// One tensor's line in a header.
struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  int64_t begin = 0;  // of its bytes, counted from the end of the header
  int64_t end = 0;
  int64_t nbytes() const { return end - begin; }
};

// What a valid file says about itself. Valid means:
//  - the header's length is at most 100 MB and lies within the file; the header begins with '{' and ends with '}'
//    and, as the format's text says, any number of spaces (no other white space);
//  - it is strict JSON (tensor/json.h): no key twice, no number but whole, non-negative ones;
//  - each tensor has just dtype, shape and data_offsets, its bytes are as many as its shape needs, computed without
//    overflow, and together they fill the rest of the file without gap or overlap;
//  - names hold no zero byte, which would end them early in C programs; metadata maps strings to strings.
struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of the header's text
  Metadata metadata;                      // as in the file
  Metadata aliases;                       // a tied name and the name under which its tensor is stored
  int64_t data_start = 0;                 // where the tensors' bytes begin in the file
};

// Checks the bytes of a whole file. `origin` (a path) opens the error text.
SafetensorsHeader read_safetensors_header(std::span<const std::byte> file, std::string_view origin);

struct LoadOptions {
  // Tensors in memory of their own rather than on the mapped file. (Those whose bytes are not aligned for their dtype,
  // and bools with bytes other than 0 and 1, are copied in any case; such a byte becomes 1.)
  bool copy = false;
};

// An open file whose tensors are taken one by one.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::filesystem::path& path);

  const SafetensorsHeader& header() const noexcept { return header_; }
  bool contains(std::string_view name) const;
  // By its own name or by an alias; throws not_found with the names there are.
  Tensor tensor(std::string_view name, LoadOptions options = {}) const;
  Tensor tensor(const SafetensorsEntry& entry, LoadOptions options = {}) const;
  int64_t file_size() const noexcept { return static_cast<int64_t>(file_->size()); }

 private:
  Ref<MappedFile> file_;
  SafetensorsHeader header_;
  OrderedMap<size_t> positions_;  // of names in header_.entries
};

struct Safetensors {
  StateDict tensors;  // in the order of the header's text, then aliases; a file of ours: the order it was saved in
  Metadata metadata;  // the user's: without the entries that tie names
};

Safetensors load_safetensors(const std::filesystem::path& path, LoadOptions options = {});
// The same from bytes in memory, which are copied.
Safetensors parse_safetensors(std::span<const std::byte> file, std::string_view origin = "safetensors");

// Writes the file in one step (AtomicFile). The same tensors in the same order give the same bytes: data lies by size of
// element, wide ones first, so that all are aligned. Tensors that are not contiguous are gathered while writing. Throws
// invalid_argument for an undefined tensor, one without data, a name with a zero byte or not UTF-8.
void save_safetensors(const StateDict& tensors, const std::filesystem::path& path, const Metadata& metadata = {});
// The file's bytes.
std::string to_safetensors(const StateDict& tensors, const Metadata& metadata = {});

// "BF16", …: the format's name of a dtype.
std::string_view safetensors_name(DType dtype);

}  // namespace weft
