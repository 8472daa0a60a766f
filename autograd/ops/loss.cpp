#include "autograd/ops/loss.h"

#include "autograd/functional.h"
#include "autograd/ops/common.h"
#include "autograd/ops/ops.h"
#include "kernels/table.h"

namespace weft {
namespace {

constexpr const char* kName = "cross_entropy";

// What a target stands for in the classes of a row; shared by cross_entropy and nll_loss.
struct Targets {
  Tensor counts;  // bool: not ignore_index
  Tensor safe;    // ignored targets replaced by 0
};
Targets targets_of(const Tensor& target, int64_t ignore_index) {
  const Tensor counts = ne(target, ignore_index);
  return {counts, where(counts, target, int64_t{0})};
}

// Classes are dimension 1, or the only one. `scores`: logits or logarithms of probabilities.
void check_classes(const char* op, const Tensor& scores, const Tensor& target, const Tensor& weight) {
  WEFT_CHECK(target.dtype() == DType::i64, op, "expected class indices of dtype i64, got {}", describe(target));
  detail::check_same_device(op, scores, target);
  if (weight.defined()) detail::check_same_device(op, scores, weight);
  WEFT_CHECK(scores.dim() >= 1, op, "expected [N, C, …] or [C], got {}", describe(scores));
  const int classes_at = scores.dim() == 1 ? 0 : 1;
  Shape expected = scores.shape();
  expected.erase(classes_at);
  WEFT_CHECK(target.shape() == expected, op, "{} need targets of shape {}, got {}", describe(scores), expected,
             describe(target));
  WEFT_CHECK(!weight.defined() || weight.shape() == Shape({scores.size(classes_at)}), op,
             "expected a weight of shape [{}], got {}", scores.size(classes_at), describe(weight));
}

// The weighted mean divides by the weights of the targets that count.
Tensor reduced_by_weight(const char* op, const Tensor& loss, const Tensor& total_weight, LossReduction reduction) {
  return reduction == LossReduction::mean ? sum(loss) / total_weight : detail::reduced(op, loss, reduction);
}

// Loss of each row, undivided, on differentiable ops: for double backward.
Tensor composite_rows(const Tensor& logits, const Tensor& target, const CrossEntropyLossOptions& options) {
  const auto [counts, safe] = targets_of(target, options.ignore_index);
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

// Targets that are probabilities, of the shape of the logits.
Tensor cross_entropy_of_probabilities(const Tensor& logits, const Tensor& target,
                                      const CrossEntropyLossOptions& options) {
  WEFT_CHECK(logits.shape() == target.shape() && logits.dim() >= 1, kName,
             "probabilities need the shape of the logits {}, got {}", describe(logits), describe(target));
  detail::check_same_device(kName, logits, target);
  WEFT_CHECK(options.ignore_index < 0, kName, "ignore_index {} has no meaning where targets are probabilities",
             options.ignore_index);
  const int dim = logits.dim() == 1 ? 0 : 1;
  const int64_t classes = logits.size(dim);
  const DType wide = detail::statistics_dtype(logits.dtype());
  Tensor factor = target.to(wide);
  if (options.label_smoothing > 0)
    factor = factor * (1 - options.label_smoothing) + options.label_smoothing / static_cast<double>(classes);
  if (options.weight.defined()) {
    detail::check_same_device(kName, logits, options.weight);
    WEFT_CHECK(options.weight.shape() == Shape({classes}), kName, "expected a weight of shape [{}], got {}", classes,
               describe(options.weight));
    Shape shape(std::vector<int64_t>(static_cast<size_t>(logits.dim()), 1));
    shape[dim] = classes;
    factor = factor * options.weight.detach().to(wide).reshape(shape);
  }
  const Tensor loss = -sum(factor * log_softmax(logits.to(wide), dim), {dim});
  const Tensor result = options.reduction == LossReduction::mean ? sum(loss) / static_cast<double>(loss.numel())
                                                                 : detail::reduced(kName, loss, options.reduction);
  return result.to(logits.dtype());
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target, CrossEntropyLossOptions options) {
  WEFT_CHECK(options.label_smoothing >= 0 && options.label_smoothing <= 1, kName,
             "expected label_smoothing from 0 to 1, got {}", options.label_smoothing);
  if (is_floating(target.dtype())) return cross_entropy_of_probabilities(logits, target, options);
  check_classes(kName, logits, target, options.weight);
  if (logits.dim() == 1) {
    const Tensor loss = cross_entropy(logits.unsqueeze(0), target.reshape({1}), options);
    return options.reduction == LossReduction::none ? loss.reshape({}) : loss;
  }
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
  const Tensor shaped = options.reduction == LossReduction::none ? loss.reshape(target.shape()) : loss;
  const Tensor result = reduced_by_weight(kName, shaped, total_weight, options.reduction).to(logits.dtype());
  if (!options.zero_if_all_ignored || options.reduction != LossReduction::mean) return result;
  return where(gt(total_weight, 0), result, 0.0);
}

Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target, NllLossOptions options) {
  constexpr const char* op = "nll_loss";
  check_classes(op, log_probabilities, target, options.weight);
  if (log_probabilities.dim() == 1) {
    const Tensor loss = nll_loss(log_probabilities.unsqueeze(0), target.reshape({1}), options);
    return options.reduction == LossReduction::none ? loss.reshape({}) : loss;
  }
  const auto [counts, safe_targets] = targets_of(target, options.ignore_index);
  const Tensor safe = safe_targets.contiguous();
  if (!safe.is_meta() && safe.numel() > 0)
    kernel_table(safe.device().type, op)
        .index.check(current_stream(safe.device()), op, safe.data<int64_t>(), safe.numel(), 0,
                     log_probabilities.size(1));
  const DType wide = detail::statistics_dtype(log_probabilities.dtype());
  Tensor loss = -gather(log_probabilities, 1, safe.unsqueeze(1)).squeeze(1).to(wide);
  Tensor weight = counts.to(wide);
  if (options.weight.defined()) {
    weight = weight * index_select(options.weight.detach().to(wide), 0, safe.reshape({-1})).reshape(safe.shape());
    loss = loss * weight;
  }
  loss = where(counts, loss, 0.0);
  return reduced_by_weight(op, loss, sum(weight), options.reduction).to(log_probabilities.dtype());
}

}  // namespace weft
