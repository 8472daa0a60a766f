#include "optim/clip.h"

#include <cmath>

#include "autograd/ops/ops.h"
#include "kernels/table.h"
#include "optim/grouped.h"

namespace weft::optim {
namespace {

std::vector<Tensor> gradients_of(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : parameters)
    if (Tensor gradient = parameter.grad(); gradient.defined()) gradients.push_back(std::move(gradient));
  return gradients;
}

bool fits_kernel(const Tensor& gradient) { return gradient.is_contiguous() && has_optimizer_kernel(gradient); }

double squares(const std::vector<Tensor>& gradients) {
  double total = 0;
  LaunchLists<ConstSlice> lists;
  for (const Tensor& g : gradients) {
    if (fits_kernel(g))
      lists.like(g).push_back({g.data(), g.numel()});
    else
      total += sum(square(g.to(DType::f64))).item();
  }
  lists.for_each([&](DType dtype, Device device, const std::vector<ConstSlice>& slices) {
    const Tensor part =
        zeros({}, {.dtype = DType::f64, .device = device});  // the kernel writes where the gradients are
    kernel_table(device.type, "clip_grad_norm_")
        .optimizer.sum_of_squares(current_stream(device), dtype, slices.data(), static_cast<int64_t>(slices.size()),
                                  part.data<double>());
    total += part.item();
  });
  return total;
}

void scale(const std::vector<Tensor>& gradients, double factor) {
  LaunchLists<MutableSlice> lists;
  for (const Tensor& g : gradients) {
    if (!fits_kernel(g)) {
      g.mul_(factor);
      continue;
    }
    lists.like(g).push_back({g.data(), g.numel()});
    g.storage()->bump_version();
  }
  lists.for_each([&](DType dtype, Device device, const std::vector<MutableSlice>& slices) {
    kernel_table(device.type, "clip_grad_norm_")
        .optimizer.scale(current_stream(device), dtype, slices.data(), static_cast<int64_t>(slices.size()), factor);
  });
}

double norm_of(const std::vector<Tensor>& gradients, double p) {
  if (p == 2) return std::sqrt(squares(gradients));
  double total = 0;
  const bool largest = std::isinf(p) && p > 0;
  for (const Tensor& g : gradients) {
    if (g.numel() == 0) continue;
    const double part = norm(g.to(DType::f64), p).item();
    if (largest)
      total = part > total || std::isnan(part) ? part : total;
    else if (p == 0)
      total += part;
    else
      total += std::pow(part, p);
  }
  return largest || p == 0 ? total : std::pow(total, 1 / p);
}

}  // namespace

double grad_norm(const std::vector<Tensor>& parameters, double norm_type) {
  NoGrad guard;
  WEFT_CHECK(norm_type >= 0, "grad_norm", "expected a norm type of at least 0, got {}", norm_type);
  return norm_of(gradients_of(parameters), norm_type);
}

double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, ClipOptions options) {
  NoGrad guard;
  WEFT_CHECK(max_norm >= 0, "clip_grad_norm_", "expected max_norm >= 0, got {}", max_norm);
  const std::vector<Tensor> gradients = gradients_of(parameters);
  const double norm = norm_of(gradients, options.norm_type);
  WEFT_CHECK(!options.error_if_nonfinite || std::isfinite(norm), "clip_grad_norm_",
             "the norm of the gradients is {}; they were left as they are", norm);
  const double factor = max_norm / (norm + 1e-6);
  if (!(factor >= 1)) scale(gradients, factor);  // NaN scales, too
  return norm;
}

void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  NoGrad guard;
  WEFT_CHECK(clip_value >= 0, "clip_grad_value_", "expected a value of at least 0, got {}", clip_value);
  for (const Tensor& gradient : gradients_of(parameters)) gradient.copy_(clamp(gradient, -clip_value, clip_value));
}

}  // namespace weft::optim
