// libFuzzer on the reader of safetensors files and trees. The header's length is made true after most mutations: else
// nearly every input would fail at the first check.
//
//   safetensors_fuzz CORPUS -max_total_time=60 -dict=tests/fuzz/safetensors_fuzz.dict
#include <algorithm>
#include <cstring>

#include "tests/fuzz/properties.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weft::fuzz::check_safetensors(std::as_bytes(std::span(data, size)));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  constexpr size_t prefix = sizeof(uint64_t);
  if (size < prefix || max_size < 2 * prefix || seed % 8 == 0) return LLVMFuzzerMutate(data, size, max_size);
  uint64_t length = 0;
  std::memcpy(&length, data, prefix);
  length = std::min<uint64_t>(length, size - prefix);
  const size_t tail = size - prefix - length;
  if (seed % 8 == 1) {  // the tensors' bytes
    const size_t new_tail = LLVMFuzzerMutate(data + prefix + length, tail, max_size - prefix - length);
    return prefix + length + new_tail;
  }
  // The header: mutated at the end of the buffer's free room, with the tail put behind it again.
  const std::basic_string<uint8_t> kept(data + prefix + length, tail);
  const size_t new_length = LLVMFuzzerMutate(data + prefix, length, max_size - prefix - tail);
  std::memcpy(data + prefix + new_length, kept.data(), tail);
  length = new_length;
  std::memcpy(data, &length, prefix);
  return prefix + new_length + tail;
}
