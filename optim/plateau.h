// ReduceLROnPlateau: lowers the learning rate when a metric has stopped getting better.
//
//   optim::ReduceLROnPlateau schedule(opt, {.factor = 0.5, .patience = 3});
//   for (…) { …; schedule.step(validation_loss); }
#pragma once
#include <string>
#include <vector>

#include "optim/optimizer.h"

namespace weft::optim {

struct PlateauOptions {
  std::string mode = "min";  // the metric shall fall; "max": rise
  double factor = 0.1;
  int64_t patience = 10;               // bad epochs that are forgiven
  double threshold = 1e-4;             // of a change that counts
  std::string threshold_mode = "rel";  // of the best so far; "abs"
  int64_t cooldown = 0;                // epochs after a reduction in which nothing is counted
  std::vector<double> min_lr = {0};    // one, or one a group
  double eps = 1e-8;                   // smaller changes of the rate are not made
};

class ReduceLROnPlateau {
 public:
  // `optimizer` must outlive the schedule.
  explicit ReduceLROnPlateau(Optimizer& optimizer, PlateauOptions options = {});
  void step(double metric);

  double best() const { return best_; }
  int64_t num_bad_epochs() const { return num_bad_epochs_; }
  int64_t cooldown_counter() const { return cooldown_counter_; }
  int64_t last_epoch() const { return last_epoch_; }
  std::vector<double> last_lr() const;

  Tree state_dict() const;
  void load_state_dict(const Tree& state);

 private:
  bool is_better(double metric) const;
  Optimizer* optimizer_;
  PlateauOptions options_;
  double best_;
  int64_t num_bad_epochs_ = 0, cooldown_counter_ = 0, last_epoch_ = 0;
};

}  // namespace weft::optim
