// The small matrix products inside attention: C (+)= A · B with B and C in scratch memory whose rows are whole vectors.
//
//   tile_gemm(rows, columns, depth, a, a_row, a_column, b, ldb, c, ldc, accumulate);   // columns: multiple of the lanes
//
// A may have any strides, so Pᵀ · dO needs no transposed copy. A register tile of kTileRows × 2 vectors of C is kept
// while the depth runs: each step loads two vectors of B and broadcasts kTileRows elements of A.
#if defined(WEFT_KERNELS_ATTENTION_TILE_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_ATTENTION_TILE_GEMM_INL_H_
#undef WEFT_KERNELS_ATTENTION_TILE_GEMM_INL_H_
#else
#define WEFT_KERNELS_ATTENTION_TILE_GEMM_INL_H_
#endif

#include "kernels/base/simd_math-inl.h"

// Register tiles live in arrays: their loops must vanish.
#undef WEFT_UNROLL
#define WEFT_UNROLL _Pragma("GCC unroll 8")

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

// 32 registers hold 8 × 2 accumulators and their operands, 16 registers hold 4 × 2.
inline constexpr int kTileRows = HWY_MAX_BYTES >= 64 ? 8 : 4;

template <int rows, int vectors>
HWY_INLINE void gemm_tile(int64_t depth, const float* HWY_RESTRICT a, int64_t a_row, int64_t a_column,
                          const float* HWY_RESTRICT b, int64_t ldb, float* HWY_RESTRICT c, int64_t ldc,
                          bool accumulate) {
  const FloatTag d;
  const int64_t lanes = lanes_of(d);
  FloatVector sum[rows][vectors];
  WEFT_UNROLL
  for (int i = 0; i < rows; ++i) {
    WEFT_UNROLL
    for (int j = 0; j < vectors; ++j) sum[i][j] = accumulate ? hn::Load(d, c + i * ldc + j * lanes) : hn::Zero(d);
  }
  for (int64_t p = 0; p < depth; ++p, a += a_column, b += ldb) {
    FloatVector right[vectors];
    WEFT_UNROLL
    for (int j = 0; j < vectors; ++j) right[j] = hn::Load(d, b + j * lanes);
    WEFT_UNROLL
    for (int i = 0; i < rows; ++i) {
      const auto left = hn::Set(d, a[i * a_row]);
      WEFT_UNROLL
      for (int j = 0; j < vectors; ++j) sum[i][j] = hn::MulAdd(left, right[j], sum[i][j]);
    }
  }
  WEFT_UNROLL
  for (int i = 0; i < rows; ++i) {
    WEFT_UNROLL
    for (int j = 0; j < vectors; ++j) hn::Store(sum[i][j], d, c + i * ldc + j * lanes);
  }
}

template <int vectors>
HWY_INLINE void gemm_panel(int64_t rows, int64_t depth, const float* a, int64_t a_row, int64_t a_column, const float* b,
                           int64_t ldb, float* c, int64_t ldc, bool accumulate) {
  int64_t i = 0;
  for (; i + kTileRows <= rows; i += kTileRows)
    gemm_tile<kTileRows, vectors>(depth, a + i * a_row, a_row, a_column, b, ldb, c + i * ldc, ldc, accumulate);
  if (kTileRows == 8 && i + 4 <= rows) {
    gemm_tile<4, vectors>(depth, a + i * a_row, a_row, a_column, b, ldb, c + i * ldc, ldc, accumulate);
    i += 4;
  }
  if (i + 2 <= rows) {
    gemm_tile<2, vectors>(depth, a + i * a_row, a_row, a_column, b, ldb, c + i * ldc, ldc, accumulate);
    i += 2;
  }
  if (i < rows) gemm_tile<1, vectors>(depth, a + i * a_row, a_row, a_column, b, ldb, c + i * ldc, ldc, accumulate);
}

// C[rows, columns] = (accumulate ? C : 0) + A[rows, depth] · B[depth, columns]. B and C are aligned to whole vectors, as
// are their row lengths ldb and ldc, and `columns` is a multiple of the lanes.
HWY_NOINLINE void tile_gemm(int64_t rows, int64_t columns, int64_t depth, const float* a, int64_t a_row,
                            int64_t a_column, const float* b, int64_t ldb, float* c, int64_t ldc, bool accumulate) {
  const int64_t lanes = lanes_of(FloatTag());
  int64_t j = 0;
  for (; j + 2 * lanes <= columns; j += 2 * lanes)
    gemm_panel<2>(rows, depth, a, a_row, a_column, b + j, ldb, c + j, ldc, accumulate);
  if (j < columns) gemm_panel<1>(rows, depth, a, a_row, a_column, b + j, ldb, c + j, ldc, accumulate);
}

// Copies `rows` vectors of `width` floats, `stride` apart, times `factor`, to rows of `ld` floats filled up with zeros.
HWY_INLINE void pack_rows(const float* from, int64_t stride, int64_t rows, int64_t width, float factor, float* to,
                          int64_t ld) {
  const FloatTag d;
  const auto scale = hn::Set(d, factor);
  for (int64_t row = 0; row < rows; ++row, from += stride, to += ld) {
    for_row(d, width,
            [&](auto load, auto, int64_t i) HWY_ATTR { hn::Store(hn::Mul(load(from + i, 0.0f), scale), d, to + i); });
  }
}

// Stores rows of `ld` floats back to vectors of `width` floats, `stride` apart.
HWY_INLINE void unpack_rows(const float* from, int64_t ld, int64_t rows, int64_t width, float* to, int64_t stride) {
  const FloatTag d;
  for (int64_t row = 0; row < rows; ++row, from += ld, to += stride) {
    for_row(d, width, [&](auto load, auto store, int64_t i) HWY_ATTR { store(load(from + i, 0.0f), to + i); });
  }
}

// The same transposed: to[i · ld + row] = from[row · stride + i], zeros for the rows up to the next whole vector.
HWY_INLINE void pack_transposed(const float* from, int64_t stride, int64_t rows, int64_t width, float* to, int64_t ld) {
  const int64_t lanes = lanes_of(FloatTag());
  int64_t row = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::Full128<float> d;
  const hn::Full128<double> pairs;
  for (; row + 4 <= rows; row += 4) {
    const float* source = from + row * stride;
    int64_t i = 0;
    for (; i + 4 <= width; i += 4) {
      const auto r0 = hn::LoadU(d, source + i);
      const auto r1 = hn::LoadU(d, source + i + stride);
      const auto r2 = hn::LoadU(d, source + i + 2 * stride);
      const auto r3 = hn::LoadU(d, source + i + 3 * stride);
      const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, r0, r1));
      const auto low23 = hn::BitCast(pairs, hn::InterleaveLower(d, r2, r3));
      const auto high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, r0, r1));
      const auto high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, r2, r3));
      float* target = to + i * ld + row;
      hn::Store(hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23)), d, target);
      hn::Store(hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23)), d, target + ld);
      hn::Store(hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23)), d, target + 2 * ld);
      hn::Store(hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23)), d, target + 3 * ld);
    }
    for (; i < width; ++i) {
      for (int64_t k = 0; k < 4; ++k) to[i * ld + row + k] = source[k * stride + i];
    }
  }
#endif
  for (; row < rows; ++row) {
    for (int64_t i = 0; i < width; ++i) to[i * ld + row] = from[row * stride + i];
  }
  const int64_t padded = (rows + lanes - 1) / lanes * lanes;
  for (; row < padded; ++row) {
    for (int64_t i = 0; i < width; ++i) to[i * ld + row] = 0.0f;
  }
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
