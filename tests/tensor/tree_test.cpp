#include "tensor/tree.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "tensor/factory.h"
#include "tensor/json.h"
#include "tensor/tree_file.h"
#include "tests/support/child_process.h"
#include "tests/support/golden.h"

namespace weft {
namespace {

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Tree example() {
  return Tree::map({{"input", full({2, 3}, 1.5)},
                    {"ids", Tree::list({1, 2.5, "three", nullptr, true, full({}, 4.0, i64)})},
                    {"nested", Tree::map({{"z", Tree::list()}, {"a", Tree::map()}})}});
}

TEST(Tree, KindsAndAccessors) {
  EXPECT_TRUE(Tree().is_null());
  EXPECT_TRUE(Tree("text").is_string());  // not bool
  EXPECT_TRUE(Tree(true).is_bool());
  EXPECT_TRUE(Tree(3).is_int());
  EXPECT_TRUE(Tree(size_t{3}).is_int());
  EXPECT_TRUE(Tree(3.0f).is_double());
  EXPECT_EQ(Tree(3).as_double(), 3.0);
  EXPECT_THROW(Tree(3.0).as_int(), Error);
  EXPECT_THROW(Tree(std::numeric_limits<uint64_t>::max()), Error);
  Tree tree;
  tree["b"] = 1;
  tree["a"]["deep"] = "x";
  tree["list"].push_back(5);
  tree["list"].push_back(full({1}, 2.0));
  EXPECT_EQ(tree["a"]["deep"].as_string(), "x");
  EXPECT_EQ(tree["list"][-2].as_int(), 5);
  EXPECT_EQ(tree["list"].size(), 2);
  const Tensor tensor = tree["list"][1];
  EXPECT_EQ(tensor.item(), 2.0);
  std::string keys;
  for (const auto& [key, value] : tree.as_map()) keys += key;
  EXPECT_EQ(keys, "balist");
}

TEST(Tree, ErrorsSayWhatThereIs) {
  const Tree tree = example();
  EXPECT_TRUE(contains(error_of([&] { tree["inputs"]; }), "no key \"inputs\"; there are: input, ids, nested"));
  EXPECT_TRUE(contains(error_of([&] { tree.as_tensor(); }), "expected tensor, got map with the keys input, ids"));
  EXPECT_TRUE(contains(error_of([&] { tree["ids"][6]; }), "index 6 is out of range for a list of 6"));
  EXPECT_TRUE(contains(error_of([&] { tree["ids"]["x"]; }), "expected map, got list of 6"));
  EXPECT_TRUE(contains(error_of([&] { tree["ids"][2].as_int(); }), "expected integer, got string"));
  EXPECT_TRUE(contains(error_of([&] { Tree::map({{"a", 1}, {"a", 2}}); }), "\"a\" is there already"));
}

TEST(Tree, PartsOfItselfAreSafeToAssign) {
  Tree tree = example();
  tree["again"] = tree["input"];
  EXPECT_EQ(tree["again"].as_tensor().to_vector(), full({2, 3}, 1.5).to_vector());
  tree["ids"].push_back(tree["ids"]);
  EXPECT_EQ(tree["ids"][6].size(), 6);
  tree = tree["ids"];
  EXPECT_EQ(tree.size(), 7);
  tree = std::move(tree[6]);
  EXPECT_EQ(tree.size(), 6);
}

TEST(Tree, TensorsAreVisitedInOrder) {
  const Tree tree = example();
  std::vector<int64_t> sizes;
  tree.for_each_tensor([&](const Tensor& t) { sizes.push_back(t.numel()); });
  EXPECT_EQ(sizes, (std::vector<int64_t>{6, 1}));
  const Tree halves = tree.map_tensors([](const Tensor& t) { return t.to(f16); });
  EXPECT_EQ(halves["input"].as_tensor().dtype(), f16);
  EXPECT_EQ(halves["ids"][2].as_string(), "three");
  EXPECT_TRUE(same_structure(tree, halves));
  EXPECT_FALSE(tree == halves);
  const Tree shapes = tree.map_tensors([](const Tensor& t) { return t.dim(); });
  EXPECT_EQ(shapes["input"].as_int(), 2);
  EXPECT_FALSE(same_structure(tree, shapes));
}

TEST(Tree, Equality) {
  EXPECT_TRUE(example() == example());
  EXPECT_FALSE(Tree(1) == Tree(1.0));
  EXPECT_TRUE(Tree(NAN) == Tree(NAN));
  EXPECT_FALSE(Tree(0.0) == Tree(-0.0));
  EXPECT_FALSE(Tree::map({{"a", 1}, {"b", 2}}) == Tree::map({{"b", 2}, {"a", 1}}));
  EXPECT_FALSE(same_structure(Tree::map({{"a", 1}}), Tree::map({{"b", 1}})));
  EXPECT_FALSE(same_structure(Tree::list({1}), Tree::list({1, 2})));
  EXPECT_TRUE(same_structure(Tree::list({1, "a"}), Tree::list({2, "b"})));
}

TEST(Tree, Printing) {
  EXPECT_EQ(
      to_string(example()),
      "{\"input\": f32[2, 3], \"ids\": [1, 2.5, \"three\", null, true, i64[]], \"nested\": {\"z\": [], \"a\": {}}}");
  std::ostringstream out;
  out << Tree::list({1, "\n"});
  EXPECT_EQ(out.str(), "[1, \"\\n\"]");
  EXPECT_EQ(fmt::format("{}", Tree(nullptr)), "null");
}

TEST(Json, RoundTrip) {
  const Tree tree = parse_json(R"( {"z":[1,-2,0.1,1e300,-0.0,9223372036854775807,-9223372036854775808,9007199254740993],
                                    "a":{"t":true,"f":false,"n":null,"s":"\u00e9\ud83d\ude00\n\""},"e":[],"o":{}} )");
  EXPECT_EQ(tree["z"][5].as_int(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(tree["z"][6].as_int(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(tree["z"][7].as_int(), 9007199254740993);
  EXPECT_TRUE(std::signbit(tree["z"][4].as_double()));
  EXPECT_EQ(tree["a"]["s"].as_string(), "é😀\n\"");
  EXPECT_TRUE(parse_json(to_json(tree)) == tree);
  EXPECT_TRUE(parse_json(to_json(tree, 2)) == tree);
  EXPECT_EQ(to_json(Tree::list({1, 2.0, "a", nullptr})), "[1,2.0,\"a\",null]");
  EXPECT_EQ(to_json(Tree::map({{"a", Tree::list({1, 2})}, {"b", Tree::map()}}), 2),
            "{\n  \"a\": [1, 2],\n  \"b\": {}\n}");
}

TEST(Json, WhatIsRefused) {
  const auto refused = [](std::string_view text, const std::string& why) {
    const std::string error = error_of([&] { parse_json(text, "config.json"); });
    EXPECT_TRUE(contains(error, why) && contains(error, "config.json")) << text << ": " << error;
  };
  for (const char* text :
       {"",   " ",   "{",      "[1,]", "{\"a\"}", "{a:1}",   "nul",         "01",       "+1",           ".5",
        "1.", "'a'", "\"\t\"", "NaN",  "[1] 2",   "\"\\x\"", "\"\\ud800\"", "\"\xff\"", "\"\xc0\x80\"", "// x\n1"})
    refused(text, "not valid JSON at byte");
  refused("{\"a\":1,\"a\":2}", "duplicate key a");
  refused("{\"x\":{\"b\":1,\"\\u0062\":2}}", "duplicate key b");
  refused("9223372036854775808", "does not fit 64 bits");
  refused("-9223372036854775809", "does not fit 64 bits");
  refused("123456789012345678901234567890", "does not fit 64 bits");
  refused("1e999", "the number is too large");
  refused(std::string_view("1\0", 2), "zero byte");
  refused("\xef\xbb\xbf{}", "byte order mark");
  refused(std::string(100000, '['), "nested deeper than 200");
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "{\"a\":";
  refused(deep, "nested deeper than 200");
  EXPECT_EQ(parse_json(std::string(200, '[') + std::string(200, ']')).size(), 1);
  EXPECT_TRUE(contains(error_of([] { to_json(Tree(NAN)); }), "JSON has no number for nan"));
  EXPECT_TRUE(contains(error_of([] { to_json(example()); }), "JSON cannot hold f32[2, 3]"));
  EXPECT_TRUE(contains(error_of([] { to_json(Tree("\xff")); }), "not UTF-8"));
}

TEST(Json, Printable) {
  EXPECT_EQ(printable("a\x1b[2J\n\x7f\xc2\x9b"), "a\\u001b[2J\\n\\u007f\\u009b");
  EXPECT_EQ(printable("say \"a\\b\""), "say \"a\\\\b\"");
  EXPECT_EQ(printable("ééé", 3), "é…");
  EXPECT_EQ(printable("é", 2), "é");
  EXPECT_FALSE(printable("\xff\xfe").empty());
}

TEST(TreeFile, RoundTrip) {
  const test::TemporaryFolder folder;
  const auto path = folder / "state.safetensors";
  Tree tree = example();
  tree["$own"] = Tree::map({{"$tensor", "not one"}, {"$$", 1}});
  tree["numbers"] = Tree::list({std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(), NAN,
                                -0.0, 0.1, std::numeric_limits<int64_t>::min()});
  tree["a.b"] = full({1}, 1.0);
  tree["a"]["b"] = full({1}, 2.0);
  tree[""] = full({1}, 3.0);
  tree["__metadata__"] = full({1}, 4.0);
  tree[std::string_view("zero\0byte", 9)] = full({1}, 5.0);
  save_tree(tree, path);
  EXPECT_TRUE(load_tree(path) == tree) << load_tree(path);
  EXPECT_TRUE(load_tree(path, {.copy = true}) == tree);
  const SafetensorsFile file(path);
  EXPECT_TRUE(file.contains("input"));
  EXPECT_TRUE(file.contains("ids.5"));
  for (const Tree& small : {Tree(), Tree(1), Tree("x"), Tree::list(), Tree(full({2}, 1.0))}) {
    save_tree(small, path);
    EXPECT_TRUE(load_tree(path) == small) << small;
  }
}

TEST(TreeFile, SharedTensorsStayShared) {
  const Tensor weight = full({2}, 1.0);
  const std::string file = to_tree_file(Tree::map({{"a", weight}, {"b", Tree::list({weight})}}));
  const auto bytes = std::as_bytes(std::span(file.data(), file.size()));
  EXPECT_EQ(read_safetensors_header(bytes, "test").entries.size(), 1u);
  const Tree read = parse_tree_file(bytes);
  EXPECT_EQ(read["a"].as_tensor().storage(), read["b"][0].as_tensor().storage());
}

TEST(TreeFile, BadFiles) {
  const auto refused = [](const StateDict& tensors, const Metadata& metadata, const std::string& why) {
    const std::string file = to_safetensors(tensors, metadata);
    const std::string error =
        error_of([&] { parse_tree_file(std::as_bytes(std::span(file.data(), file.size())), "f"); });
    EXPECT_TRUE(contains(error, why)) << error;
  };
  const StateDict one{{"w", full({1}, 1.0)}};
  refused(one, {}, "without a tree");
  refused(one, {{"weft.tree", "{"}}, "not valid JSON");
  refused(one, {{"weft.tree", R"({"$tensor":"v"})"}}, "the file has no tensor v");
  refused(one, {{"weft.tree", R"({"$tensor":"w","x":1})"}}, "must stand alone");
  refused(one, {{"weft.tree", R"({"$tensor":1})"}}, "must stand alone");
  refused(one, {{"weft.tree", R"({"$other":"w"})"}}, "unknown mark $other");
  refused({}, {{"weft.tree", R"({"$real":"1"})"}}, "unknown mark $real");
  refused(one, {{"weft.tree", "[]"}}, "1 of the file's 1 tensors are not in its tree");
  EXPECT_TRUE(contains(error_of([] {
                         to_tree_file(Tree::map({{"grad", Tensor()}}));
                       }),
                       "the tensor at grad is undefined"));
}

TEST(Golden, TensorsInJson) {
  const Tensor t =
      testing::golden_tensor(parse_json(R"({"shape":[2,2],"dtype":"float32","data":[1.5,"nan","-inf",3]})"));
  EXPECT_EQ(t.shape(), Shape({2, 2}));
  const std::vector<double> values = t.to_vector();
  EXPECT_EQ(values[0], 1.5);
  EXPECT_TRUE(std::isnan(values[1]));
  EXPECT_EQ(values[2], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(values[3], 3);
  EXPECT_EQ(testing::golden_tensor(parse_json(R"({"shape":[],"dtype":"bool","data":[true]})")).dtype(), boolean);
  EXPECT_EQ(testing::golden_tensor(parse_json(R"({"shape":[0],"dtype":"int64","data":[]})")).numel(), 0);
  EXPECT_THROW(testing::golden_tensor(parse_json(R"({"shape":[2],"dtype":"int8","data":[1,300]})")), Error);
  EXPECT_THROW(testing::golden_tensor(parse_json(R"({"shape":[2],"dtype":"int8","data":[1]})")), Error);
  EXPECT_THROW(testing::golden_tensor(parse_json(R"({"shape":[1],"dtype":"int3","data":[1]})")), Error);
}

TEST(Golden, EveryIndexIsRead) {
  const auto folder = testing::goldens_folder();
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << folder << " is missing";
  int64_t tensors = 0;
  const std::function<void(const Tree&)> walk = [&](const Tree& tree) {
    if (testing::is_golden_tensor(tree)) {
      testing::golden_tensor(tree);
      ++tensors;
    } else if (tree.is_list()) {
      for (const Tree& child : tree.as_list()) walk(child);
    } else if (tree.is_map()) {
      for (const auto& [key, child] : tree.as_map()) walk(child);
    }
  };
  for (const std::string& name : testing::golden_names(folder)) {
    const testing::GoldenFile file = testing::load_golden(folder, name);
    EXPECT_TRUE(file.index.contains("meta")) << name;
    walk(file.index);
  }
  EXPECT_GT(tensors, 0);
}

}  // namespace
}  // namespace weft
