// Attention, forward, in bf16 and f16 on tensor cores: see attention_device.h for the algorithm, mma_tile.h for the
// tiles.
//
// A block of 4 warps owns 128 queries, a warp 32: each piece of K or V that ldmatrix brings is used for two row tiles,
// which keeps shared memory (128 bytes a cycle) abreast of the tensor cores. Q stays in registers up to 64 dimensions,
// in shared memory above. Tiles of keys are double-buffered: while one is computed on, cp.async brings the next.
//
//      dimensions   keys of a tile   registers a lane (O + S + Q)   shared memory   blocks a multiprocessor of sm_90
//          64             64                64 + 64 + 32               48 KiB                    2
//         128             32               128 + 32                    64 KiB                    2
#include "kernels/attention/mma_tile.h"

namespace weft::WEFT_DEVICE {
namespace {

constexpr int kRowTiles = 2;
constexpr int kRows = 16 * kRowTiles * kMmaWarps;

template <int kDim>
constexpr int kTileColumns = kDim <= 64 ? 64 : 32;

template <class T, int kDim>
constexpr size_t kSharedBytes = sizeof(T) * kDim*(kRows + 4 * kTileColumns<kDim>);

// Over the four lanes that share rows.
__device__ __forceinline__ float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 1));
  return fmaxf(value, __shfl_xor_sync(0xffffffffu, value, 2));
}
__device__ __forceinline__ float quad_sum(float value) {
  value += __shfl_xor_sync(0xffffffffu, value, 1);
  return value + __shfl_xor_sync(0xffffffffu, value, 2);
}

template <class T, int kDim, bool kMask>
__global__ void __launch_bounds__(kMmaThreads, 2) forward_kernel(ForwardProblem p) {
  using Tile = MmaTile<T, kDim>;
  constexpr bool held = kDim <= 64;
  constexpr int kColumns = kTileColumns<kDim>;
  WEFT_DYNAMIC_SHARED(T, q_tile);
  T* const k_tiles = q_tile + kRows * kDim;
  T* const v_tiles = k_tiles + 2 * kColumns * kDim;
  const AttentionShape& shape = p.shape;
  const TilePlace place =
      tile_place(blockIdx.x, attention_tiles(shape.queries, kRows), shape.heads, kRows, shape.causal);
  const int64_t kv_head = place.head / (shape.heads / shape.kv_heads);
  const ScoreMask<T> mask(shape, place.batch, place.head);
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 16 * kRowTiles;

  const auto load_keys = [&](int64_t first, int buffer) {
    Tile::template load<kColumns>(
        k_tiles + buffer * kColumns * kDim,
        input_rows<T>(p.k, place.batch, kv_head, first, shape.keys, shape.head_dim, p.aligned));
    Tile::template load<kColumns>(
        v_tiles + buffer * kColumns * kDim,
        input_rows<T>(p.v, place.batch, kv_head, first, shape.keys, shape.value_dim, p.aligned));
    cp_async_commit();
  };
  const int64_t keys = visible_keys(shape, place.first + kRows);
  Tile::template load<kRows>(
      q_tile, input_rows<T>(p.q, place.batch, place.head, place.first, shape.queries, shape.head_dim, p.aligned));
  load_keys(0, 0);

  float sums[kRowTiles][kDim / 8][4] = {};
  float largest[kRowTiles][2], total[kRowTiles][2] = {};
  for (auto& rows : largest) rows[0] = rows[1] = kNegativeInfinity<float>;
  uint32_t q[held ? kDim / 16 : 1][kRowTiles][4];

  int buffer = 0;
  for (int64_t first = 0; first < keys; first += kColumns, buffer ^= 1) {
    cp_async_wait<0>();
    __syncthreads();  // the tile is there for everyone, and everyone is through with the one before
    if (first + kColumns < keys) load_keys(first + kColumns, buffer ^ 1);

    float scores[kRowTiles][kColumns / 8][4] = {};
    if constexpr (held) {
      if (first == 0) {
        WEFT_UNROLL
        for (int step = 0; step < kDim / 16; ++step) Tile::load_left(q[step], q_tile, warp_row, step);
      }
    }
    Tile::template multiply_rows<kRowTiles, kColumns>(scores, k_tiles + buffer * kColumns * kDim,
                                                      [&](int step, uint32_t(&a)[kRowTiles][4]) {
                                                        if constexpr (held) {
                                                          WEFT_UNROLL
                                                          for (int i = 0; i < kRowTiles * 4; ++i)
                                                            a[i / 4][i % 4] = q[step][i / 4][i % 4];
                                                        } else {
                                                          Tile::load_left(a, q_tile, warp_row, step);
                                                        }
                                                      });

    const auto factor = static_cast<float>(p.scale2);
    for_each_value(scores, [&](int, int, float& score) { score *= factor; });
    mask_scores<false, kMask>(scores, mask, place.first + warp_row, first,
                              mask.cuts(place.first, first + kColumns - 1));

    WEFT_UNROLL
    for (int r = 0; r < kRowTiles; ++r) {
      WEFT_UNROLL
      for (int half = 0; half < 2; ++half) {
        float tile_max = kNegativeInfinity<float>;
        WEFT_UNROLL
        for (int n = 0; n < kColumns / 8; ++n)
          tile_max = fmaxf(tile_max, fmaxf(scores[r][n][2 * half], scores[r][n][2 * half + 1]));
        const float new_max = fmaxf(largest[r][half], quad_max(tile_max));
        const float shift = new_max == kNegativeInfinity<float> ? 0.0f : new_max;  // nothing seen so far
        const float correction = fast_power_of_two(largest[r][half] - shift);
        largest[r][half] = new_max;
        float sum = total[r][half] * correction;
        WEFT_UNROLL
        for (int n = 0; n < kColumns / 8; ++n) {
          WEFT_UNROLL
          for (int e = 2 * half; e < 2 * half + 2; ++e)
            sum += scores[r][n][e] = fast_power_of_two(scores[r][n][e] - shift);
        }
        total[r][half] = sum;
        WEFT_UNROLL
        for (int n = 0; n < kDim / 8; ++n) {
          sums[r][n][2 * half] *= correction;
          sums[r][n][2 * half + 1] *= correction;
        }
      }
    }

    uint32_t probabilities[kColumns / 16][kRowTiles][4];
    as_left<T>(probabilities, scores);
    Tile::template multiply_columns<kRowTiles, kColumns>(sums, probabilities, v_tiles + buffer * kColumns * kDim);
  }
  cp_async_wait<0>();  // of a block without keys
  __syncthreads();

  float* const logsumexp = static_cast<float*>(p.logsumexp) + (place.batch * shape.heads + place.head) * shape.queries;
  WEFT_UNROLL
  for (int r = 0; r < kRowTiles; ++r) {
    WEFT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const float sum = quad_sum(total[r][half]);
      const float factor = sum == 0.0f ? 0.0f : 1.0f / sum;
      WEFT_UNROLL
      for (int n = 0; n < kDim / 8; ++n) {
        sums[r][n][2 * half] *= factor;
        sums[r][n][2 * half + 1] *= factor;
      }
      const int64_t query = place.first + warp_row + 16 * r + 8 * half + lane / 4;
      if (lane % 4 == 0 && query < shape.queries)
        logsumexp[query] =
            sum == 0.0f ? kNegativeInfinity<float> : static_cast<float>(kLn2) * (largest[r][half] + logarithm2(sum));
    }
  }
  Tile::store(output_rows<T>(p.o, place.batch, place.head, place.first, shape.queries, shape.value_dim, p.aligned),
              q_tile, warp_row, sums, 1.0f);
}

}  // namespace

void attention_forward_mma(Stream stream, DType dtype, const ForwardProblem& problem) {
  const AttentionShape& shape = problem.shape;
  visit_mma(dtype, shape, [&](auto type, auto dim, auto has_mask) {
    using T = typename decltype(type)::type;
    const int64_t blocks = shape.batch * shape.heads * attention_tiles(shape.queries, kRows);
    launch(forward_kernel<T, dim, has_mask>, dim3(static_cast<unsigned>(blocks)), dim3(kMmaThreads),
           kSharedBytes<T, dim>, stream, problem);
  });
}

}  // namespace weft::WEFT_DEVICE
