#include "autograd/ops/loss.h"

#include "autograd/functional.h"
#include "autograd/ops/common.h"
#include "autograd/ops/ops.h"
#include "kernels/table.h"

namespace weft {
namespace {

constexpr const char* kName = "cross_entropy";

Tensor reduced(const Tensor& loss, LossReduction reduction) {
  switch (reduction) {
    case LossReduction::none: return loss;
    case LossReduction::mean: return mean(loss);
    case LossReduction::sum: return sum(loss);
  }
  return loss;
}

// Loss of each row, undivided, on differentiable ops: for double backward.
Tensor composite_rows(const Tensor& logits, const Tensor& target, const CrossEntropyLossOptions& options) {
  const Tensor counts = ne(target, options.ignore_index);
  const Tensor safe = where(counts, target, int64_t{0});
  const Tensor log_p = log_softmax(logits, 1);
  const Tensor weight =
      options.weight.defined() ? options.weight.to(logits.dtype()) : ones({logits.size(1)}, logits.options());
  const double s = options.label_smoothing;
  const Tensor picked = gather(log_p, 1, safe.unsqueeze(1)).squeeze(1) * index_select(weight, 0, safe);
  Tensor loss = -picked * (1 - s);
  if (s > 0) loss = loss - sum(log_p * weight, {1}) * (s / static_cast<double>(logits.size(1)));
  return where(counts, loss, 0.0);
}

// logits [rows, classes], target [rows]: the loss of each row, and the sum of the weights that count for a mean, both of
// f32 where the logits have fewer bits.
Tensor fused_rows(const Tensor& logits, const Tensor& target, const CrossEntropyLossOptions& options,
                  Tensor& total_weight) {
  const int64_t rows = logits.size(0);
  const auto column = [&](DType dtype) { return empty({rows}, {.dtype = dtype, .device = logits.device()}); };
  const DType kept = detail::statistics_dtype(logits.dtype());
  const Tensor loss = column(kept), row_max = column(kept), log_sum = column(kept), row_weight = column(kept);
  const bool weighted = options.weight.defined() && !options.weight.is_meta();
  const CrossEntropyOptions plain{.classes = logits.size(1),
                                  .weight = weighted ? options.weight.data() : nullptr,
                                  .ignore_index = options.ignore_index,
                                  .label_smoothing = options.label_smoothing};
  if (!logits.is_meta())
    kernel_table(logits.device().type, kName)
        .loss.cross_entropy_forward(current_stream(logits.device()), logits.dtype(), plain, logits.data(),
                                    target.data<int64_t>(), rows, loss.data(), row_max.data(), log_sum.data(),
                                    row_weight.data());
  {
    NoGrad guard;
    total_weight = sum(row_weight);
  }
  return record(kName, {logits}, loss,
                [=, logits = Saved(logits), target = Saved(target)](Node& node, const Gradients& dy) -> Gradients {
                  const Tensor x = logits.get(node), t = target.get(node);
                  if (GradMode::enabled())
                    return composite_gradients(
                        [&](const std::vector<Tensor>& in) { return composite_rows(in[0].to(kept), t, options); }, {x},
                        dy[0]);
                  Tensor dx = empty_like(x);
                  if (!x.is_meta())
                    kernel_table(x.device().type, kName)
                        .loss.cross_entropy_backward(current_stream(x.device()), x.dtype(), plain, x.data(),
                                                     t.data<int64_t>(), x.size(0), row_max.data(), log_sum.data(),
                                                     dy[0].data(), dy[0].stride(0), dx.data());
                  return {dx};
                });
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target, CrossEntropyLossOptions options) {
  WEFT_CHECK(target.dtype() == DType::i64, kName, "expected class indices of dtype i64, got {}", describe(target));
  detail::check_same_device(kName, logits, target);
  if (options.weight.defined()) detail::check_same_device(kName, logits, options.weight);
  WEFT_CHECK(options.label_smoothing >= 0 && options.label_smoothing <= 1, kName,
             "expected label_smoothing from 0 to 1, got {}", options.label_smoothing);
  if (logits.dim() == 1) {
    WEFT_CHECK(target.dim() == 0, kName, "one row of logits {} needs a 0-d target, got {}", describe(logits),
               describe(target));
    const Tensor loss = cross_entropy(logits.unsqueeze(0), target.reshape({1}), options);
    return options.reduction == LossReduction::none ? loss.reshape({}) : loss;
  }
  Shape expected = logits.shape();
  WEFT_CHECK(logits.dim() >= 2, kName, "expected logits [N, C, …], got {}", describe(logits));
  expected.erase(1);
  WEFT_CHECK(target.shape() == expected, kName, "logits {} need targets of shape {}, got {}", describe(logits),
             expected, describe(target));
  WEFT_CHECK(!options.weight.defined() || options.weight.shape() == Shape({logits.size(1)}), kName,
             "expected a weight of shape [{}], got {}", logits.size(1), describe(options.weight));
  if (const DType compute = detail::compute_dtype_of(logits, kName); compute != logits.dtype())
    return cross_entropy(logits.to(compute), target, options).to(logits.dtype());
  if (options.weight.defined()) options.weight = options.weight.detach().to(logits.dtype()).contiguous();

  // Classes last, everything else as rows.
  Tensor rows = logits;
  if (logits.dim() > 2) {
    Shape order;
    for (int d = 0; d < logits.dim(); ++d)
      if (d != 1) order.push_back(d);
    order.push_back(1);
    rows = logits.permute(order).reshape({target.numel(), logits.size(1)});
  }
  Tensor total_weight;
  const Tensor loss =
      fused_rows(rows.contiguous(), target.reshape({target.numel()}).contiguous(), options, total_weight);
  const Tensor reduced = options.reduction == LossReduction::none  ? loss.reshape(expected)
                         : options.reduction == LossReduction::sum ? sum(loss)
                                                                   : sum(loss) / total_weight;
  return reduced.to(logits.dtype());
}

Tensor mse_loss(const Tensor& x, const Tensor& target, LossReduction reduction) {
  WEFT_CHECK(x.shape() == target.shape(), "mse_loss", "shapes differ: {} and {}", describe(x), describe(target));
  return reduced(square(x - target), reduction);
}

}  // namespace weft
