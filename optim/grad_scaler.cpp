#include "optim/grad_scaler.h"

#include <algorithm>
#include <cmath>

#include "autograd/grad_mode.h"
#include "autograd/ops/ops.h"
#include "kernels/table.h"
#include "optim/launch_lists.h"

namespace weft::optim {
namespace {

void check_factors(const GradScalerOptions& o) {
  WEFT_CHECK(!o.enabled || (o.growth_factor > 1 && o.backoff_factor > 0 && o.backoff_factor < 1), "grad_scaler",
             "expected a growth_factor above 1 and a backoff_factor in (0, 1), got {} and {}", o.growth_factor,
             o.backoff_factor);
  WEFT_CHECK(!o.enabled || (o.init_scale > 0 && o.growth_interval >= 1), "grad_scaler",
             "expected init_scale > 0 and growth_interval >= 1, got {} and {}", o.init_scale, o.growth_interval);
}

}  // namespace

GradScaler::GradScaler(GradScalerOptions options) : options_(options), scale_(static_cast<float>(options.init_scale)) {
  check_factors(options_);
}

Tensor GradScaler::scale(const Tensor& output) const {
  if (!options_.enabled) return output;
  const bool half = output.dtype() == DType::f16 || output.dtype() == DType::bf16;
  return (half ? output.to(DType::f32) : output) * static_cast<double>(scale_);
}

std::vector<Tensor> GradScaler::scale(const std::vector<Tensor>& outputs) const {
  std::vector<Tensor> scaled;
  for (const Tensor& output : outputs) scaled.push_back(scale(output));
  return scaled;
}

void GradScaler::unscale_(Optimizer& optimizer) {
  if (!options_.enabled) return;
  PerOptimizer& own = optimizers_[&optimizer];
  WEFT_CHECK(own.stage != Stage::unscaled, "unscale_", "the gradients were unscaled since the last update() already");
  WEFT_CHECK(own.stage != Stage::stepped, "unscale_", "the optimizer has stepped since the last update()");
  NoGrad guard;
  LaunchLists<MutableSlice> lists;
  std::vector<std::pair<Tensor, Tensor>> copies;  // a gradient that is not contiguous, and its dense copy
  for (const Tensor& parameter : optimizer.parameters()) {
    const Tensor gradient = parameter.grad();
    if (!gradient.defined()) continue;
    WEFT_CHECK(gradient.dtype() != DType::f16, "unscale_",
               "a gradient is {}; expected f32, f64 or bf16: keep the parameters in f32", describe(gradient));
    Tensor dense = gradient;
    if (!gradient.is_contiguous()) {
      dense = gradient.contiguous();
      copies.emplace_back(gradient, dense);
    }
    lists.like(dense).push_back({dense.data(), dense.numel()});
    gradient.storage()->bump_version();
  }
  const double inverse = 1 / static_cast<double>(scale_);
  std::vector<Tensor> flags;
  lists.for_each([&](DType dtype, Device device, const std::vector<MutableSlice>& slices) {
    auto flag = std::find_if(flags.begin(), flags.end(), [&](const Tensor& f) { return f.device() == device; });
    if (flag == flags.end()) flag = flags.insert(flag, zeros({1}, {.dtype = DType::f32, .device = device}));
    kernel_table(device.type, "unscale_")
        .optimizer.unscale(current_stream(device), dtype, slices.data(), static_cast<int64_t>(slices.size()), inverse,
                           flag->data<float>());
  });
  for (const auto& [gradient, dense] : copies) gradient.copy_(dense);
  own.flags = std::move(flags);
  own.found.reset();
  own.stage = Stage::unscaled;
}

bool GradScaler::agree_on_found_inf(const Optimizer&, bool found) const { return found; }

bool GradScaler::read_flags(const Optimizer& optimizer, PerOptimizer& own) const {
  if (!own.found) {
    bool found = false;
    for (const Tensor& flag : own.flags) found = flag.item() != 0 || found;
    own.found = agree_on_found_inf(optimizer, found);
  }
  return *own.found;
}

bool GradScaler::found_inf(const Optimizer& optimizer) {
  if (!options_.enabled) return false;
  const auto own = optimizers_.find(&optimizer);
  WEFT_CHECK(own != optimizers_.end() && own->second.stage != Stage::ready, "found_inf",
             "the gradients of this optimizer were not unscaled since the last update()");
  return read_flags(optimizer, own->second);
}

bool GradScaler::step(Optimizer& optimizer) {
  if (!options_.enabled) {
    optimizer.step();
    return true;
  }
  WEFT_CHECK(optimizers_[&optimizer].stage != Stage::stepped, "step",
             "the optimizer has stepped since the last update() already");
  if (optimizers_[&optimizer].stage == Stage::ready) unscale_(optimizer);
  PerOptimizer& own = optimizers_[&optimizer];
  const bool found = read_flags(optimizer, own);
  if (!found) optimizer.step();
  own.stage = Stage::stepped;
  return !found;
}

void GradScaler::update(std::optional<double> new_scale) {
  if (!options_.enabled) return;
  if (new_scale) {
    WEFT_CHECK(*new_scale > 0, "update", "expected a scale above 0, got {}", *new_scale);
    scale_ = static_cast<float>(*new_scale);
  } else {
    bool checked = false, found = false;
    for (auto& [optimizer, own] : optimizers_) {
      if (own.stage == Stage::ready) continue;
      checked = true;
      found = read_flags(*optimizer, own) || found;
    }
    WEFT_CHECK(checked, "update", "no gradients were unscaled since the last update()");
    if (found) {
      scale_ = static_cast<float>(static_cast<double>(scale_) * options_.backoff_factor);
      growth_tracker_ = 0;
    } else if (++growth_tracker_ >= options_.growth_interval) {
      const auto grown = static_cast<float>(static_cast<double>(scale_) * options_.growth_factor);
      if (std::isfinite(grown)) scale_ = grown;
      growth_tracker_ = 0;
    }
  }
  optimizers_.clear();
}

void GradScaler::set_growth_factor(double factor) {
  GradScalerOptions changed = options_;
  changed.growth_factor = factor;
  check_factors(changed);
  options_ = changed;
}

void GradScaler::set_backoff_factor(double factor) {
  GradScalerOptions changed = options_;
  changed.backoff_factor = factor;
  check_factors(changed);
  options_ = changed;
}

void GradScaler::set_growth_interval(int64_t interval) {
  GradScalerOptions changed = options_;
  changed.growth_interval = interval;
  check_factors(changed);
  options_ = changed;
}

Tree GradScaler::state_dict() const {
  if (!options_.enabled) return Tree::map();
  return Tree::map({{"scale", static_cast<double>(scale_)},
                    {"growth_factor", options_.growth_factor},
                    {"backoff_factor", options_.backoff_factor},
                    {"growth_interval", options_.growth_interval},
                    {"_growth_tracker", growth_tracker_}});
}

void GradScaler::load_state_dict(const Tree& state) {
  if (!options_.enabled) return;
  WEFT_CHECK(state.size() > 0, "load_state_dict", "the state is empty: it was saved by a scaler that was not enabled");
  GradScalerOptions loaded = options_;
  loaded.growth_factor = state.at("growth_factor").as_double();
  loaded.backoff_factor = state.at("backoff_factor").as_double();
  loaded.growth_interval = state.at("growth_interval").as_int();
  check_factors(loaded);
  const auto scale = static_cast<float>(state.at("scale").as_double());
  growth_tracker_ = state.at("_growth_tracker").as_int();
  scale_ = scale;
  options_ = loaded;
}

}  // namespace weft::optim
