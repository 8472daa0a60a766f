// Optimizer: what all optimizers share. A parameter without a gradient is left alone by every step.
//
//   auto opt = optim::AdamW(net.named_parameters(), {.lr = 1e-3});
//   auto opt = optim::AdamW(std::vector<optim::AdamW::Group>{{decayed, {.weight_decay = 0.1}}, {others, {.weight_decay = 0}}});
//   loss.backward();
//   opt.step();
//   opt.zero_grad();
//
// Parameters are those of modules, shared by handle. State is kept by parameter name where names are known
// (named_parameters()), else by position, so it can be saved and loaded whatever the order of the groups.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensor/tensor.h"
#include "tensor/tree.h"

namespace weft::optim {

using NamedParameters = std::vector<std::pair<std::string, Tensor>>;

// Gives parameters without names the names "0", "1", …
NamedParameters with_positions(const std::vector<Tensor>& parameters, size_t first = 0);

class Optimizer {
 public:
  virtual ~Optimizer() = default;

  // Updates every parameter that has a gradient, in place: f64, f32, bf16 or f16. State of bf16 and f16 is kept in f32.
  virtual void step() = 0;
  // Forgets the gradients: grad() is undefined until the next backward.
  void zero_grad();

  // Learning rates are changed by schedulers, per group.
  size_t group_count() const { return groups_.size(); }
  virtual double lr(size_t group = 0) const = 0;
  virtual void set_lr(double lr, size_t group = 0) = 0;
  // The learning rate that the first scheduler found, from which all of them count. None before a scheduler was made.
  std::optional<double> initial_lr(size_t group = 0) const { return initial_lr_.at(group); }
  void set_initial_lr(std::optional<double> lr, size_t group = 0) { initial_lr_.at(group) = lr; }
  // What schedulers cycle besides: beta1, or the momentum of optimizers without it; nothing where there is neither.
  virtual std::optional<double> momentum(size_t group = 0) const = 0;
  virtual void set_momentum(double momentum, size_t group = 0) = 0;

  // All parameters, group by group.
  std::vector<Tensor> parameters() const;
  const NamedParameters& group_parameters(size_t group) const { return groups_.at(group); }

  // {"state": {name: {…}}, "param_groups": [{"lr": …, …, "params": [names]}]}. Tensors share memory with the optimizer.
  virtual Tree state_dict() const = 0;
  // Takes a state of the same class, groups and parameter names and shapes; anything else is an error, and nothing changes.
  virtual void load_state_dict(const Tree& state) = 0;

 protected:
  explicit Optimizer(std::vector<NamedParameters> groups);

  // --- for state_dict and load_state_dict of the classes ---
  // Lists of names under "params".
  Tree group_names(size_t group) const;
  // Checks that `state` has these groups with these names; gives the groups.
  const Tree::List& check_groups(const Tree& state) const;

 private:
  std::vector<NamedParameters> groups_;
  std::vector<std::optional<double>> initial_lr_;  // a group each
};

}  // namespace weft::optim
