// Tiles of bf16 or f16 in shared memory and their products on tensor cores, for the attention kernels.
//
// A tile is rows × kDim elements, a row kDim / 8 chunks of 16 bytes. Chunk c of row r lies at place c ^ (r mod 8):
//
//      row 0   0 1 2 3 4 5 6 7        The 8 rows of an 8×8 matrix that ldmatrix reads together are one column of
//      row 1   1 0 3 2 5 4 7 6        chunks c. Unswizzled they would all lie in the same four banks (a row is 128 or
//      row 2   2 3 0 1 6 7 4 5        256 bytes); so they lie in eight different places: no bank conflict, neither
//      …                              when they are read nor when eight threads store the chunks of a row.
//
// A warp computes 16 · kRowTiles rows of a product with m16n8k16. Its pieces, lane = 4 g + t (PTX ISA, "Matrix fragments
// for mma.m16n8k16"):
//
//      A, 16×16: rows g, g+8, columns 2t, 2t+1 and 8 further     D, 16×8: rows g, g+8, columns 2t, 2t+1
//      B, 16×8:  column g, rows 2t, 2t+1 and 8 further
//
// Two neighbouring D pieces, rounded to 16 bits, are an A piece: a product's result is the left operand of the next one
// without leaving the registers (`as_left`).
//
//      multiply_rows:     S[rows, n] += L[rows, kDim] · R[n, kDim]ᵀ      R's pieces by ldmatrix
//      multiply_columns:  A[rows, kDim] += P[rows, n] · X[n, kDim]       X's pieces by ldmatrix.trans
#pragma once
#include "kernels/attention/attention_device.h"

namespace weft::WEFT_DEVICE {

inline constexpr int kMmaWarps = 4;
inline constexpr int kMmaThreads = 32 * kMmaWarps;

// 2^x where the result is rounded to 16 bits anyway: one instruction, which takes subnormal numbers for zero.
__device__ __forceinline__ float fast_power_of_two(float x) {
#if defined(__CUDACC__)
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return exp2f(x);
#endif
}

// Two neighbours of a row as they stand in a register.
template <class T>
__device__ __forceinline__ uint32_t pack_pair(float low, float high) {
#if defined(__CUDACC__)
  uint32_t pair;
  if constexpr (std::is_same_v<T, Half>)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return from_float<T>(low).bits | static_cast<uint32_t>(from_float<T>(high).bits) << 16;
#endif
}

template <class T, int kDim>
struct MmaTile {
  static_assert(kDim % 64 == 0, "the swizzle permutes eight chunks");

  __device__ __forceinline__ static T* chunk(T* tile, int row, int c) {
    return tile + row * kDim + (c ^ (row % 8)) * 8;
  }

  // Begins to copy kRows rows; what lies outside of the tensor becomes zero. Ends with cp_async_wait and a barrier.
  template <int kRows>
  __device__ __forceinline__ static void load(T* tile, const InputRows<T>& from) {
    constexpr int chunks = kDim / 8;
    const int thread = static_cast<int>(threadIdx.x);
    if (!from.aligned) {
      for (int i = thread; i < kRows * chunks; i += kMmaThreads)
        store_pack(chunk(tile, i / chunks, i % chunks), from.template load<8>(i / chunks, i % chunks * 8));
      return;
    }
    // A thread keeps to one chunk of its rows.
    static_assert(kMmaThreads % (8 * chunks) == 0);
    constexpr int step = kMmaThreads / chunks;
    const int c = thread % chunks, first_row = thread / chunks;
    T* const to = chunk(tile, first_row, c);
    const T* const source = from.data + first_row * from.stride + c * 8;
    const int rows = c * 8 >= from.dim ? 0 : from.count < kRows ? static_cast<int>(from.count) : kRows;
    WEFT_UNROLL
    for (int i = 0; i < kRows / step; ++i) {
      if (first_row + i * step < rows)
        cp_async16(to + i * step * kDim, source + i * step * from.stride);
      else
        store_pack(to + i * step * kDim, Pack<T, 8>{});
    }
  }

  // The warp's left operands of one step over 16 of the kDim dimensions.
  template <int kRowTiles>
  __device__ __forceinline__ static void load_left(uint32_t (&a)[kRowTiles][4], T* tile, int first_row, int step) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    WEFT_UNROLL
    for (int r = 0; r < kRowTiles; ++r)
      ldmatrix_x4(a[r], chunk(tile, first_row + 16 * r + lane % 16, 2 * step + lane / 16));
  }

  // left(step, a) gives the left operands.
  template <int kRowTiles, int kColumns, class Left>
  __device__ __forceinline__ static void multiply_rows(float (&sums)[kRowTiles][kColumns / 8][4], T* right,
                                                       Left&& left) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    WEFT_UNROLL
    for (int step = 0; step < kDim / 16; ++step) {
      uint32_t a[kRowTiles][4];
      left(step, a);
      WEFT_UNROLL
      for (int n = 0; n < kColumns / 16; ++n) {
        uint32_t b[4];
        ldmatrix_x4(b, chunk(right, 16 * n + lane / 16 * 8 + lane % 8, 2 * step + lane / 8 % 2));
        multiply_pair(sums, n, a, b);
      }
    }
  }

  template <int kRowTiles, int kColumns>
  __device__ __forceinline__ static void multiply_columns(float (&sums)[kRowTiles][kDim / 8][4],
                                                          const uint32_t (&p)[kColumns / 16][kRowTiles][4], T* right) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    WEFT_UNROLL
    for (int step = 0; step < kColumns / 16; ++step) {
      WEFT_UNROLL
      for (int n = 0; n < kDim / 16; ++n) {
        uint32_t b[4];
        ldmatrix_x4_trans(b, chunk(right, 16 * step + lane % 16, 2 * n + lane / 16));
        multiply_pair(sums, n, p[step], b);
      }
    }
  }

  // Writes the warp's rows: through its own rows of a tile that nobody reads any more, so that the stores to memory are
  // of 16 bytes.
  template <int kRowTiles>
  __device__ __forceinline__ static void store(const OutputRows<T>& to, T* tile, int first_row,
                                               const float (&values)[kRowTiles][kDim / 8][4], float factor) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    __syncwarp();
    WEFT_UNROLL
    for (int r = 0; r < kRowTiles; ++r) {
      WEFT_UNROLL
      for (int n = 0; n < kDim / 8; ++n) {
        WEFT_UNROLL
        for (int half = 0; half < 2; ++half) {
          const Pack<T, 2> pair{
              {from_float<T>(values[r][n][2 * half] * factor), from_float<T>(values[r][n][2 * half + 1] * factor)}};
          store_pack(chunk(tile, first_row + 16 * r + 8 * half + lane / 4, n) + lane % 4 * 2, pair);
        }
      }
    }
    __syncwarp();
    constexpr int chunks = kDim / 8;
    WEFT_UNROLL
    for (int i = 0; i < 16 * kRowTiles * chunks / 32; ++i) {
      const int row = first_row + (i * 32 + lane) / chunks, c = (i * 32 + lane) % chunks;
      to.template store<8>(row, 8 * c, load_pack<8>(static_cast<const T*>(chunk(tile, row, c))));
    }
  }

 private:
  // 16 columns of sums: two pieces of 8.
  template <int kRowTiles, int kPieces>
  __device__ __forceinline__ static void multiply_pair(float (&sums)[kRowTiles][kPieces][4], int n,
                                                       const uint32_t (&a)[kRowTiles][4], const uint32_t (&b)[4]) {
    const uint32_t low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
    WEFT_UNROLL
    for (int r = 0; r < kRowTiles; ++r) {
      mma_m16n8k16(sums[r][2 * n], a[r], low, TypeTag<T>{});
      mma_m16n8k16(sums[r][2 * n + 1], a[r], high, TypeTag<T>{});
    }
  }
};

// Results as left operands of a product over their columns.
template <class T, int kRowTiles, int kPieces>
__device__ __forceinline__ void as_left(uint32_t (&left)[kPieces / 2][kRowTiles][4],
                                        const float (&values)[kRowTiles][kPieces][4]) {
  WEFT_UNROLL
  for (int step = 0; step < kPieces / 2; ++step) {
    WEFT_UNROLL
    for (int r = 0; r < kRowTiles; ++r) {
      WEFT_UNROLL
      for (int e = 0; e < 4; ++e) {
        const float* const piece = values[r][2 * step + e / 2];
        left[step][r][e] = pack_pair<T>(piece[e % 2 * 2], piece[e % 2 * 2 + 1]);
      }
    }
  }
}

// Calls f(row in the warp's rows, column, value) for what this lane holds of a product.
template <int kRowTiles, int kPieces, class F>
__device__ __forceinline__ void for_each_value(float (&values)[kRowTiles][kPieces][4], F&& f) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  WEFT_UNROLL
  for (int r = 0; r < kRowTiles; ++r) {
    WEFT_UNROLL
    for (int n = 0; n < kPieces; ++n) {
      WEFT_UNROLL
      for (int e = 0; e < 4; ++e) f(16 * r + e / 2 * 8 + lane / 4, 8 * n + lane % 4 * 2 + e % 2, values[r][n][e]);
    }
  }
}

// Scores of the rows and columns from these on, after the mask. Transposed: rows are keys, columns are queries. `cut`:
// some of them are not to be seen. kMask: there is a mask to read.
template <bool transposed, bool kMask, class T, int kRowTiles, int kPieces>
__device__ __forceinline__ void mask_scores(float (&scores)[kRowTiles][kPieces][4], const ScoreMask<T>& mask,
                                            int64_t first_row, int64_t first_column, bool cut) {
  if constexpr (kMask)
    for_each_value(scores, [&](int row, int column, float& score) {
      score = transposed ? mask.add(score, first_column + column, first_row + row)
                         : mask.add(score, first_row + row, first_column + column);
    });
  if (!cut) return;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  WEFT_UNROLL
  for (int r = 0; r < kRowTiles; ++r) {
    WEFT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int64_t row = first_row + 16 * r + 8 * half + lane / 4;
      const int limit =
          (transposed ? mask.invisible(row, first_column) : mask.visible(row, first_column)) - lane % 4 * 2;
      WEFT_UNROLL
      for (int n = 0; n < kPieces; ++n) {
        WEFT_UNROLL
        for (int e = 0; e < 2; ++e)
          if (transposed ? 8 * n + e < limit : 8 * n + e >= limit)
            scores[r][n][2 * half + e] = kNegativeInfinity<float>;
      }
    }
  }
}

// Calls f(TypeTag<T>, a constant of the tile's dimensions, a constant: whether there is a mask to read).
template <class F>
void visit_mma(DType dtype, const AttentionShape& shape, F&& f) {
  const int64_t widest = std::max(shape.head_dim, shape.value_dim);
  WEFT_CHECK(widest <= kLargestMmaDim, "attention", "{} dimensions do not fit into a tile", widest);
  const auto with_dim = [&](auto type, auto dim) {
    if (shape.mask.data) return f(type, dim, std::true_type{});
    return f(type, dim, std::false_type{});
  };
  const auto with_type = [&](auto type) {
    if (widest <= 64) return with_dim(type, std::integral_constant<int, 64>{});
    return with_dim(type, std::integral_constant<int, 128>{});
  };
  if (dtype == DType::f16) return with_type(TypeTag<Half>{});
  if (dtype == DType::bf16) return with_type(TypeTag<BFloat16>{});
  fail(ErrorCode::unsupported, "attention", "expected f16 or bf16, got {}", name(dtype));
}

}  // namespace weft::WEFT_DEVICE
