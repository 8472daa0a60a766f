#include "tensor/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "tensor/factory.h"
#include "tensor/json.h"
#include "tests/fuzz/properties.h"
#include "tests/support/child_process.h"
#include "tests/support/golden.h"

namespace weft {
namespace {

using fuzz::raw_safetensors;
using test::TemporaryFolder;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Safetensors parse(const std::string& file) { return parse_safetensors(bytes_of(file), "test"); }

// Expects that the file is refused, and that the text says so.
void expect_refused(const std::string& file, const std::string& text, ErrorCode code = ErrorCode::corrupt_data) {
  try {
    parse(file);
    ADD_FAILURE() << "accepted, expected: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_EQ(error.op(), "load_safetensors");
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what() << "\nexpected: " << text;
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
  }
}

// A file with one tensor `w` and these fields as JSON text.
std::string one_tensor(const std::string& dtype, const std::string& shape, const std::string& offsets,
                       const std::string& data = "\1\2\3\4") {
  return raw_safetensors("{\"w\":{\"dtype\":" + dtype + ",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}}",
                         data);
}

Tensor counting(const Shape& shape, DType dtype) {
  Tensor tensor = empty(shape, dtype);
  for (int64_t i = 0; i < tensor.nbytes(); ++i)
    static_cast<unsigned char*>(tensor.data())[i] = static_cast<unsigned char>(dtype == boolean ? i % 2 : i + 1);
  return tensor;
}

std::string contents(const Tensor& tensor) {
  const Tensor dense = detail::dense_copy(tensor);
  return dense.numel() == 0 ? ""
                            : std::string(static_cast<const char*>(dense.data()), static_cast<size_t>(dense.nbytes()));
}

std::string header_of(const std::string& file) {
  uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  return file.substr(8, length);
}

TEST(Cases, C149_header_length_is_no_allocation_size) {
  expect_refused(std::string(8, '\xff'), "header too large");
  expect_refused(std::string(8, '\xff') + "{}", "header too large");
  for (size_t length = 0; length < 8; ++length) expect_refused(std::string(length, '\xff'), "too short");
  // Allowed by the limit, but not there.
  std::string file(8, '\0');
  file[0] = 100;
  expect_refused(file + "{}", "the file ends 2 after");
  expect_refused(std::string(8, '\0'), "does not begin with '{'");
  const uint64_t over = 100'000'001;
  expect_refused(std::string(reinterpret_cast<const char*>(&over), 8) + "{}", "header too large");
}

TEST(Cases, C151_bad_lengths_and_offset_arrays) {
  std::string file(8, '\0');
  file[7] = '\x80';  // 2^63
  expect_refused(file + "{}", "header too large");
  for (const char* offsets : {"[]", "[0]", "[0,1,2]", "[5,1]", "[\"0\",4]", "[1.5,4]", "-1", "null", "true", "4", "{}",
                              "[[0,4]]", "[null,4]", "\"0\"", "[0,4.0]", "[0,4e0]", "[-0,4]"})
    expect_refused(one_tensor("\"F32\"", "[1]", offsets), "data_offsets of tensor w");
}

TEST(Cases, C152_negative_and_inverted_offsets) {
  expect_refused(one_tensor("\"F32\"", "[1]", "[8,4]"), "end before they begin");
  expect_refused(one_tensor("\"F32\"", "[1]", "[-4,4]"), "got -4");
  expect_refused(one_tensor("\"F32\"", "[1]", "[0,-4]"), "got -4");
}

TEST(Cases, C154_unknown_dtype) {
  expect_refused(one_tensor("\"F13\"", "[1]", "[0,4]"), "unknown dtype F13", ErrorCode::unsupported);
  expect_refused(one_tensor("\"F13\"", "[1]", "[0,4]"), "F64 F32 F16 BF16 F8_E4M3 F8_E5M2 I64 I32 I16 I8 U8 BOOL",
                 ErrorCode::unsupported);
  expect_refused(one_tensor("\"f32\"", "[1]", "[0,4]"), "unknown dtype f32", ErrorCode::unsupported);
  expect_refused(one_tensor("\"\"", "[1]", "[0,4]"), "unknown dtype", ErrorCode::unsupported);
  expect_refused(one_tensor("1", "[1]", "[0,4]"), "must be a string");
}

TEST(Cases, C155_shapes_and_offsets_keep_their_digits) {
  expect_refused(one_tensor("\"I32\"", "[4294967296,4294967296]", "[0,4]"), "overflows");
  expect_refused(one_tensor("\"I32\"", "[9223372036854775808,2]", "[0,4]"), "9223372036854775808");
  expect_refused(one_tensor("\"I32\"", "[-1,4]", "[0,4]"), "got -1");
  // Zero elements, but strides that would overflow.
  expect_refused(one_tensor("\"I32\"", "[0,9223372036854775807,8]", "[0,0]", ""), "overflows");
  // 2^53 + 1 would become 2^53 as a double.
  expect_refused(one_tensor("\"U8\"", "[9007199254740993]", "[0,9007199254740992]"), "needs 9007199254740993 bytes");
  expect_refused(one_tensor("\"U8\"", "[9007199254740993]", "[0,9007199254740993]"), "the file holds 4");
  expect_refused(one_tensor("\"F32\"", "[1]", "[18446744073709551612,18446744073709551615]"), "beyond any file");
  expect_refused(one_tensor("\"F32\"", "[1]", "[18446744073709551612,18446744073709551616]"), "18446744073709551616");
  expect_refused(one_tensor("\"F32\"", "[1]", "[9223372036854775800,9223372036854775804]"), "the file holds 4");
}

TEST(Cases, C157_duplicate_keys) {
  const std::string w = R"("w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  expect_refused(raw_safetensors("{" + w + "," + w + "}", "\1\2\3\4"), "duplicate key w");
  expect_refused(raw_safetensors("{" + w + R"(,"\u0077":{}})", "\1\2\3\4"), "duplicate key w");
  expect_refused(raw_safetensors(R"({"__metadata__":{"a":"1","a":"1"}})"), "duplicate key a in __metadata__");
  expect_refused(raw_safetensors(R"({"__metadata__":{},"__metadata__":{}})"), "duplicate key __metadata__");
  expect_refused(raw_safetensors(R"({"w":{"dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "\1\2\3\4"),
                 "duplicate key dtype in tensor w");
}

TEST(Cases, C158_metadata_without_tensors) {
  const std::string file = to_safetensors({}, {{"key", "value"}});
  EXPECT_EQ(header_of(file), R"({"__metadata__":{"key":"value"}})");
  EXPECT_EQ(file.size(), 8u + 32u);
  const Safetensors read = parse(file);
  EXPECT_TRUE(read.tensors.empty());
  EXPECT_EQ(read.metadata.at("key"), "value");
  EXPECT_TRUE(parse(to_safetensors({})).tensors.empty());
}

TEST(Cases, C160_white_space_around_the_header) {
  EXPECT_NO_THROW(parse(raw_safetensors("{}")));
  EXPECT_NO_THROW(parse(raw_safetensors("{}      ")));
  EXPECT_NO_THROW(parse(raw_safetensors("{ \t\r\n}")));  // inside, JSON's own rules hold
  // Around it the format's text allows trailing spaces and nothing else.
  for (const char* bad : {" {}", "\n{}", "\t{}", "\xef\xbb\xbf{}", "[]", "null", ""})
    expect_refused(raw_safetensors(bad), "does not begin with '{'");
  for (const char* bad : {"{}\n", "{}\t", "{}\r", "{} \n ", "{}x", "{}//"})
    expect_refused(raw_safetensors(bad), "does not end with '}'");
  expect_refused(raw_safetensors(std::string_view("{}\0\0", 4)), "does not end with '}'");
  expect_refused(raw_safetensors(std::string_view("{}\0}", 4)), "zero byte");
  expect_refused(raw_safetensors("{}{}"), "not valid JSON");
  expect_refused(raw_safetensors("{/**/}"), "not valid JSON");
}

TEST(Cases, C161_zero_byte_in_a_name) {
  expect_refused(raw_safetensors(R"({"w\u0000x":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", "\1\2\3\4"),
                 "w\\u0000x holds a zero byte");
  StateDict tensors;
  tensors[std::string_view("w\0x", 3)] = counting({1}, f32);
  EXPECT_THROW(to_safetensors(tensors), Error);
  // In a metadata value it is harmless and kept.
  const Safetensors read = parse(to_safetensors({}, {{"k", std::string("a\0b", 3)}}));
  EXPECT_EQ(read.metadata.at("k"), std::string("a\0b", 3));
}

TEST(Cases, C163_all_dtypes_and_byte_order) {
  Tensor one = empty({1}, bf16);
  *one.data<BFloat16>() = BFloat16(1.0f);
  const std::string file = to_safetensors({{"one", one}});
  EXPECT_EQ(file.substr(file.size() - 2), "\x80\x3f");
  StateDict tensors;
  for (int i = 0; i < kDTypeCount; ++i) tensors[name(static_cast<DType>(i))] = counting({3, 2}, static_cast<DType>(i));
  const Safetensors read = parse(to_safetensors(tensors));
  ASSERT_EQ(read.tensors.size(), static_cast<size_t>(kDTypeCount));
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(read.tensors.at(name).dtype(), tensor.dtype());
    EXPECT_EQ(read.tensors.at(name).shape(), tensor.shape());
    EXPECT_EQ(contents(read.tensors.at(name)), contents(tensor)) << name;
  }
  EXPECT_EQ(safetensors_name(f8e4m3), "F8_E4M3");
  EXPECT_EQ(safetensors_name(boolean), "BOOL");
}

TEST(Cases, C164_empty_and_zero_dimensional_tensors) {
  const std::string file = raw_safetensors(
      R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"e":{"dtype":"F32","shape":[0,4],"data_offsets":[2,2]},)"
      R"("s":{"dtype":"F32","shape":[],"data_offsets":[2,6]},"z":{"dtype":"I64","shape":[3,0],"data_offsets":[6,6]}})",
      std::string("\1\2\0\0\x80\x3f", 6));
  const Safetensors read = parse(file);
  EXPECT_EQ(read.tensors.at("e").numel(), 0);
  EXPECT_EQ(read.tensors.at("e").shape(), Shape({0, 4}));
  EXPECT_EQ(read.tensors.at("s").dim(), 0);
  EXPECT_EQ(read.tensors.at("s").numel(), 1);
  EXPECT_EQ(read.tensors.at("s").item(), 1.0);
  const Safetensors again = parse(to_safetensors(read.tensors));
  EXPECT_EQ(again.tensors.at("e").shape(), Shape({0, 4}));
  EXPECT_EQ(again.tensors.at("z").shape(), Shape({3, 0}));
  expect_refused(one_tensor("\"F32\"", "[0]", "[0,4]"), "needs 0 bytes");
}

TEST(Cases, C67_tied_tensors_are_stored_once) {
  const Tensor embed = full({2, 3}, 3.0);
  const StateDict state{
      {"embed.weight", embed}, {"bias", full({3}, 1.0)}, {"head.weight", embed.alias({2, 3}, {3, 1}, 0)}};
  const std::string file = to_safetensors(state, {{"format", "pt"}});
  const SafetensorsHeader header = read_safetensors_header(bytes_of(file), "test");
  ASSERT_EQ(header.entries.size(), 2u);
  EXPECT_EQ(header.metadata.at("head.weight"), "embed.weight");
  EXPECT_EQ(header.aliases.at("head.weight"), "embed.weight");
  const Safetensors read = parse(file);
  ASSERT_EQ(read.tensors.size(), 3u);
  EXPECT_EQ(read.tensors.at("head.weight").to_vector(), std::vector<double>(6, 3.0));
  EXPECT_EQ(read.tensors.at("head.weight").storage(), read.tensors.at("embed.weight").storage());
  ASSERT_EQ(read.metadata.size(), 1u);  // what the user gave
  EXPECT_EQ(read.metadata.at("format"), "pt");
  EXPECT_EQ(to_safetensors(read.tensors, read.metadata).size(), file.size());
}

TEST(Safetensors, OnlyTheVerySameViewIsTied) {
  const Tensor square = counting({2, 2}, f32);
  const StateDict state{{"a", square}, {"transposed", square.transpose(0, 1)}, {"row", square.select(0, 0)}};
  const Safetensors read = parse(to_safetensors(state));
  EXPECT_EQ(read.tensors.size(), 3u);
  EXPECT_TRUE(read.metadata.empty());
  for (const auto& [name, tensor] : state) EXPECT_EQ(contents(read.tensors.at(name)), contents(tensor)) << name;
}

TEST(Safetensors, TiesOfOtherToolsAreRead) {
  const std::string w = R"("w":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  const std::string torch = raw_safetensors(R"({"__metadata__":{"format":"w","head":"w","note":"x"},)" + w, "\1\2\3\4");
  const Safetensors read = parse(torch);
  EXPECT_EQ(read.tensors.size(), 2u);
  EXPECT_TRUE(read.tensors.contains("head"));
  EXPECT_EQ(read.metadata.size(), 2u);
  expect_refused(raw_safetensors(R"({"__metadata__":{"weft.aliases":"{\"head\":\"v\"}"},)" + w, "\1\2\3\4"),
                 "cannot tie");
  expect_refused(raw_safetensors(R"({"__metadata__":{"weft.aliases":"{\"w\":\"w\"}"},)" + w, "\1\2\3\4"), "cannot tie");
  expect_refused(raw_safetensors(R"({"__metadata__":{"weft.aliases":"{"},)" + w, "\1\2\3\4"), "not valid JSON");
}

TEST(Safetensors, MetadataThatLooksLikeATieStaysMetadata) {
  const Safetensors read = parse(to_safetensors({{"w", counting({1}, f32)}}, {{"best", "w"}}));
  EXPECT_EQ(read.tensors.size(), 1u);
  EXPECT_EQ(read.metadata.size(), 1u);
  EXPECT_EQ(read.metadata.at("best"), "w");
}

TEST(Safetensors, TheDataMustBeCoveredOnce) {
  const auto two = [](const char* a, const char* b, const char* data) {
    return raw_safetensors(fmt::format(R"({{"a":{{"dtype":"U8","shape":[2],"data_offsets":{}}},"b":{{"dtype":"U8",)"
                                       R"("shape":[2],"data_offsets":{}}}}})",
                                       a, b),
                           data);
  };
  EXPECT_NO_THROW(parse(two("[0,2]", "[2,4]", "1234")));
  EXPECT_NO_THROW(parse(two("[2,4]", "[0,2]", "1234")));
  expect_refused(two("[0,2]", "[1,3]", "123"), "overlaps");
  expect_refused(two("[0,2]", "[0,2]", "12"), "overlaps");
  expect_refused(two("[0,2]", "[3,5]", "12345"), "gap");
  expect_refused(two("[1,3]", "[3,5]", "12345"), "gap");
  expect_refused(two("[0,2]", "[2,4]", "12345"), "1 bytes follow the last tensor");
  expect_refused(two("[0,2]", "[2,4]", "123"), "cut short");
  expect_refused(raw_safetensors("{}", "x"), "1 bytes follow");
}

TEST(Safetensors, HeadersOfTheWrongStructure) {
  expect_refused(raw_safetensors(R"({"w":1})"), "w must be an object");
  expect_refused(raw_safetensors(R"({"w":[]})"), "w must be an object");
  expect_refused(raw_safetensors(R"({"w":{}})"), "tensor w has no dtype");
  expect_refused(raw_safetensors(R"({"w":{"dtype":"U8","shape":[]}})"), "tensor w has no data_offsets");
  expect_refused(raw_safetensors(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"more":{}}})", "1"),
                 "unknown field more");
  expect_refused(raw_safetensors(R"({"__metadata__":{"a":1}})"), "entry a must be a string, got 1");
  expect_refused(raw_safetensors(R"({"__metadata__":{"a":{}}})"), "entry a must be a string");
  expect_refused(raw_safetensors(R"({"__metadata__":"a"})"), "__metadata__ must be an object");
  expect_refused(one_tensor("\"F32\"", "[[1]]", "[0,4]"), "shape of tensor w");
  expect_refused(one_tensor("\"F32\"", "1", "[0,4]"), "shape of tensor w must be an array");
  expect_refused(one_tensor("\"F32\"", "{}", "[0,4]"), "shape of tensor w");
  expect_refused(one_tensor("\"F32\"", "[2]", "[0,4]"), "tensor w of f32[2] needs 8 bytes");
  expect_refused(one_tensor("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0,4]"), "more than 8 dimensions",
                 ErrorCode::unsupported);
  EXPECT_NO_THROW(parse(one_tensor("\"F32\"", "[1,1,1,1,1,1,1,1]", "[0,4]")));
  expect_refused(raw_safetensors("{\"a\xff\":{}}"), "not valid JSON");
  expect_refused(raw_safetensors("{\"w\":" + std::string(100000, '[') + "}"), "w must be an object");
}

TEST(Safetensors, ErrorTextsAreShortAndCarryNoControlCharacters) {
  const std::string long_name(100000, 'n');
  try {
    parse(raw_safetensors("{\"\\u001b[2J" + long_name + "\":{}}"));
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_LT(std::string(error.what()).size(), 500u);
    EXPECT_EQ(std::string(error.what()).find('\x1b'), std::string::npos);
  }
}

TEST(Safetensors, OrderIsKeptAndDataAligned) {
  const StateDict state{{"z", counting({3}, u8)},   {"b", counting({2}, f64)}, {"a", counting({1}, f16)},
                        {"c", counting({5}, i32)},  {"empty", empty({0})},     {"y", counting({1}, boolean)},
                        {"m", counting({2}, bf16)}, {"x", counting({1}, i64)}};
  const std::string file = to_safetensors(state);
  EXPECT_EQ(file, to_safetensors(state));
  const SafetensorsHeader header = read_safetensors_header(bytes_of(file), "test");
  EXPECT_EQ(header.data_start % 8, 0);
  ASSERT_EQ(header.entries.size(), state.size());
  auto expected = state.begin();
  for (const SafetensorsEntry& entry : header.entries) {
    EXPECT_EQ(entry.name, expected->first);
    EXPECT_EQ(entry.begin % size_of(entry.dtype), 0) << entry.name;
    ++expected;
  }
}

TEST(Safetensors, StridedTensorsAreGathered) {
  const Tensor base = arange(24).reshape({2, 3, 4});
  const StateDict state{{"permuted", base.permute({2, 0, 1})},
                        {"sliced", base.slice(2, 1, 4, 2)},
                        {"expanded", arange(3).unsqueeze(1).expand({3, 4})},
                        {"narrowed", base.narrow(1, 1, 2)},
                        {"column", base.select(2, 3)}};
  const Safetensors read = parse(to_safetensors(state));
  for (const auto& [name, tensor] : state) EXPECT_EQ(read.tensors.at(name).to_vector(), tensor.to_vector()) << name;
}

TEST(Safetensors, LoadedTensorsAliasThePrivateMapping) {
  const TemporaryFolder folder;
  const auto path = folder / "x.safetensors";
  save_safetensors({{"w", full({4}, 2.0)}, {"b", counting({3}, u8)}}, path, {{"k", "v"}});
  auto [tensors, metadata] = load_safetensors(path);
  EXPECT_EQ(metadata.at("k"), "v");
  // Two loads alias two mappings; a write is seen by neither the other nor the file.
  const Tensor other = load_safetensors(path).tensors.at("w");
  tensors.at("w").data<float>()[0] = 7;
  EXPECT_EQ(tensors.at("w").to_vector()[0], 7);
  EXPECT_EQ(other.to_vector(), std::vector<double>(4, 2.0));
  EXPECT_EQ(load_safetensors(path, {.copy = true}).tensors.at("w").to_vector(), std::vector<double>(4, 2.0));
  // The memory outlives the map of tensors, and a replaced or removed file.
  save_safetensors({}, path);
  std::filesystem::remove(path);
  EXPECT_EQ(other.to_vector(), std::vector<double>(4, 2.0));
}

TEST(Safetensors, OneTensorOfAFile) {
  const TemporaryFolder folder;
  const auto path = folder / "x.safetensors";
  const Tensor w = full({4}, 2.0);
  save_safetensors({{"w", w}, {"tied", w}, {"b", counting({3}, u8)}}, path);
  const SafetensorsFile file(path);
  EXPECT_TRUE(file.contains("tied"));
  EXPECT_FALSE(file.contains("nothing"));
  EXPECT_EQ(file.tensor("tied").to_vector(), w.to_vector());
  EXPECT_EQ(file.tensor("b", {.copy = true}).to_vector(), (std::vector<double>{1, 2, 3}));
  try {
    file.tensor("nothing");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::not_found);
    EXPECT_NE(std::string(error.what()).find("w, b"), std::string::npos) << error.what();
  }
}

TEST(Safetensors, MisalignedDataAndOddBoolsAreCopied) {
  const TemporaryFolder folder;
  const auto path = folder / "x.safetensors";
  write_file(path, raw_safetensors(R"({"u":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                   R"("f":{"dtype":"F32","shape":[1],"data_offsets":[1,5]},)"
                                   R"("t":{"dtype":"BOOL","shape":[3],"data_offsets":[5,8]}})",
                                   std::string("\1\0\0\x80\x3f\0\1\xff", 8)));
  const StateDict tensors = load_safetensors(path).tensors;
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensors.at("f").data()) % 4, 0u);
  EXPECT_EQ(tensors.at("f").item(), 1.0);
  EXPECT_EQ(tensors.at("t").to_vector(), (std::vector<double>{0, 1, 1}));
}

TEST(Safetensors, WhatCannotBeSaved) {
  const TemporaryFolder folder;
  const auto path = folder / "x.safetensors";
  EXPECT_THROW(save_safetensors({{"w", Tensor()}}, path), Error);
  EXPECT_THROW(save_safetensors({{"w", empty({2}, {.device = meta_device})}}, path), Error);
  EXPECT_THROW(save_safetensors({{"__metadata__", full({1}, 1.0)}}, path), Error);
  EXPECT_THROW(save_safetensors({{"a\xff", full({1}, 1.0)}}, path), Error);
  EXPECT_THROW(save_safetensors({}, path, {{"k", "\xff"}}), Error);
  EXPECT_THROW(save_safetensors({}, path, {{"weft.aliases", "{}"}}), Error);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Safetensors, FilesThatCannotBeOpened) {
  const TemporaryFolder folder;
  const auto code = [](const std::filesystem::path& path) {
    try {
      load_safetensors(path);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(path.string()), std::string::npos) << error.what();
      return error.code();
    }
    return ErrorCode::internal;
  };
  EXPECT_EQ(code(folder / "missing.safetensors"), ErrorCode::not_found);
  EXPECT_EQ(code(folder.path()), ErrorCode::io);
  EXPECT_EQ(code("/dev/null"), ErrorCode::io);
  write_file(folder / "empty.safetensors", "");
  EXPECT_EQ(code(folder / "empty.safetensors"), ErrorCode::corrupt_data);
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const std::string file = to_safetensors({{"a", counting({3}, f32)}, {"b", counting({2}, u8)}}, {{"k", "v"}});
  for (size_t length = 0; length < file.size(); ++length) EXPECT_THROW(parse(file.substr(0, length)), Error) << length;
}

TEST(Safetensors, ManyTensors) {
  StateDict state;
  for (int i = 0; i < 20000; ++i) state["layer." + std::to_string(i) + ".weight"] = counting({1}, u8);
  EXPECT_EQ(parse(to_safetensors(state)).tensors.size(), state.size());
}

TEST(Safetensors, ReadsTheGoldenFiles) {
  const auto folder = testing::goldens_folder();
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << folder << " is missing";
  size_t files = 0;
  for (const std::string& name : testing::golden_names(folder)) {
    const testing::GoldenFile file = testing::load_golden(folder, name);
    if (file.tensors.empty()) continue;
    ++files;
    // Written by another implementation; ours must give the same tensors back.
    const Safetensors again = parse(to_safetensors(file.tensors));
    ASSERT_EQ(again.tensors.size(), file.tensors.size()) << name;
    for (const auto& [key, tensor] : file.tensors) ASSERT_EQ(contents(again.tensors.at(key)), contents(tensor)) << key;
  }
  EXPECT_GT(files, 0u);
}

}  // namespace
}  // namespace weft
