#include "autograd/ops/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/functional.h"
#include "autograd/ops/common.h"
#include "autograd/ops/ops.h"
#include "kernels/table.h"

namespace weft {
namespace {

constexpr const char* kName = "scaled_dot_product_attention";

// The formula itself, on differentiable ops: for double backward, for dropout of the probabilities, and for a mask that
// is learned.
Tensor composite(const Tensor& q, const Tensor& k_in, const Tensor& v_in, const AttentionOptions& options) {
  const int64_t group = q.size(1) / k_in.size(1);
  const auto repeat = [group](const Tensor& x) {
    if (group == 1) return x;
    return x.unsqueeze(2).expand({-1, -1, group, -1, -1}).reshape({x.size(0), x.size(1) * group, x.size(2), x.size(3)});
  };
  const Tensor k = repeat(k_in), v = repeat(v_in);
  Tensor scores = matmul(q * options.scale, k.transpose(-1, -2));
  constexpr double lowest = -std::numeric_limits<double>::infinity();
  if (options.causal)
    scores = where(ge(arange(q.size(2), q.device()).unsqueeze(1), arange(k.size(2), q.device()).unsqueeze(0)), scores,
                   lowest);
  if (options.mask.defined())
    scores = options.mask.dtype() == DType::boolean ? where(options.mask, scores, lowest)
                                                    : scores + options.mask.to(scores.dtype());
  // Rows without a key: softmax of zeros, then nothing of it.
  const Tensor seen = gt(amax(scores, {-1}, true), lowest);
  const Tensor probabilities = where(seen, softmax(where(seen, scores, 0.0), -1), 0.0);
  return matmul(dropout(probabilities, options.dropout), v);
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
                .scale = options.scale,
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
  if (options.mask.defined()) {
    detail::check_same_device(kName, q, options.mask);
    const Shape scores{q.size(0), q.size(1), q.size(2), k.size(2)};
    WEFT_CHECK(broadcast_shapes(options.mask.shape(), scores, kName) == scores, kName,
               "the mask {} does not broadcast to {} (batch, heads, queries, keys)", describe(options.mask), scores);
  }
  if (options.scale == 0) options.scale = 1 / std::sqrt(std::max(1.0, static_cast<double>(q.size(3))));
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

}  // namespace weft
