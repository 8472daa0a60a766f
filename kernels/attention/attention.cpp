#include "kernels/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention/attention_f32.h"
#include "kernels/base/parallel.h"
#include "kernels/base/scratch.h"

namespace weft::cpu {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

struct RowScratch;

// f64 follows the textbook, one query at a time.
struct Reference {
  const AttentionShape& shape;
  AttentionInput q, k, v;

  static const double* at(const AttentionInput& x, int64_t batch, int64_t head, int64_t time) {
    return static_cast<const double*>(x.data) + batch * x.batch_stride + head * x.head_stride + time * x.time_stride;
  }
  static double* at(const AttentionOutput& x, int64_t batch, int64_t head, int64_t time) {
    return static_cast<double*>(x.data) + batch * x.batch_stride + head * x.head_stride + time * x.time_stride;
  }
  static double dot(const double* a, const double* b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
    return sum;
  }

  int64_t kv_head(int64_t head) const { return head / (shape.heads / shape.kv_heads); }
  int64_t visible_keys(int64_t query) const { return shape.causal ? std::min(shape.keys, query + 1) : shape.keys; }

  void scores(int64_t batch, int64_t head, int64_t query, double* score) const {
    const AttentionMask& mask = shape.mask;
    for (int64_t j = 0; j < visible_keys(query); ++j) {
      score[j] = shape.scale * dot(at(q, batch, head, query), at(k, batch, kv_head(head), j), shape.head_dim);
      if (mask.data == nullptr) continue;
      const int64_t offset =
          batch * mask.batch_stride + head * mask.head_stride + query * mask.query_stride + j * mask.key_stride;
      if (mask.dtype != DType::boolean)
        score[j] += static_cast<const double*>(mask.data)[offset];
      else if (!static_cast<const bool*>(mask.data)[offset])
        score[j] = kMinusInfinity;
    }
  }

  void forward(int64_t batch, int64_t head, int64_t query, double* output, double* logsumexp) const {
    const int64_t keys = visible_keys(query);
    double* score = scratch<RowScratch, double>(2 * shape.keys);
    scores(batch, head, query, score);
    double largest = kMinusInfinity;
    for (int64_t j = 0; j < keys; ++j) largest = std::max(largest, score[j]);
    const double shift = largest == kMinusInfinity ? 0 : largest;
    double sum = 0;
    for (int64_t j = 0; j < keys; ++j) sum += std::exp(score[j] - shift);
    std::fill_n(output, shape.value_dim, 0.0);
    *logsumexp = sum == 0 ? kMinusInfinity : shift + std::log(sum);
    if (sum == 0) return;
    for (int64_t j = 0; j < keys; ++j) {
      const double p = std::exp(score[j] - shift) / sum;
      const double* value = at(v, batch, kv_head(head), j);
      for (int64_t c = 0; c < shape.value_dim; ++c) output[c] += p * value[c];
    }
  }

  // Adds what one query gives to dk and dv; writes its dq.
  void backward(int64_t batch, int64_t head, int64_t query, const double* output, double logsumexp,
                const double* grad_output, double* dq, const AttentionOutput& dk, const AttentionOutput& dv) const {
    double* score = scratch<RowScratch, double>(2 * shape.keys);
    scores(batch, head, query, score);
    const double delta = dot(output, grad_output, shape.value_dim);
    const double* query_row = at(q, batch, head, query);
    const int64_t source = kv_head(head);
    std::fill_n(dq, shape.head_dim, 0.0);
    for (int64_t j = 0; j < visible_keys(query); ++j) {
      const double p = std::exp(score[j] - (logsumexp == kMinusInfinity ? 0 : logsumexp));
      const double ds = p * (dot(grad_output, at(v, batch, source, j), shape.value_dim) - delta) * shape.scale;
      const double* key = at(k, batch, source, j);
      double* key_gradient = at(dk, batch, source, j);
      double* value_gradient = at(dv, batch, source, j);
      for (int64_t c = 0; c < shape.head_dim; ++c) dq[c] += ds * key[c];
      for (int64_t c = 0; c < shape.head_dim; ++c) key_gradient[c] += ds * query_row[c];
      for (int64_t c = 0; c < shape.value_dim; ++c) value_gradient[c] += p * grad_output[c];
    }
  }
};

void check(const AttentionShape& shape, DType dtype) {
  WEFT_CHECK(dtype == DType::f32 || dtype == DType::f64, "attention", "expected f32 or f64, got {}", dtype);
  WEFT_CHECK(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0, "attention",
             "the number of heads, {}, is no multiple of the number of key-value heads, {}", shape.heads,
             shape.kv_heads);
  WEFT_CHECK(shape.mask.data == nullptr || shape.mask.dtype == DType::boolean || shape.mask.dtype == dtype, "attention",
             "expected a mask of dtype bool or {}, got {}", dtype, shape.mask.dtype);
}

void forward(Stream, DType dtype, const AttentionShape& shape, AttentionInput q, AttentionInput k, AttentionInput v,
             AttentionOutput o, void* logsumexp) {
  if (shape.batch == 0 || shape.heads == 0 || shape.queries == 0) return;
  check(shape, dtype);
  if (dtype == DType::f32) {
    const int64_t query_tiles = (shape.queries + kAttentionQueryTile - 1) / kAttentionQueryTile;
    parallel_for(shape.batch * shape.kv_heads * query_tiles, 1, [&](int64_t begin, int64_t end) {
      attention_forward_f32(shape, q, k, v, o, static_cast<float*>(logsumexp), begin, end);
    });
    return;
  }
  const Reference reference{shape, q, k, v};
  parallel_for(shape.batch * shape.heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      for (int64_t i = 0; i < shape.queries; ++i)
        reference.forward(item / shape.heads, item % shape.heads, i,
                          Reference::at(o, item / shape.heads, item % shape.heads, i),
                          static_cast<double*>(logsumexp) + item * shape.queries + i);
    }
  });
}

void backward(Stream, DType dtype, const AttentionShape& shape, AttentionInput q, AttentionInput k, AttentionInput v,
              AttentionInput o, const void* logsumexp, AttentionInput grad_o, AttentionOutput dq, AttentionOutput dk,
              AttentionOutput dv) {
  if (shape.batch == 0 || shape.heads == 0) return;
  check(shape, dtype);
  if (dtype == DType::f32) {
    parallel_for(shape.batch * shape.kv_heads, 1, [&](int64_t begin, int64_t end) {
      attention_backward_f32(shape, q, k, v, o, static_cast<const float*>(logsumexp), grad_o, dq, dk, dv, begin, end);
    });
    return;
  }
  const Reference reference{shape, q, k, v};
  const int64_t group = shape.heads / shape.kv_heads;
  parallel_for(shape.batch * shape.kv_heads, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t batch = item / shape.kv_heads;
      const int64_t kv_head = item % shape.kv_heads;
      for (int64_t j = 0; j < shape.keys; ++j) {
        std::fill_n(Reference::at(dk, batch, kv_head, j), shape.head_dim, 0.0);
        std::fill_n(Reference::at(dv, batch, kv_head, j), shape.value_dim, 0.0);
      }
      for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        const double* row_logsumexp =
            static_cast<const double*>(logsumexp) + (batch * shape.heads + head) * shape.queries;
        for (int64_t i = 0; i < shape.queries; ++i)
          reference.backward(batch, head, i, Reference::at(o, batch, head, i), row_logsumexp[i],
                             Reference::at(grad_o, batch, head, i), Reference::at(dq, batch, head, i), dk, dv);
      }
    }
  });
}

}  // namespace

constinit const AttentionKernels attention_kernels{forward, backward};

}  // namespace weft::cpu
