#include "kernels/attention/attention_f32.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/base/scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_f32.cpp"
#include "kernels/base/simd.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/attention/tile_gemm-inl.h"
#include "kernels/base/simd_math-inl.h"

#ifndef WEFT_KERNELS_ATTENTION_F32_ONCE_
#define WEFT_KERNELS_ATTENTION_F32_ONCE_
namespace weft::cpu {

inline constexpr int64_t kKeyBlock = 128;  // keys packed at a time; a block of K, Kᵀ, V and Vᵀ stays in the L2 cache
inline constexpr int64_t kForwardRows = 16;  // queries that share a block of scores
inline constexpr int64_t kBackwardRows = 32;

struct ForwardScratch;
struct BackwardScratch;

// Hands out consecutive pieces of a scratch buffer, each aligned to 64 bytes.
struct Pieces {
  float* next;
  float* take(int64_t count) {
    float* piece = next;
    next += padded(count);
    return piece;
  }
  static int64_t padded(int64_t count) { return (count + 15) / 16 * 16; }
};

inline const float* at(const AttentionInput& x, int64_t batch, int64_t head, int64_t time) {
  return static_cast<const float*>(x.data) + batch * x.batch_stride + head * x.head_stride + time * x.time_stride;
}
inline float* at(const AttentionOutput& x, int64_t batch, int64_t head, int64_t time) {
  return static_cast<float*>(x.data) + batch * x.batch_stride + head * x.head_stride + time * x.time_stride;
}

// Adds the mask of one query to its scores of the keys [first_key, first_key + count).
inline void apply_mask(const AttentionMask& mask, int64_t batch, int64_t head, int64_t query, int64_t first_key,
                       int64_t count, float* scores) {
  if (mask.data == nullptr) return;
  const int64_t offset =
      batch * mask.batch_stride + head * mask.head_stride + query * mask.query_stride + first_key * mask.key_stride;
  if (mask.dtype == DType::boolean) {
    const bool* visible = static_cast<const bool*>(mask.data) + offset;
    for (int64_t j = 0; j < count; ++j)
      scores[j] = visible[j * mask.key_stride] ? scores[j] : -std::numeric_limits<float>::infinity();
  } else {
    const float* bias = static_cast<const float*>(mask.data) + offset;
    for (int64_t j = 0; j < count; ++j) scores[j] += bias[j * mask.key_stride];
  }
}

}  // namespace weft::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {

HWY_INLINE int64_t round_up(int64_t n) {
  const int64_t lanes = lanes_of(FloatTag());
  return (n + lanes - 1) / lanes * lanes;
}

// One step of the running softmax of a query: turns `count` scores into exp(score - maximum), zeros up to `padded`,
// and brings the sum and the output so far to the new maximum.
HWY_INLINE void softmax_step(float* scores, int64_t count, int64_t padded, float& maximum, float& sum, float* output,
                             int64_t value_width) {
  const FloatTag d;
  const float largest = std::max(maximum, row_max(d, scores, count));
  // While every score is -inf nothing is subtracted, so that exp gives 0, not NaN.
  const auto shift = hn::Set(d, largest == -std::numeric_limits<float>::infinity() ? 0.0f : largest);
  auto block_sum = hn::Zero(d);
  for_row(d, count, [&](auto load, auto, int64_t j) HWY_ATTR {
    const auto score = load(scores + j, -std::numeric_limits<float>::infinity());
    const auto p = exp_at_most_88(d, hn::Sub(score, shift));
    block_sum = hn::Add(block_sum, p);
    hn::Store(p, d, scores + j);  // scores has room for whole vectors
  });
  for (int64_t j = round_up(count); j < padded; j += lanes_of(d)) hn::Store(hn::Zero(d), d, scores + j);
  if (largest > maximum && sum != 0.0f) {
    const float correction = std::exp(maximum - largest);
    sum *= correction;
    const auto factor = hn::Set(d, correction);
    for (int64_t c = 0; c < value_width; c += lanes_of(d))
      hn::Store(hn::Mul(hn::Load(d, output + c), factor), d, output + c);
  }
  maximum = largest;
  sum += sum_lanes(d, block_sum);
}

void forward_item(const AttentionShape& shape, const AttentionInput& q, const AttentionInput& k,
                  const AttentionInput& v, const AttentionOutput& o, float* logsumexp, int64_t item) {
  const FloatTag d;
  const int64_t query_tiles = (shape.queries + kAttentionQueryTile - 1) / kAttentionQueryTile;
  const int64_t batch = item / query_tiles / shape.kv_heads;
  const int64_t kv_head = item / query_tiles % shape.kv_heads;
  const int64_t first_query = item % query_tiles * kAttentionQueryTile;
  const int64_t queries = std::min(kAttentionQueryTile, shape.queries - first_query);
  const int64_t group = shape.heads / shape.kv_heads;
  const int64_t depth = shape.head_dim;
  const int64_t value_width = round_up(shape.value_dim);
  const int64_t rows = group * queries;
  const int64_t key_end = shape.causal ? std::min(shape.keys, first_query + queries) : shape.keys;

  Pieces pieces{scratch<ForwardScratch, float>(Pieces::padded(rows * round_up(depth)) + rows * value_width +
                                               2 * Pieces::padded(rows) +
                                               kKeyBlock * (depth + value_width + kForwardRows) + 128)};
  const int64_t query_width = round_up(depth);
  float* query = pieces.take(rows * query_width);
  float* output = pieces.take(rows * value_width);
  float* maximum = pieces.take(rows);
  float* sum = pieces.take(rows);
  float* keys = pieces.take(kKeyBlock * depth);  // [depth, keys]
  float* values = pieces.take(kKeyBlock * value_width);
  float* scores = pieces.take(kKeyBlock * kForwardRows);

  for (int64_t g = 0; g < group; ++g)
    pack_rows(at(q, batch, kv_head * group + g, first_query), q.time_stride, queries, depth,
              static_cast<float>(shape.scale), query + g * queries * query_width, query_width);
  std::memset(output, 0, static_cast<size_t>(rows * value_width) * sizeof(float));
  std::fill_n(maximum, rows, -std::numeric_limits<float>::infinity());
  std::fill_n(sum, rows, 0.0f);

  for (int64_t first_key = 0; first_key < key_end; first_key += kKeyBlock) {
    const int64_t block = std::min(kKeyBlock, key_end - first_key);
    pack_transposed(at(k, batch, kv_head, first_key), k.time_stride, block, depth, keys, kKeyBlock);
    pack_rows(at(v, batch, kv_head, first_key), v.time_stride, block, shape.value_dim, 1.0f, values, value_width);
    for (int64_t g = 0; g < group; ++g) {
      for (int64_t r = 0; r < queries; r += kForwardRows) {
        const int64_t count = std::min(kForwardRows, queries - r);
        int64_t visible = block;  // keys that some query of these rows sees
        if (shape.causal) visible = std::min(block, first_query + r + count - first_key);
        if (visible <= 0) continue;
        const int64_t row = g * queries + r;
        tile_gemm(count, round_up(visible), depth, query + row * query_width, query_width, 1, keys, kKeyBlock, scores,
                  kKeyBlock, false);
        for (int64_t i = 0; i < count; ++i) {
          const int64_t position = first_query + r + i;
          const int64_t own = shape.causal ? std::clamp<int64_t>(position + 1 - first_key, 0, visible) : visible;
          float* row_scores = scores + i * kKeyBlock;
          apply_mask(shape.mask, batch, kv_head * group + g, position, first_key, own, row_scores);
          softmax_step(row_scores, own, round_up(visible), maximum[row + i], sum[row + i],
                       output + (row + i) * value_width, value_width);
        }
        tile_gemm(count, value_width, visible, scores, kKeyBlock, 1, values, value_width, output + row * value_width,
                  value_width, true);
      }
    }
  }

  for (int64_t g = 0; g < group; ++g) {
    const int64_t head = kv_head * group + g;
    for (int64_t i = 0; i < queries; ++i) {
      const int64_t row = g * queries + i;
      const bool empty = sum[row] == 0.0f;  // sees no key
      const auto factor = hn::Set(d, empty ? 0.0f : 1.0f / sum[row]);
      float* target = at(o, batch, head, first_query + i);
      for_row(d, shape.value_dim, [&](auto load, auto store, int64_t c) HWY_ATTR {
        store(hn::Mul(load(output + row * value_width + c, 0.0f), factor), target + c);
      });
      logsumexp[(batch * shape.heads + head) * shape.queries + first_query + i] =
          empty ? -std::numeric_limits<float>::infinity() : maximum[row] + std::log(sum[row]);
    }
  }
}

void forward_items(const AttentionShape& shape, const AttentionInput& q, const AttentionInput& k,
                   const AttentionInput& v, const AttentionOutput& o, float* logsumexp, int64_t begin, int64_t end) {
  for (int64_t item = begin; item < end; ++item) forward_item(shape, q, k, v, o, logsumexp, item);
}

HWY_INLINE float dot(const float* a, const float* b, int64_t n) {
  const FloatTag d;
  auto sum = hn::Zero(d);
  for_row(d, n,
          [&](auto load, auto, int64_t i) HWY_ATTR { sum = hn::MulAdd(load(a + i, 0.0f), load(b + i, 0.0f), sum); });
  return sum_lanes(d, sum);
}

// Of one query: scores become probabilities p = exp(scale · score + mask - logsumexp), and dp becomes the gradient of
// the unscaled scores, p · (dp - delta) · scale. Both are zero from `count` up to `padded`.
HWY_INLINE void softmax_gradient(float* scores, float* dp, int64_t count, int64_t padded, float scale, float logsumexp,
                                 float delta) {
  const FloatTag d;
  const auto factor = hn::Set(d, scale);
  const auto shift = hn::Set(d, logsumexp);
  const auto mean = hn::Set(d, delta);
  for_row(d, count, [&](auto load, auto, int64_t j) HWY_ATTR {
    const auto score = load(scores + j, -std::numeric_limits<float>::infinity());
    const auto p = exp_at_most_88(d, hn::Sub(score, shift));
    const auto gradient = hn::Mul(hn::Mul(p, factor), hn::Sub(load(dp + j, delta), mean));
    hn::Store(p, d, scores + j);
    hn::Store(gradient, d, dp + j);
  });
  for (int64_t j = round_up(count); j < padded; j += lanes_of(d)) {
    hn::Store(hn::Zero(d), d, scores + j);
    hn::Store(hn::Zero(d), d, dp + j);
  }
}

void backward_item(const AttentionShape& shape, const AttentionInput& q, const AttentionInput& k,
                   const AttentionInput& v, const AttentionInput& o, const float* logsumexp,
                   const AttentionInput& grad_o, const AttentionOutput& dq, const AttentionOutput& dk,
                   const AttentionOutput& dv, int64_t item) {
  const int64_t batch = item / shape.kv_heads;
  const int64_t kv_head = item % shape.kv_heads;
  const int64_t group = shape.heads / shape.kv_heads;
  const int64_t queries = shape.queries;
  const int64_t depth = shape.head_dim;
  const int64_t value_dim = shape.value_dim;
  const int64_t width = round_up(depth);
  const int64_t value_width = round_up(value_dim);
  const auto scale = static_cast<float>(shape.scale);

  Pieces pieces{scratch<BackwardScratch, float>(
      group * queries * width + Pieces::padded(group * queries) + kKeyBlock * (depth + value_dim) +
      2 * kKeyBlock * (width + value_width) + kBackwardRows * (2 * width + value_width + 2 * kKeyBlock) + 256)};
  float* query_gradient = pieces.take(group * queries * width);  // over all key blocks
  float* delta = pieces.take(group * queries);
  float* keys_transposed = pieces.take(kKeyBlock * depth);
  float* values_transposed = pieces.take(kKeyBlock * value_dim);
  float* keys = pieces.take(kKeyBlock * width);
  float* key_gradient = pieces.take(kKeyBlock * width);
  float* value_gradient = pieces.take(kKeyBlock * value_width);
  float* query = pieces.take(kBackwardRows * width);
  float* scaled_query = pieces.take(kBackwardRows * width);
  float* output_gradient = pieces.take(kBackwardRows * value_width);
  float* scores = pieces.take(kBackwardRows * kKeyBlock);
  float* dp = pieces.take(kBackwardRows * kKeyBlock);

  // delta = sum(p · dp) of a query, which equals its output times the output's gradient.
  for (int64_t g = 0; g < group; ++g) {
    for (int64_t i = 0; i < queries; ++i)
      delta[g * queries + i] =
          dot(at(o, batch, kv_head * group + g, i), at(grad_o, batch, kv_head * group + g, i), value_dim);
  }
  std::memset(query_gradient, 0, static_cast<size_t>(group * queries * width) * sizeof(float));

  for (int64_t first_key = 0; first_key < shape.keys; first_key += kKeyBlock) {
    const int64_t block = std::min(kKeyBlock, shape.keys - first_key);
    const float* key_rows = at(k, batch, kv_head, first_key);
    pack_rows(key_rows, k.time_stride, block, depth, 1.0f, keys, width);
    pack_transposed(key_rows, k.time_stride, block, depth, keys_transposed, kKeyBlock);
    pack_transposed(at(v, batch, kv_head, first_key), v.time_stride, block, value_dim, values_transposed, kKeyBlock);
    std::memset(key_gradient, 0, static_cast<size_t>(block * width) * sizeof(float));
    std::memset(value_gradient, 0, static_cast<size_t>(block * value_width) * sizeof(float));

    for (int64_t g = 0; g < group; ++g) {
      const int64_t head = kv_head * group + g;
      const float* row_logsumexp = logsumexp + (batch * shape.heads + head) * queries;
      // With the causal mask the queries before the block see nothing of it.
      for (int64_t r = shape.causal ? first_key / kBackwardRows * kBackwardRows : 0; r < queries; r += kBackwardRows) {
        const int64_t count = std::min(kBackwardRows, queries - r);
        int64_t visible = block;
        if (shape.causal) visible = std::min(block, r + count - first_key);
        if (visible <= 0) continue;
        const int64_t columns = round_up(visible);
        pack_rows(at(q, batch, head, r), q.time_stride, count, depth, 1.0f, query, width);
        pack_rows(query, width, count, depth, scale, scaled_query, width);
        pack_rows(at(grad_o, batch, head, r), grad_o.time_stride, count, value_dim, 1.0f, output_gradient, value_width);
        tile_gemm(count, columns, depth, scaled_query, width, 1, keys_transposed, kKeyBlock, scores, kKeyBlock, false);
        tile_gemm(count, columns, value_dim, output_gradient, value_width, 1, values_transposed, kKeyBlock, dp,
                  kKeyBlock, false);
        for (int64_t i = 0; i < count; ++i) {
          const int64_t own = shape.causal ? std::clamp<int64_t>(r + i + 1 - first_key, 0, visible) : visible;
          const float lse = row_logsumexp[r + i];
          apply_mask(shape.mask, batch, head, r + i, first_key, own, scores + i * kKeyBlock);
          softmax_gradient(scores + i * kKeyBlock, dp + i * kKeyBlock, own, columns, scale,
                           lse == -std::numeric_limits<float>::infinity() ? 0.0f : lse, delta[g * queries + r + i]);
        }
        tile_gemm(count, width, visible, dp, kKeyBlock, 1, keys, width, query_gradient + (g * queries + r) * width,
                  width, true);
        tile_gemm(visible, width, count, dp, 1, kKeyBlock, query, width, key_gradient, width, true);
        tile_gemm(visible, value_width, count, scores, 1, kKeyBlock, output_gradient, value_width, value_gradient,
                  value_width, true);
      }
    }
    unpack_rows(key_gradient, width, block, depth, at(dk, batch, kv_head, first_key), dk.time_stride);
    unpack_rows(value_gradient, value_width, block, value_dim, at(dv, batch, kv_head, first_key), dv.time_stride);
  }
  for (int64_t g = 0; g < group; ++g)
    unpack_rows(query_gradient + g * queries * width, width, queries, depth, at(dq, batch, kv_head * group + g, 0),
                dq.time_stride);
}

void backward_items(const AttentionShape& shape, const AttentionInput& q, const AttentionInput& k,
                    const AttentionInput& v, const AttentionInput& o, const float* logsumexp,
                    const AttentionInput& grad_o, const AttentionOutput& dq, const AttentionOutput& dk,
                    const AttentionOutput& dv, int64_t begin, int64_t end) {
  for (int64_t item = begin; item < end; ++item) backward_item(shape, q, k, v, o, logsumexp, grad_o, dq, dk, dv, item);
}

}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {

WEFT_EXPORT(forward_items);
WEFT_EXPORT(backward_items);

void attention_forward_f32(const AttentionShape& shape, const AttentionInput& q, const AttentionInput& k,
                           const AttentionInput& v, const AttentionOutput& o, float* logsumexp, int64_t begin,
                           int64_t end) {
  WEFT_DISPATCH(forward_items)(shape, q, k, v, o, logsumexp, begin, end);
}

void attention_backward_f32(const AttentionShape& shape, const AttentionInput& q, const AttentionInput& k,
                            const AttentionInput& v, const AttentionInput& o, const float* logsumexp,
                            const AttentionInput& grad_o, const AttentionOutput& dq, const AttentionOutput& dk,
                            const AttentionOutput& dv, int64_t begin, int64_t end) {
  WEFT_DISPATCH(backward_items)(shape, q, k, v, o, logsumexp, grad_o, dq, dk, dv, begin, end);
}

}  // namespace weft::cpu
#endif  // HWY_ONCE
