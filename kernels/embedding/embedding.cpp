#include "kernels/embedding/embedding.h"

#include <algorithm>
#include <cstring>

#include "kernels/base/parallel.h"

namespace weft::cpu {
namespace {

constexpr int64_t kTileBytes = 1 << 16;
constexpr int64_t kColumnTile = 64;  // of the backward pass: whole cache lines, enough tiles for a few threads

void check_indices(const int64_t* indices, int64_t count, int64_t vocabulary) {
  for (int64_t i = 0; i < count; ++i) {
    WEFT_CHECK(indices[i] >= 0 && indices[i] < vocabulary, "embedding",
               "index {} at position {} is outside the table; expected 0 to {}", indices[i], i, vocabulary - 1);
  }
}

void forward(Stream, DType dtype, const void* weight, const int64_t* indices, void* output, int64_t count,
             int64_t vocabulary, int64_t width) {
  check_indices(indices, count, vocabulary);
  const int64_t bytes = width * size_of(dtype);
  if (bytes == 0) return;
  const auto* from = static_cast<const std::byte*>(weight);
  auto* to = static_cast<std::byte*>(output);
  parallel_for(count, std::max<int64_t>(1, kTileBytes / bytes), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      std::memcpy(to + i * bytes, from + indices[i] * bytes, static_cast<size_t>(bytes));
  });
}

// A tile owns some columns of the table, so no two threads write to one element and the order of the sums is fixed.
template <class T>
void scatter_add(const T* dy, const int64_t* indices, T* dweight, int64_t count, int64_t width, int64_t padding_index) {
  const int64_t tile = count * width * static_cast<int64_t>(sizeof(T)) <= kTileBytes ? width : kColumnTile;
  parallel_for(width, tile, [&](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < count; ++i) {
      if (indices[i] == padding_index) continue;
      const T* __restrict source = dy + i * width;
      T* __restrict target = dweight + indices[i] * width;
      for (int64_t c = begin; c < end; ++c) target[c] += source[c];
    }
  });
}

void backward(Stream, DType dtype, const void* dy, const int64_t* indices, void* dweight, int64_t count,
              int64_t vocabulary, int64_t width, int64_t padding_index) {
  check_indices(indices, count, vocabulary);
  if (width == 0) return;
  visit_compute(dtype, "embedding", [&](auto type) {
    using T = typename decltype(type)::type;
    scatter_add(static_cast<const T*>(dy), indices, static_cast<T*>(dweight), count, width, padding_index);
  });
}

}  // namespace

constinit const EmbeddingKernels embedding_kernels{forward, backward};

}  // namespace weft::cpu
