// Scatter on several threads: what a plain loop in order writes, along each dimension, also where positions repeat.
#include "kernels/index/index.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "kernels/base/parallel.h"

namespace weft {
namespace {

constexpr std::array<int64_t, 3> kSizes{17, 30, 700};

// `source` and `index` have kSizes; out has `positions` in place of the size along `dim`.
struct Scattered {
  explicit Scattered(size_t dim, int64_t positions) {
    std::array<int64_t, 3> out_sizes = kSizes;
    out_sizes[dim] = positions;
    const std::array<int64_t, 3> own{kSizes[1] * kSizes[2], kSizes[2], 1};
    std::array<int64_t, 3> to{out_sizes[1] * out_sizes[2], out_sizes[2], 1};
    step = to[dim];
    to[dim] = 0;
    for (size_t d = 0; d < 3; ++d) layout.push(kSizes[d], {own[d], own[d], to[d]});
    layout.collapse();
    const int64_t count = kSizes[0] * kSizes[1] * kSizes[2];
    for (int64_t i = 0; i < count; ++i) {
      source.push_back(static_cast<float>(i % 1013) / 7);
      index.push_back(i * i * 7919 % positions);
    }
    const std::vector<float> zeros(static_cast<size_t>(out_sizes[0] * out_sizes[1] * out_sizes[2]));
    last = sum = zeros;
    for (int64_t i = 0; i < count; ++i) {
      const std::array<int64_t, 3> at{i / own[0], i / own[1] % kSizes[1], i % kSizes[2]};
      const auto k = static_cast<size_t>(i);
      const auto place = static_cast<size_t>(at[0] * to[0] + at[1] * to[1] + at[2] * to[2] + index[k] * step);
      last[place] = source[k];
      sum[place] += source[k];
    }
  }
  Layout<3> layout;
  int64_t step = 0;
  std::vector<int64_t> index;
  std::vector<float> source, last, sum;
};

TEST(Index, ScatterIsThatOfALoopOnAnyNumberOfThreads) {
  const int before = num_threads();
  for (size_t dim = 0; dim < 3; ++dim) {
    for (const int64_t positions : {int64_t{1}, int64_t{5}, int64_t{400}}) {
      const Scattered s(dim, positions);
      for (const int threads : {1, 4}) {
        SCOPED_TRACE(testing::Message() << "dim " << dim << ", " << positions << " positions, " << threads);
        set_num_threads(threads);
        std::vector<float> out(s.last.size());
        cpu::index_kernels.scatter({}, 4, s.layout, s.source.data(), s.index.data(), out.data(), s.step);
        EXPECT_EQ(out, s.last);
        out.assign(out.size(), 0);
        cpu::index_kernels.scatter_add({}, f32, s.layout, s.source.data(), s.index.data(), out.data(), s.step);
        EXPECT_EQ(out, s.sum);
      }
    }
  }
  set_num_threads(before);
}

TEST(Index, ScatterOfOneDimensionAndOfNothing) {
  const std::vector<float> source{1, 2, 3, 4};
  const std::vector<int64_t> index{2, 0, 2, 2};
  Layout<3> layout;
  layout.push(4, {1, 1, 0});
  layout.collapse();
  std::vector<float> out(3);
  cpu::index_kernels.scatter_add({}, f32, layout, source.data(), index.data(), out.data(), 1);
  EXPECT_EQ(out, (std::vector<float>{2, 0, 8}));
  Layout<3> nothing;
  nothing.push(0, {3, 3, 3});
  nothing.push(3, {1, 1, 0});
  cpu::index_kernels.scatter({}, 4, nothing, nullptr, nullptr, nullptr, 1);
}

}  // namespace
}  // namespace weft
