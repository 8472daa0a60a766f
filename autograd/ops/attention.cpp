#include "autograd/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "autograd/functional.h"
#include "autograd/ops/common.h"
#include "autograd/ops/ops.h"
#include "kernels/table.h"

namespace weft {
namespace {

constexpr const char* kName = "scaled_dot_product_attention";

// Each key-value head once for every query head that uses it.
Tensor repeat_heads(const Tensor& x, int64_t heads) {
  const int64_t group = heads / x.size(1);
  if (group == 1) return x;
  return x.unsqueeze(2).expand({-1, -1, group, -1, -1}).reshape({x.size(0), heads, x.size(2), x.size(3)});
}

// The probabilities on differentiable ops; the options are checked and complete.
Tensor probabilities(const Tensor& q, const Tensor& k, const AttentionOptions& options) {
  Tensor scores = matmul(q * *options.scale, repeat_heads(k, q.size(1)).transpose(-1, -2));
  constexpr double lowest = -std::numeric_limits<double>::infinity();
  if (options.causal)
    scores = where(ge(arange(q.size(2), q.device()).unsqueeze(1), arange(k.size(2), q.device()).unsqueeze(0)), scores,
                   lowest);
  if (options.mask.defined())
    scores = options.mask.dtype() == DType::boolean ? where(options.mask, scores, lowest)
                                                    : scores + options.mask.to(scores.dtype());
  if (k.size(2) == 0) return scores;
  // Rows without a key: softmax of zeros, then nothing of it.
  const Tensor seen = gt(amax(scores, {-1}, true), lowest);
  return dropout(where(seen, softmax(where(seen, scores, 0.0), -1), 0.0), options.dropout);
}

// The formula itself: for double backward, for dropout of the probabilities, and for a mask that is learned.
Tensor composite(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  return matmul(probabilities(q, k, options), repeat_heads(v, q.size(1)));
}

// The window as part of the mask: where a query does not see a key, whatever the mask says.
Tensor with_window(const Tensor& mask, int64_t window, int64_t queries, int64_t keys, Device device) {
  const Tensor distance = arange(queries, device).unsqueeze(1) - arange(keys, device).unsqueeze(0);
  const Tensor near = lt(abs(distance), window);
  if (!mask.defined()) return near;
  if (mask.dtype() == DType::boolean) return logical_and(mask, near);
  return where(near, mask, -std::numeric_limits<double>::infinity());
}

// Checks the options and fills in what they leave open, for q and k of four dimensions.
AttentionOptions completed(const Tensor& q, const Tensor& k, AttentionOptions options) {
  WEFT_CHECK(options.window >= 0, kName, "expected a window of keys, or 0 for all, got {}", options.window);
  WEFT_CHECK(options.dropout >= 0 && options.dropout <= 1, kName,
             "expected a probability of dropout from 0 to 1, got {}", options.dropout);
  if (options.mask.defined()) {
    detail::check_same_device(kName, q, options.mask);
    WEFT_CHECK(options.mask.dtype() == DType::boolean || is_floating(options.mask.dtype()), kName,
               "expected a mask of bool or of a floating-point dtype, got {}", describe(options.mask));
    const Shape scores = {q.size(0), q.size(1), q.size(2), k.size(2)};
    WEFT_CHECK(broadcast_shapes(options.mask.shape(), scores, kName) == scores, kName,
               "the mask {} does not broadcast to the scores {}", describe(options.mask), scores);
  }
  if (!options.scale) options.scale = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(q.size(3), 1)));
  if (options.window > 0) {
    options.mask = with_window(options.mask, options.window, q.size(2), k.size(2), q.device());
    options.window = 0;
  }
  return options;
}

// Any number of batch dimensions as one.
Tensor over_many_batches(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options) {
  WEFT_CHECK(k.dim() == q.dim() && v.dim() == q.dim(), kName,
             "expected as many dimensions in q, k and v, got {}, {}, {}", describe(q), describe(k), describe(v));
  const int last_batch = q.dim() - 4;
  for (int d = 0; d <= last_batch; ++d)
    WEFT_CHECK(k.size(d) == q.size(d) && v.size(d) == q.size(d), kName, "batches of q {}, k {} and v {} differ",
               describe(q), describe(k), describe(v));
  Shape shape = q.shape();
  if (options.mask.defined() && options.mask.dim() > 3) {
    Shape full = q.shape();
    const int mask_dims = options.mask.dim();
    for (int d = 1; d <= 3; ++d) full[-d] = options.mask.size(mask_dims - d);
    options.mask = options.mask.expand(full).flatten(0, last_batch);
  }
  shape[-1] = v.size(-1);
  return scaled_dot_product_attention(q.flatten(0, last_batch), k.flatten(0, last_batch), v.flatten(0, last_batch),
                                      options)
      .reshape(shape);
}

struct Plan {
  AttentionShape shape;
  Tensor mask;  // keeps the memory that `shape` points at
};

Plan plan_of(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  Plan plan;
  plan.shape = {.batch = q.size(0),
                .heads = q.size(1),
                .kv_heads = k.size(1),
                .queries = q.size(2),
                .keys = k.size(2),
                .head_dim = q.size(3),
                .value_dim = v.size(3),
                .scale = *options.scale,
                .causal = options.causal};
  if (options.mask.defined()) {
    plan.mask = options.mask.dtype() == DType::boolean ? options.mask : options.mask.detach().to(q.dtype());
    const Tensor full = plan.mask.expand({q.size(0), q.size(1), q.size(2), k.size(2)});
    plan.shape.mask = {.data = full.data(),
                       .dtype = full.dtype(),
                       .batch_stride = full.stride(0),
                       .head_stride = full.stride(1),
                       .query_stride = full.stride(2),
                       .key_stride = full.stride(3)};
  }
  return plan;
}

// The kernels want the elements of one vector side by side.
Tensor dense_vectors(const Tensor& x) { return x.stride(3) == 1 || x.size(3) <= 1 ? x : x.contiguous(); }
AttentionInput input_of(const Tensor& x) { return {x.data(), x.stride(0), x.stride(1), x.stride(2)}; }
AttentionOutput output_of(const Tensor& x) { return {x.data(), x.stride(0), x.stride(1), x.stride(2)}; }

// [B, H, T, D] stored as [B, T, H, D], so that joining the heads afterwards is a view.
Tensor empty_by_time(const Tensor& like, int64_t heads, int64_t time, int64_t dim) {
  return empty({like.size(0), time, heads, dim}, like.options()).transpose(1, 2);
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, AttentionOptions options) {
  if (q.dim() == 2 && k.dim() == 2 && v.dim() == 2)
    return scaled_dot_product_attention(q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), options).squeeze(0);
  if (q.dim() > 4) return over_many_batches(q, k, v, options);
  if (q.dim() == 3 && k.dim() == 3 && v.dim() == 3) {  // one head
    if (options.mask.defined() && options.mask.dim() == 3) options.mask = options.mask.unsqueeze(1);
    return scaled_dot_product_attention(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1), options).squeeze(1);
  }
  WEFT_CHECK(q.dim() == 4 && k.dim() == 4 && v.dim() == 4, kName,
             "expected [batch, heads, time, dim] for q, k and v, got {}, {}, {}", describe(q), describe(k),
             describe(v));
  WEFT_CHECK(q.size(0) == k.size(0) && q.size(0) == v.size(0) && k.size(1) == v.size(1) && k.size(2) == v.size(2) &&
                 q.size(3) == k.size(3),
             kName, "q {}, k {}, v {} do not fit: expected equal batches, key and value times, and q and k dims",
             describe(q), describe(k), describe(v));
  WEFT_CHECK(k.size(1) > 0 && q.size(1) % k.size(1) == 0, kName,
             "{} query heads are not a multiple of {} key-value heads", q.size(1), k.size(1));
  detail::check_same_kind(kName, q, k);
  detail::check_same_kind(kName, q, v);
  options = completed(q, k, std::move(options));
  if (const DType compute = detail::compute_dtype_of(q, kName); compute != q.dtype())
    return scaled_dot_product_attention(q.to(compute), k.to(compute), v.to(compute), options).to(q.dtype());
  if (options.dropout > 0 || (options.mask.defined() && any_requires_grad({options.mask})))
    return composite(q, k, v, options);

  Tensor o, logsumexp;
  {
    NoGrad guard;
    const Tensor dense_q = dense_vectors(q), dense_k = dense_vectors(k), dense_v = dense_vectors(v);
    o = empty_by_time(q, q.size(1), q.size(2), v.size(3));
    logsumexp =
        empty({q.size(0), q.size(1), q.size(2)}, {.dtype = detail::statistics_dtype(q.dtype()), .device = q.device()});
    if (!q.is_meta()) {
      const Plan plan = plan_of(q, k, v, options);
      kernel_table(q.device().type, kName)
          .attention.forward(current_stream(q.device()), q.dtype(), plan.shape, input_of(dense_q), input_of(dense_k),
                             input_of(dense_v), output_of(o), logsumexp.data());
    }
  }
  if (!any_requires_grad({q, k, v})) return o;
  return record(kName, {q, k, v}, o,
                [q = Saved(q), k = Saved(k), v = Saved(v), o = Saved::output(o), logsumexp, options](
                    Node& node, const Gradients& dy) -> Gradients {
                  const Tensor queries = q.get(node), keys = k.get(node), values = v.get(node);
                  if (GradMode::enabled())
                    return composite_gradients(
                        [&](const std::vector<Tensor>& in) { return composite(in[0], in[1], in[2], options); },
                        {queries, keys, values}, dy[0]);
                  if (dy[0].numel() == 0) return {zeros_like(queries), zeros_like(keys), zeros_like(values)};
                  const Tensor dense_q = dense_vectors(queries), dense_k = dense_vectors(keys);
                  const Tensor dense_v = dense_vectors(values), dense_dy = dense_vectors(dy[0]);
                  Tensor dq = empty_by_time(queries, queries.size(1), queries.size(2), queries.size(3));
                  Tensor dk = empty_by_time(keys, keys.size(1), keys.size(2), keys.size(3));
                  Tensor dv = empty_by_time(values, values.size(1), values.size(2), values.size(3));
                  if (!dq.is_meta()) {
                    const Plan plan = plan_of(queries, keys, values, options);
                    kernel_table(dq.device().type, kName)
                        .attention.backward(current_stream(dq.device()), dq.dtype(), plan.shape, input_of(dense_q),
                                            input_of(dense_k), input_of(dense_v), input_of(o.get(node)),
                                            logsumexp.data(), input_of(dense_dy), output_of(dq), output_of(dk),
                                            output_of(dv));
                  }
                  return {dq, dk, dv};
                });
}

Tensor attention_weights(const Tensor& q, const Tensor& k, AttentionOptions options) {
  WEFT_CHECK(q.dim() == 4 && k.dim() == 4 && q.size(0) == k.size(0) && q.size(3) == k.size(3) && k.size(1) > 0 &&
                 q.size(1) % k.size(1) == 0,
             "attention_weights",
             "expected [batch, heads, time, dim] for q and k, equal but for heads and time, got {}, {}", describe(q),
             describe(k));
  detail::check_same_kind("attention_weights", q, k);
  options = completed(q, k, std::move(options));
  if (const DType compute = detail::compute_dtype_of(q, "attention_weights"); compute != q.dtype())
    return probabilities(q.to(compute), k.to(compute), options).to(q.dtype());
  return probabilities(q, k, options);
}

}  // namespace weft
