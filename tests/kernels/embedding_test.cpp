// Embedding look-up and its scatter-add gradient.
#include "kernels/embedding/embedding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/base/parallel.h"

namespace weft {
namespace {

TEST(Embedding, CopiesRowsOfAnyDtype) {
  const std::vector<int64_t> indices{2, 0, 2, 1};
  const float weight[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<float> output(13, -1.0f);
  cpu::embedding_kernels.forward({}, f32, weight, indices.data(), output.data(), 4, 3, 3);
  EXPECT_EQ(output, (std::vector<float>{6, 7, 8, 0, 1, 2, 6, 7, 8, 3, 4, 5, -1}));
  const uint8_t bytes[] = {10, 11, 12};
  uint8_t copied[4];
  cpu::embedding_kernels.forward({}, u8, bytes, indices.data(), copied, 4, 3, 1);
  EXPECT_EQ(copied[0], 12);
  EXPECT_EQ(copied[3], 11);
}

template <class T>
std::vector<T> gradient(int64_t count, int64_t vocabulary, int64_t width, int64_t padding, std::vector<T> dweight) {
  std::vector<T> dy(static_cast<size_t>(count * width));
  std::vector<int64_t> indices(static_cast<size_t>(count));
  for (size_t i = 0; i < dy.size(); ++i) dy[i] = static_cast<T>(static_cast<double>(i * 7919 % 1000) / 300 - 1);
  for (int64_t i = 0; i < count; ++i) indices[static_cast<size_t>(i)] = i * i % vocabulary;
  std::vector<double> expected(dweight.begin(), dweight.end());
  for (int64_t i = 0; i < count; ++i) {
    const int64_t row = indices[static_cast<size_t>(i)];
    if (row == padding) continue;
    for (int64_t c = 0; c < width; ++c)
      expected[static_cast<size_t>(row * width + c)] += dy[static_cast<size_t>(i * width + c)];
  }
  cpu::embedding_kernels.backward({}, dtype_of<T>, dy.data(), indices.data(), dweight.data(), count, vocabulary, width,
                                  padding);
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(dweight[i], expected[i], (sizeof(T) == 8 ? 1e-14 : 1e-5) * (1 + std::abs(expected[i]))) << i;
  return dweight;
}

TEST(Embedding, GradientAddsUp) {
  for (const int64_t width : {1, 3, 17, 64, 200}) {
    gradient<float>(300, 7, width, -1, std::vector<float>(static_cast<size_t>(7 * width), 1.0f));
    gradient<float>(50, 11, width, 4, std::vector<float>(static_cast<size_t>(11 * width), 0.0f));
    gradient<double>(50, 11, width, 4, std::vector<double>(static_cast<size_t>(11 * width), 0.5));
  }
}

TEST(Embedding, DoesNotDependOnTheNumberOfThreads) {
  const int before = num_threads();
  set_num_threads(1);
  const auto one = gradient<float>(3000, 13, 200, -1, std::vector<float>(13 * 200));
  set_num_threads(3);
  const auto three = gradient<float>(3000, 13, 200, -1, std::vector<float>(13 * 200));
  set_num_threads(before);
  EXPECT_EQ(one, three);
}

TEST(Embedding, IndicesOutsideTheTableAreNamed) {
  float weight[6] = {}, output[4];
  for (const int64_t bad : {int64_t{3}, int64_t{-1}, int64_t{1} << 40}) {
    const int64_t indices[] = {0, bad};
    try {
      cpu::embedding_kernels.forward({}, f32, weight, indices, output, 2, 3, 2);
      FAIL() << "accepted index " << bad;
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(std::to_string(bad)), std::string::npos) << text;
      EXPECT_NE(text.find("position 1"), std::string::npos) << text;
    }
    EXPECT_THROW(cpu::embedding_kernels.backward({}, f32, output, indices, weight, 2, 3, 2, -1), Error);
  }
}

}  // namespace
}  // namespace weft
