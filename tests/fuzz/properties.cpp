#include "tests/fuzz/properties.h"

#include <cstring>
#include <limits>
#include <stdexcept>

#include "tensor/factory.h"
#include "tensor/json.h"
#include "tensor/safetensors.h"
#include "tensor/tree_file.h"

namespace weft::fuzz {

namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

void require(bool condition, const char* what) {
  if (!condition) throw std::logic_error(what);
}

// Runs `read` and says whether it took the input; errors other than "this input is bad" are ours.
template <class F>
bool accepts(F&& read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    require(error.code() == ErrorCode::corrupt_data || error.code() == ErrorCode::unsupported, error.what());
    require(std::string_view(error.what()).size() < 2000, "an error text without bounds");
    require(std::string_view(error.what()).find('\n') == std::string_view::npos, "an error text of several lines");
    return false;
  }
}

Tree as_tree(const Safetensors& file) {
  Tree tensors = Tree::map();
  for (const auto& [name, tensor] : file.tensors) tensors[name] = tensor;
  Tree metadata = Tree::map();
  for (const auto& [key, value] : file.metadata) metadata[key] = value;
  return Tree::map({{"tensors", tensors}, {"metadata", metadata}});
}

Tensor filled(const Shape& shape, DType dtype, int start = 1) {
  Tensor tensor = empty(shape, dtype);
  auto* out = tensor.numel() ? static_cast<unsigned char*>(tensor.data()) : nullptr;
  for (int64_t i = 0; i < tensor.nbytes(); ++i)
    out[i] = static_cast<unsigned char>(dtype == DType::boolean ? i % 2 : start + 7 * i);
  return tensor;
}

}  // namespace

bool check_safetensors(std::span<const std::byte> file) {
  Safetensors first;
  if (!accepts([&] { first = parse_safetensors(file, "input"); })) return false;
  const std::string written = to_safetensors(first.tensors, first.metadata);
  const Safetensors second = parse_safetensors(bytes_of(written), "written");
  require(as_tree(first) == as_tree(second), "tensors changed by writing and reading");
  require(to_safetensors(second.tensors, second.metadata) == written, "the second writing gave other bytes");
  Tree tree;
  if (accepts([&] { tree = parse_tree_file(file, "input"); })) {
    (void)to_string(tree);
    const std::string tree_file = to_tree_file(tree);
    require(parse_tree_file(bytes_of(tree_file)) == tree, "a tree changed by writing and reading");
  }
  return true;
}

bool check_json(std::string_view text) {
  Tree tree;
  if (!accepts([&] { tree = parse_json(text, "input"); })) return false;
  (void)to_string(tree);
  require(parse_json(to_json(tree)) == tree, "JSON changed by writing and reading");
  require(parse_json(to_json(tree, 2)) == tree, "JSON changed by writing with an indent and reading");
  return true;
}

std::string raw_safetensors(std::string_view header, std::string_view data) {
  const uint64_t length = header.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof(length));
  file += header;
  file += data;
  return file;
}

std::vector<std::string> safetensors_seeds() {
  std::vector<std::string> seeds;
  StateDict all;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    all[name(dtype)] = filled({2, 3}, dtype, i);
  }
  all["scalar"] = filled({}, f32);
  all["empty"] = filled({0, 4}, f32);
  seeds.push_back(to_safetensors(all));
  seeds.push_back(to_safetensors(all, {{"format", "pt"}, {"note", "scalar"}}));
  StateDict tied{{"embed.weight", filled({2, 2}, f16)}};
  tied["head.weight"] = tied.at("embed.weight");
  seeds.push_back(to_safetensors(tied));
  seeds.push_back(to_safetensors({}, {{"key", "value"}}));
  seeds.push_back(to_safetensors({}));
  seeds.push_back(to_tree_file(Tree::map({{"weight", filled({3}, f32)},
                                          {"groups", Tree::list({1, 2.5, "text", nullptr, true, filled({}, i64)})},
                                          {"$own", std::numeric_limits<double>::infinity()}})));
  seeds.push_back(to_tree_file(filled({2}, u8)));
  seeds.push_back(to_tree_file(Tree::list({-1, -0.0, 1e300, "é\n\u2028"})));

  const std::string one = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  seeds.push_back(raw_safetensors(one + "}", "\1\2\3\4"));
  seeds.push_back(raw_safetensors(R"({"w":{"shape":[2],"data_offsets":[0,2],"dtype":"BOOL"}})", "\1\2"));
  seeds.push_back(raw_safetensors(R"({"__metadata__":{"b":"w"},)" + one.substr(1) + "}   ", "\1\2\3\4"));
  seeds.push_back(
      raw_safetensors(R"({"__metadata__":{"weft.aliases":"{\"b\":\"w\"}"},)" + one.substr(1) + "}", "\1\2\3\4"));
  for (const char* offsets : {"[]", "[0]", "[0,1,2]", "[5,1]", R"(["0",4])", "[1.5,4]", "-1", "[8,4]", "[-4,4]",
                              "[18446744073709551612,18446744073709551615]", "null", "{}", "[[0,4]]"})
    seeds.push_back(raw_safetensors(fmt::format(R"({{"w":{{"dtype":"F32","shape":[1],"data_offsets":{}}}}})", offsets),
                                    "\1\2\3\4"));
  for (const char* shape : {"[4294967296,4294967296]", "[9223372036854775808,2]", "[-1,4]", "[0,9223372036854775807,8]",
                            "[1,1,1,1,1,1,1,1]", "[1,1,1,1,1,1,1,1,1]", "[1e0]", "1"})
    seeds.push_back(raw_safetensors(fmt::format(R"({{"w":{{"dtype":"F32","shape":{},"data_offsets":[0,4]}}}})", shape),
                                    "\1\2\3\4"));
  seeds.push_back(raw_safetensors(one + "," + one.substr(1) + "}", "\1\2\3\4"));
  seeds.push_back(raw_safetensors(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]},)"
                                  R"("b":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})",
                                  "\1\2\3"));
  seeds.push_back(std::string(16, '\xff'));
  return seeds;
}

std::vector<std::string> json_seeds() {
  return {R"({"a":[1,-2,3.5,1e-7,"x\u0041\n\ud83d\ude00",true,false,null,{}],"b":{"c":[]}})",
          R"([9223372036854775807,-9223372036854775808,9007199254740993,0.1,-0.0])",
          R"({"a":1,"a":2})",
          R"([1e999])",
          R"([18446744073709551615])",
          R"("\ud800")",
          std::string(300, '['),
          " \t\r\n7 ",
          "\xef\xbb\xbf{}"};
}

}  // namespace weft::fuzz
