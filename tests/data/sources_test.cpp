#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "data/loader.h"
#include "data/shard.h"
#include "data/sources/data_directory.h"
#include "data/sources/digits.h"
#include "data/sources/text.h"
#include "tensor/factory.h"
#include "tensor/file.h"

namespace weft::data {
namespace {

class Sources : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "weft_sources_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  std::filesystem::path folder;
};

std::string digit_row(int fill, int digit) {
  std::string row;
  for (int i = 0; i < 64; ++i) row += std::to_string((fill + i) % 17) + ",";
  return row + std::to_string(digit) + "\n";
}

template <class F>
std::string error_of(F&& f, ErrorCode code) {
  try {
    f();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST_F(Sources, DigitsSplitAndScale) {
  std::string text;
  for (int row = 0; row < 23; ++row) text += digit_row(row, row % 10);
  write_file(folder / "digits.csv", text);
  const auto file = folder / "digits.csv";
  const auto train = digits("train", {.file = file}), test = digits("test", {.file = file});
  EXPECT_EQ(train->size(), 19);
  EXPECT_EQ(test->size(), 4);
  EXPECT_EQ(digits("all", {.file = file})->size(), 23);
  auto [pixels, label] = test->get(1);  // row 9
  EXPECT_EQ(label.item<int64_t>(), 9);
  EXPECT_EQ(pixels.dtype(), f32);
  EXPECT_EQ(pixels.shape(), (Shape{64}));
  EXPECT_EQ(pixels.view<float>()(0), 9.0f / 16);
  EXPECT_EQ(pixels.view<float>()(7), 1.0f);
  const auto images = digits("test", {.image = true, .file = file});
  const int64_t both[] = {1, 0};
  const Batch batch = images->get_batch(both);
  EXPECT_EQ(batch["input"].as_tensor().shape(), (Shape{2, 1, 8, 8}));
  EXPECT_EQ(batch["input"].as_tensor().view<float>()(0, 0, 0, 0), 9.0f / 16);
  EXPECT_EQ(batch["target"].as_tensor().to_vector(), (std::vector<double>{9, 4}));
}

TEST_F(Sources, DigitsErrors) {
  ASSERT_EQ(setenv("WEFT_DATA_DIR", folder.c_str(), 1), 0);
  const std::string missing = error_of([] { digits("train"); }, ErrorCode::not_found);
  unsetenv("WEFT_DATA_DIR");
  for (const char* part : {"digits.csv", folder.c_str(), "./dev data"})
    EXPECT_NE(missing.find(part), std::string::npos) << missing;
  error_of([] { digits("dev"); }, ErrorCode::invalid_argument);

  const auto file = folder / "bad.csv";
  const std::vector<std::string> bad = {"1,2,3\n",
                                        digit_row(0, 12),
                                        digit_row(0, 3).substr(1),
                                        "17" + digit_row(0, 3).substr(1),
                                        "nan" + digit_row(0, 3).substr(1),
                                        "-1" + digit_row(0, 3).substr(1),
                                        digit_row(0, 3).substr(0, 140) + "\n",
                                        digit_row(0, 3).insert(0, "0,"),
                                        std::string(300, '\0')};
  for (const std::string& line : bad) {
    write_file(file, digit_row(0, 1) + line);
    const std::string text = error_of([&] { digits("all", {.file = file}); }, ErrorCode::corrupt_data);
    EXPECT_NE(text.find("line 2"), std::string::npos) << text;
  }
  write_file(file, "");
  error_of([&] { digits("all", {.file = file}); }, ErrorCode::corrupt_data);
}

TEST_F(Sources, TheRealDigits) {
  if (!std::filesystem::exists(data_directory() / "digits.csv")) GTEST_SKIP() << "digits.csv is not here";
  EXPECT_EQ(digits("train")->size(), 1438);
  EXPECT_EQ(digits("test")->size(), 359);
  std::vector<int> seen(10);
  for (const double digit : digits("all")->tensors().at("target").to_vector()) ++seen[static_cast<size_t>(digit)];
  EXPECT_EQ(seen, (std::vector<int>{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}));
}

TEST_F(Sources, TextSplitsEachFileAndSortsTheVocabulary) {
  write_file(folder / "b_gut.txt", "0123456789abcdefghiJ");  // 18 train, 2 validation
  write_file(folder / "a_gut.txt", "\xe9zzzzzzzz");          // 9: nothing to validate with
  write_file(folder / "c.txt", "ignored");
  const TextCorpus corpus = load_text(folder);
  EXPECT_EQ(corpus.train.dtype(), u8);
  EXPECT_EQ(corpus.vocabulary.characters(), "0123456789Jabcdefghiz\xe9");
  EXPECT_EQ(corpus.vocabulary.decode(corpus.train), "\xe9zzzzzzzz0123456789abcdefgh");
  EXPECT_EQ(corpus.vocabulary.decode(corpus.validation), "iJ");
  const Vocabulary& vocabulary = corpus.vocabulary;
  EXPECT_EQ(Vocabulary(vocabulary.characters()).characters(), vocabulary.characters());
  EXPECT_EQ(vocabulary.encode("a0\xe9").to_vector(), (std::vector<double>{11, 0, 21}));
  EXPECT_TRUE(vocabulary.contains('z'));
  EXPECT_FALSE(vocabulary.contains('y'));
  const std::string text = error_of([&] { vocabulary.encode("ab?"); }, ErrorCode::invalid_argument);
  EXPECT_NE(text.find("character 2"), std::string::npos) << text;
  error_of([&] { vocabulary.decode(tensor({1.0, 99.0}, {.dtype = i64})); }, ErrorCode::invalid_argument);
  error_of([&] { vocabulary.decode(zeros({2})); }, ErrorCode::unsupported);

  const std::string missing = error_of([&] { load_text(folder / "nowhere"); }, ErrorCode::not_found);
  for (const char* part : {"nowhere", "./dev data"}) EXPECT_NE(missing.find(part), std::string::npos) << missing;
  error_of([&] { load_text(folder, "_none.txt"); }, ErrorCode::not_found);
}

TEST_F(Sources, Latin1) {
  EXPECT_EQ(latin1_to_utf8("a\xe9\xff"), "a\xc3\xa9\xc3\xbf");
  EXPECT_EQ(utf8_to_latin1("a\xc3\xa9\xc3\xbf"), "a\xe9\xff");
  for (const char* bad : {"\xe9", "\xc3", "\xc4\x80", "\xc3z", "\x80"})
    error_of([&] { utf8_to_latin1(bad); }, ErrorCode::invalid_argument);
}

TEST_F(Sources, WindowsWithoutOverlap) {
  for (const DType dtype : {u8, i32, i64}) {
    Tensor tokens = empty({32}, dtype);
    for (int64_t i = 0; i < 32; ++i) {
      if (dtype == u8) tokens.view<uint8_t>()(i) = static_cast<uint8_t>(i);
      if (dtype == i32) tokens.view<int32_t>()(i) = static_cast<int32_t>(i);
      if (dtype == i64) tokens.view<int64_t>()(i) = i;
    }
    const TextDataset windows(tokens, 10);
    EXPECT_EQ(windows.size(), 3);
    EXPECT_FALSE(windows.endless());
    const int64_t picked[] = {2, 0};
    auto [input, target] = windows.get_batch(picked);
    EXPECT_EQ(input.dtype(), i64);
    EXPECT_EQ(input.shape(), (Shape{2, 10}));
    EXPECT_EQ(input.view<int64_t>()(0, 0), 20);
    EXPECT_EQ(target.view<int64_t>()(0, 9), 30);
    EXPECT_EQ(input.view<int64_t>()(1, 3), 3);
    EXPECT_EQ(windows.get(1)["input"].as_tensor().to_vector().front(), 10);
    EXPECT_EQ(windows.get_batch({})["input"].as_tensor().shape(), (Shape{0, 10}));
    error_of([&] { windows.get(3); }, ErrorCode::invalid_argument);
    error_of([&] { TextDataset(tokens, 32); }, ErrorCode::invalid_argument);
    EXPECT_EQ(TextDataset(tokens, 31).size(), 1);
  }
  error_of([] { TextDataset(zeros({20}), 4); }, ErrorCode::unsupported);
  error_of([] { TextDataset(zeros({4, 5}, u8), 4); }, ErrorCode::invalid_argument);
  error_of([] { TextDataset(zeros({20}, u8), {.context = 4, .size = 3}); }, ErrorCode::invalid_argument);
}

TEST_F(Sources, RandomWindowsDependOnSeedAndSampleAlone) {
  Tensor tokens = empty({1000}, i32);
  for (int64_t i = 0; i < 1000; ++i) tokens.view<int32_t>()(i) = static_cast<int32_t>(i);
  const auto make = [&](uint64_t seed) {
    return std::make_shared<TextDataset>(tokens, TextOptions{.context = 8, .random = true, .seed = seed, .size = 24});
  };
  const auto dataset = make(3);
  std::set<int64_t> places;
  for (int64_t i = 0; i < 20000; ++i) {
    const int64_t place = dataset->offset(i);
    ASSERT_TRUE(place >= 0 && place <= 991);
    places.insert(place);
  }
  EXPECT_EQ(places.size(), 992u) << "every place is drawn, the last one too";
  EXPECT_NE(make(4)->offset(0), dataset->offset(0));

  // 1, 2, 3 and 5 ranks, with and without workers, over two epochs: the same global order.
  const auto order = [&](int world, int workers) {
    std::vector<int64_t> starts;
    std::vector<DataLoaderShard> ranks;
    for (int rank = 0; rank < world; ++rank)
      ranks.emplace_back(DataLoader(make(3), {.batch_size = 12, .num_workers = workers}),
                         ShardOptions{.rank = rank, .world_size = world, .split_batches = true, .allow_uneven = true});
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<DataLoader::Iterator> at;
      for (auto& rank : ranks) at.push_back(rank.begin());
      while (!(at[0] == std::default_sentinel))
        for (auto& iterator : at) {
          const Tensor input = (*iterator)["input"];
          for (int64_t row = 0; row < input.size(0); ++row) starts.push_back(input.view<int64_t>()(row, 0));
          ++iterator;
        }
    }
    return starts;
  };
  std::vector<int64_t> want;
  for (int64_t i = 0; i < 48; ++i) want.push_back(dataset->offset(i));
  for (const int world : {1, 2, 3, 5})
    for (const int workers : {0, 2})
      EXPECT_EQ(order(world, workers), want) << world << " ranks, " << workers << " workers";
}

}  // namespace
}  // namespace weft::data
