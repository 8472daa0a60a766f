#include "optim/clip.h"

#include <cmath>

#include "autograd/ops/ops.h"
#include "kernels/table.h"
#include "optim/grouped.h"
#include "optim/launch_lists.h"

namespace weft::optim {

double detail::combine_parts(std::vector<Tensor> parts, bool largest) {
  double total = 0;
  const auto combine = [&](double part) {
    if (largest)
      total = part > total || std::isnan(part) ? part : total;
    else
      total += part;
  };
  while (!parts.empty()) {
    const Device device = parts.front().device();
    std::vector<Tensor> here, elsewhere;
    for (Tensor& part : parts) (part.device() == device ? here : elsewhere).push_back(std::move(part));
    for (const double part : (here.size() == 1 ? here[0] : cat(here, 0)).to_vector()) combine(part);
    parts = std::move(elsewhere);
  }
  return total;
}

namespace {

std::vector<Tensor> gradients_of(const std::vector<Tensor>& parameters) {
  std::vector<Tensor> gradients;
  for (const Tensor& parameter : parameters)
    if (Tensor gradient = parameter.grad(); gradient.defined()) gradients.push_back(std::move(gradient));
  return gradients;
}

void scale(const std::vector<Tensor>& gradients, double factor) {
  LaunchLists<MutableSlice> lists;
  for (const Tensor& g : gradients) {
    if (!g.is_contiguous()) {
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
  LaunchLists<ConstSlice> lists;
  std::vector<Tensor> dense;  // alive until the launch
  for (const Tensor& g : gradients) {
    dense.push_back(g.contiguous());
    lists.like(g).push_back({dense.back().data(), g.numel()});
  }
  std::vector<Tensor> parts;
  lists.for_each([&](DType dtype, Device device, const std::vector<ConstSlice>& slices) {
    parts.push_back(empty({1}, {.dtype = DType::f64, .device = device}));  // the kernel writes where the gradients are
    kernel_table(device.type, "grad_norm")
        .optimizer.power_sum(current_stream(device), dtype, p, slices.data(), static_cast<int64_t>(slices.size()),
                             parts.back().data<double>());
  });
  const double total = detail::combine_parts(std::move(parts), std::isinf(p));
  return std::isinf(p) || p == 0 ? total : std::pow(total, 1 / p);
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
  WEFT_CHECK(options.norm_type >= 0, "clip_grad_norm_", "expected a norm type of at least 0, got {}",
             options.norm_type);
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
