// 64 × 64 tiles of products on ordinary arithmetic, for the attention kernels of f32 and f64 (and of bf16 and f16 in
// f32 where the tensor cores' tiles are too narrow).
//
// A block is 16 × 16 threads; thread (x, y) holds the rows 4y … 4y+3 and the columns 4x … 4x+3 of the tile in registers.
// Operands pass through shared memory a slice at a time, laid out so that each thread reads its four rows and its four
// columns with one 16-byte access each (f32): 16 multiply-adds for two reads.
//
//      multiply_rows:     S[64, 64] += L[64, dim] · R[64, dim]ᵀ        slices of kDepth dimensions
//      multiply_columns:  A[64, 64·n] += P[64, 64] · X[64, 64·n]       slices of kDepth rows of X; P is a shared tile
//
// No dimension is limited: rows may be of any length, wide results are the work of several blocks.
#pragma once
#include "kernels/attention/attention_device.h"

namespace weft::WEFT_DEVICE {

template <class T>
struct PlainTile {
  using C = ComputeType<T>;
  static constexpr int kSize = 64;
  static constexpr int kThreads = 256;
  static constexpr int kWidth = kPackWidth<T>;
  static constexpr int kDepth = kWidth == 8 ? 32 : 16;
  static constexpr int kStride = kSize + 4;              // of a slice of dimensions
  static constexpr int kStaging = 2 * kDepth * kStride;  // two slices of dimensions or one of 128 columns
  static constexpr size_t kSharedBytes = sizeof(C) * (kStaging + kSize * kSize);

  int x = static_cast<int>(threadIdx.x) % 16, y = static_cast<int>(threadIdx.x) / 16;
  C* staging;
  C* tile;

  __device__ __forceinline__ explicit PlainTile(C* shared) : staging(shared), tile(shared + kStaging) {}

  // to[dimension][row], so that four rows stand together.
  __device__ __forceinline__ void stage_dimensions(C* to, const InputRows<T>& from, int first) const {
    constexpr int packs = kDepth / kWidth;
    for (int i = static_cast<int>(threadIdx.x); i < kSize * packs; i += kThreads) {
      const int row = i / packs, depth = i % packs * kWidth;
      const Pack<T, kWidth> items = from.template load<kWidth>(row, first + depth);
      WEFT_UNROLL
      for (int e = 0; e < kWidth; ++e) to[(depth + e) * kStride + row] = widen(items[e]);
    }
  }

  __device__ __forceinline__ void multiply_rows(C (&sums)[4][4], const InputRows<T>& left,
                                                const InputRows<T>& right) const {
    C* const right_slice = staging + kDepth * kStride;
    for (int first = 0; first < left.dim; first += kDepth) {
      __syncthreads();
      stage_dimensions(staging, left, first);
      stage_dimensions(right_slice, right, first);
      __syncthreads();
      WEFT_UNROLL
      for (int d = 0; d < kDepth; ++d) {
        const Pack<C, 4> a = load_pack<4>(staging + d * kStride + 4 * y);
        const Pack<C, 4> b = load_pack<4>(right_slice + d * kStride + 4 * x);
        WEFT_UNROLL
        for (int i = 0; i < 4; ++i) {
          WEFT_UNROLL
          for (int j = 0; j < 4; ++j) sums[i][j] += a[i] * b[j];
        }
      }
    }
  }

  // The tile as [column][row], the groups of four rows permuted by the column so that threads store to different banks.
  __device__ __forceinline__ C* tile_rows(int column, int group) const {
    return tile + column * kSize + 4 * (group ^ (column / 4 % 16));
  }
  __device__ __forceinline__ void keep(const C (&values)[4][4]) const {
    __syncthreads();
    WEFT_UNROLL
    for (int j = 0; j < 4; ++j)
      store_pack(tile_rows(4 * x + j, y), Pack<C, 4>{{values[0][j], values[1][j], values[2][j], values[3][j]}});
  }

  // The columns first … first + 64n of `right`; column 64n + 4x + j of the result is element [4n + j].
  template <int n>
  __device__ __forceinline__ void multiply_columns(C (&sums)[4][4 * n], const InputRows<T>& right, int first) const {
    constexpr int columns = kSize * n, packs = columns / kWidth;
    static_assert(kDepth * columns <= kStaging);
    for (int slice = 0; slice < kSize && slice < right.count; slice += kDepth) {
      __syncthreads();
      for (int i = static_cast<int>(threadIdx.x); i < kDepth * packs; i += kThreads) {
        const int row = i / packs, column = i % packs * kWidth;
        const Pack<T, kWidth> items = right.template load<kWidth>(slice + row, first + column);
        WEFT_UNROLL
        for (int e = 0; e < kWidth; ++e) staging[row * columns + column + e] = widen(items[e]);
      }
      __syncthreads();
      WEFT_UNROLL
      for (int k = 0; k < kDepth; ++k) {
        const Pack<C, 4> p = load_pack<4>(tile_rows(slice + k, y));
        WEFT_UNROLL
        for (int c = 0; c < n; ++c) {
          const Pack<C, 4> b = load_pack<4>(staging + k * columns + c * kSize + 4 * x);
          WEFT_UNROLL
          for (int i = 0; i < 4; ++i) {
            WEFT_UNROLL
            for (int j = 0; j < 4; ++j) sums[i][4 * c + j] += p[i] * b[j];
          }
        }
      }
    }
  }

  template <int n>
  __device__ __forceinline__ void store(const OutputRows<T>& to, int first, const C (&values)[4][4 * n],
                                        C factor) const {
    WEFT_UNROLL
    for (int i = 0; i < 4; ++i) {
      WEFT_UNROLL
      for (int c = 0; c < n; ++c) {
        Pack<T, 4> items;
        WEFT_UNROLL
        for (int j = 0; j < 4; ++j) items[j] = narrow<T>(values[i][4 * c + j] * factor);
        to.template store<4>(4 * y + i, first + c * kSize + 4 * x, items);
      }
    }
  }
};

// Calls f(TypeTag<T>, a constant of the number of 64-column tiles that a block has of a result `columns` wide).
template <class F>
void visit_plain(DType dtype, int64_t columns, F&& f) {
  using One = std::integral_constant<int, 1>;
  using Two = std::integral_constant<int, 2>;
  switch (dtype) {
    case DType::f64: return f(TypeTag<double>{}, One{});
    case DType::f16: return f(TypeTag<Half>{}, Two{});
    case DType::bf16: return f(TypeTag<BFloat16>{}, Two{});
    case DType::f32: return columns <= 64 ? f(TypeTag<float>{}, One{}) : f(TypeTag<float>{}, Two{});
    default: fail(ErrorCode::unsupported, "attention", "expected f32, f64, f16 or bf16, got {}", name(dtype));
  }
}

// How many blocks share the columns of a result; one where there are none.
inline int64_t column_blocks(int64_t columns, int tiles) {
  return columns <= 0 ? 1 : attention_tiles(columns, 64 * tiles);
}

}  // namespace weft::WEFT_DEVICE
