// Splits matrix products into tiles for the pool; the arithmetic is in single_tile.cpp.
#include "kernels/gemm/gemm.h"

#include <algorithm>

#include "kernels/base/parallel.h"
#include "kernels/gemm/single_tile.h"

namespace weft::cpu {
namespace {

// How one m×n×k product is cut. oneDNN packs both operands anew for every tile, so tiles want to be large and squarish;
// two cores want at least two, and more cores more. The figures are flops (2·m·n·k) and were found by measuring.
struct Tiling {
  int64_t rows, columns;  // of a tile
  int64_t row_tiles, column_tiles;
  int64_t tiles() const { return row_tiles * column_tiles; }
};

constexpr double kSmallestTile = 1e6;  // ~10 µs on one core, against ~1 µs to hand a tile to another
constexpr double kUsualTile = 40e6;

// The work a tile should not exceed when there are `flops` in all.
double tile_limit(double flops) { return std::clamp(flops / 2, kSmallestTile, std::max(kUsualTile, flops / 16)); }

int64_t half_rounded_up(int64_t size, int64_t multiple) {
  return ((size + 1) / 2 + multiple - 1) / multiple * multiple;
}

Tiling tiling(int64_t m, int64_t n, int64_t k, double limit) {
  int64_t rows = m, columns = n;
  // The first cut may go down to thin tiles; later ones stop at 128, where packing would begin to show.
  for (int64_t smallest = 32; 2.0 * rows * columns * k > limit; smallest = 256) {
    if (rows >= columns && rows >= smallest)
      rows = half_rounded_up(rows, 8);
    else if (columns >= smallest)
      columns = half_rounded_up(columns, 16);
    else
      break;
  }
  return {rows, columns, (m - 1) / rows + 1, (n - 1) / columns + 1};
}

template <class T>
struct Product {
  bool transpose_a, transpose_b;
  int64_t m, n, k;
  T alpha;
  const T* a;
  int64_t lda;
  const T* b;
  int64_t ldb;
  T beta;
  T* c;
  int64_t ldc;
  const T* bias = nullptr;

  // The part of c that tile number `index` covers.
  void compute(const Tiling& tiling, int64_t index) const {
    const int64_t i = index / tiling.column_tiles * tiling.rows, j = index % tiling.column_tiles * tiling.columns;
    const int64_t rows = std::min(tiling.rows, m - i), columns = std::min(tiling.columns, n - j);
    T* out = c + i * ldc + j;
    T scale = beta;
    if (bias != nullptr) {
      for (int64_t row = 0; row < rows; ++row) std::copy_n(bias + j, columns, out + row * ldc);
      scale = T{1};
    }
    gemm_tile(transpose_a, transpose_b, rows, columns, k, alpha, a + (transpose_a ? i : i * lda), lda,
              b + (transpose_b ? j * ldb : j), ldb, scale, out, ldc);
  }
};

template <class T>
void run(const Product<T>& product) {
  if (product.m <= 0 || product.n <= 0) return;
  // A product of no depth still writes m·n elements.
  const double flops = 2.0 * product.m * product.n * std::max<int64_t>(product.k, 1);
  const Tiling cut = tiling(product.m, product.n, std::max<int64_t>(product.k, 1), tile_limit(flops));
  parallel_for(cut.tiles(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t index = begin; index < end; ++index) product.compute(cut, index);
  });
}

void gemm(Stream, DType dtype, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha,
          const void* a, int64_t lda, const void* b, int64_t ldb, double beta, void* c, int64_t ldc) {
  visit_compute(dtype, "gemm", [&](auto type) {
    using T = typename decltype(type)::type;
    run(Product<T>{transpose_a, transpose_b, m, n, k, static_cast<T>(alpha), static_cast<const T*>(a), lda,
                   static_cast<const T*>(b), ldb, static_cast<T>(beta), static_cast<T*>(c), ldc});
  });
}

void gemm_bias(Stream, DType dtype, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, double alpha,
               const void* a, int64_t lda, const void* b, int64_t ldb, const void* bias, void* c, int64_t ldc) {
  visit_compute(dtype, "gemm", [&](auto type) {
    using T = typename decltype(type)::type;
    run(Product<T>{transpose_a, transpose_b, m, n, k, static_cast<T>(alpha), static_cast<const T*>(a), lda,
                   static_cast<const T*>(b), ldb, T{0}, static_cast<T*>(c), ldc, static_cast<const T*>(bias)});
  });
}

void gemm_batched(Stream, DType dtype, bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k,
                  double alpha, const void* a, int64_t lda, int64_t stride_a, const void* b, int64_t ldb,
                  int64_t stride_b, double beta, void* c, int64_t ldc, int64_t stride_c, int64_t batch) {
  if (m <= 0 || n <= 0 || batch <= 0) return;
  visit_compute(dtype, "gemm_batched", [&](auto type) {
    using T = typename decltype(type)::type;
    const int64_t depth = std::max<int64_t>(k, 1);
    const double flops = 2.0 * m * n * depth;
    const double limit = tile_limit(flops * batch);
    // Small matrices: several to a tile. Large ones: several tiles to a matrix.
    const Tiling cut = flops <= limit ? Tiling{m, n, 1, 1} : tiling(m, n, depth, limit);
    const int64_t group = flops <= limit ? std::max<int64_t>(1, static_cast<int64_t>(limit / flops)) : 1;
    parallel_for(batch * cut.tiles(), group, [&](int64_t begin, int64_t end) {
      for (int64_t index = begin; index < end; ++index) {
        const int64_t matrix = index / cut.tiles();
        const Product<T> product{transpose_a,
                                 transpose_b,
                                 m,
                                 n,
                                 k,
                                 static_cast<T>(alpha),
                                 static_cast<const T*>(a) + matrix * stride_a,
                                 lda,
                                 static_cast<const T*>(b) + matrix * stride_b,
                                 ldb,
                                 static_cast<T>(beta),
                                 static_cast<T*>(c) + matrix * stride_c,
                                 ldc};
        product.compute(cut, index % cut.tiles());
      }
    });
  });
}

}  // namespace

constinit const GemmKernels gemm_kernels{gemm, gemm_batched, gemm_bias};

}  // namespace weft::cpu
