// What must hold for any bytes whatever, and files to start from. Shared by the libFuzzer targets, which search for a
// counterexample, and by tests/tensor/fuzz_test.cpp, which tries a fixed set with any compiler.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::fuzz {

// A file is refused with corrupt_data or unsupported, or it is read; and what was read, written and read again is the
// same, as tensors and, where it holds one, as a tree. Throws std::logic_error otherwise. True: the file was read.
bool check_safetensors(std::span<const std::byte> file);

// The same for JSON texts.
bool check_json(std::string_view text);

// Valid files of all kinds, and some that break one rule each.
std::vector<std::string> safetensors_seeds();
std::vector<std::string> json_seeds();

// A file of this header and this data, with the header's true length in front.
std::string raw_safetensors(std::string_view header, std::string_view data = {});

}  // namespace weft::fuzz
