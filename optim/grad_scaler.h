// GradScaler: loss scaling for gradients that would underflow in f16 (Micikevicius et al. 2018, arXiv:1710.03740), with
// the interface and the rules of torch.amp.GradScaler.
//
//   optim::GradScaler scaler;
//   scaler.scale(loss).backward();
//   scaler.unscale_(opt);                         // only where gradients are looked at, as by clip_grad_norm_
//   optim::clip_grad_norm_(opt.parameters(), 1);
//   scaler.step(opt);                             // skipped where a gradient is infinite or NaN
//   scaler.update();
//
// The scale is an f32 number. After an overflow it is multiplied by backoff_factor, after growth_interval steps in a row
// without one by growth_factor, unless that overflows.
#pragma once
#include <optional>
#include <unordered_map>
#include <vector>

#include "optim/optimizer.h"

namespace weft::optim {

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  bool enabled = true;  // false: everything passes through
};

class GradScaler {
 public:
  explicit GradScaler(GradScalerOptions options = {});
  virtual ~GradScaler() = default;

  // output · scale, differentiable; f16 and bf16 become f32, in which the product fits.
  Tensor scale(const Tensor& output) const;
  std::vector<Tensor> scale(const std::vector<Tensor>& outputs) const;

  // Divides the optimizer's gradients by the scale, in one launch that also looks for overflows. Once between two
  // updates. f16 gradients are an error: scaling is for f32 parameters whose graph computes in f16.
  void unscale_(Optimizer& optimizer);
  // Unscales where that was not done, then optimizer.step() unless a gradient overflowed. True if the step was taken.
  bool step(Optimizer& optimizer);
  // Adjusts the scale by what all optimizers of this iteration saw, or sets it.
  void update(std::optional<double> new_scale = {});

  bool is_enabled() const { return options_.enabled; }
  double get_scale() const { return options_.enabled ? static_cast<double>(scale_) : 1; }
  double get_growth_factor() const { return options_.growth_factor; }
  double get_backoff_factor() const { return options_.backoff_factor; }
  int64_t get_growth_interval() const { return options_.growth_interval; }
  int64_t get_growth_tracker() const { return growth_tracker_; }
  void set_growth_factor(double factor);
  void set_backoff_factor(double factor);
  void set_growth_interval(int64_t interval);
  // Whether the optimizer's gradients overflowed, once they are unscaled and until update().
  bool found_inf(const Optimizer& optimizer);

  // {"scale", "growth_factor", "backoff_factor", "growth_interval", "_growth_tracker"}; empty if not enabled.
  Tree state_dict() const;
  void load_state_dict(const Tree& state);

 protected:
  // Called once an optimizer an iteration with what its gradients here showed, before the step is decided. Ranks that
  // share a step agree here.
  virtual bool agree_on_found_inf(const Optimizer& optimizer, bool found) const;

 private:
  enum class Stage : uint8_t { ready, unscaled, stepped };
  struct PerOptimizer {
    Stage stage = Stage::ready;
    std::vector<Tensor> flags;  // f32 [1], a device each
    std::optional<bool> found;  // read from them
  };
  bool read_flags(const Optimizer& optimizer, PerOptimizer& own) const;

  GradScalerOptions options_;
  float scale_;
  int64_t growth_tracker_ = 0;
  std::unordered_map<const Optimizer*, PerOptimizer> optimizers_;  // of this iteration
};

}  // namespace weft::optim
