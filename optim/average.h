// Averages of a model's parameters over training: exponential (EMA; Polyak & Juditsky 1992, as in Tarvainen & Valpola
// 2017, arXiv:1703.01780) or equal (SWA; Izmailov et al. 2018, arXiv:1803.05407).
//
//   optim::AveragedModel ema(net.named_parameters(), {.decay = 0.999});
//   for (…) { …; opt.step(); ema.update(); }
//   ema.swap();  evaluate(net);  ema.swap();      // or ema.copy_to(), for good
//
// Buffers (running statistics) may be appended to the list; what is not floating point is copied instead of averaged.
#pragma once
#include <optional>

#include "optim/launch_lists.h"
#include "optim/optimizer.h"

namespace weft::optim {

struct AverageOptions {
  std::optional<double> decay;  // avg = decay · avg + (1 - decay) · value; none: the equal average of all updates
};

class AveragedModel {
 public:
  // The tensors are shared by handle; the averages begin as copies of them, in f32 for bf16 and f16.
  explicit AveragedModel(NamedParameters parameters, AverageOptions options = {});
  explicit AveragedModel(const std::vector<Tensor>& parameters, AverageOptions options = {});

  // Takes the present values in, in one launch; the first time they are copied.
  void update();
  // The averages into the parameters.
  void copy_to() const;
  // Averages and parameters change places; twice is as before, up to the rounding of bf16 and f16.
  void swap();

  int64_t n_averaged() const { return n_averaged_; }  // updates so far
  // In the order and with the names of the parameters.
  const NamedParameters& averages() const { return averages_; }

  // {"n_averaged": …, "averages": {name: tensor}}, sharing memory.
  Tree state_dict() const;
  // Takes a state with these names and shapes; anything else is an error, and nothing changes.
  void load_state_dict(const Tree& state);

 private:
  NamedParameters parameters_, averages_;
  AverageOptions options_;
  int64_t n_averaged_ = 0;
  LaunchLists<OptimizerSlice> lists_;
};

}  // namespace weft::optim
