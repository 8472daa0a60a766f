// Cases of optim_*: optimizers over 8 steps of given gradients, schedules, clipping.
#include "optim/optim.h"

#include <cmath>
#include <limits>
#include <memory>

#include "tensor/factory.h"
#include "tests/golden/groups.h"

namespace weft::testing {
namespace {

using optim::Optimizer;

// Sets the members of `options` by torch's names.
template <class Options>
void set_options(Options& options, const Tree& values, const std::string& op) {
  for (const auto& [key, value] : values.as_map()) {
    if (key == "params") continue;  // of a group: its parameters
    if (key == "betas") {
      set_options(options, Tree::map({{"beta1", value[0]}, {"beta2", value[1]}}), op);
      continue;
    }
    bool known = false;
    std::apply(
        [&, &key = key, &value = value](const auto&... field) {
          const auto set = [&](const auto& name_and_member) {
            if (key != name_and_member.first) return;
            known = true;
            auto& member = options.*name_and_member.second;
            if constexpr (std::is_same_v<std::decay_t<decltype(member)>, bool>)
              member = value.as_bool();
            else
              member = value.as_double();
          };
          (set(field), ...);
        },
        Options::fields());
    if (!known) throw Skip{fmt::format("{} with {}", op, key)};
  }
}

template <class Class>
std::unique_ptr<Optimizer> make(const Tree& c, const std::vector<Tensor>& parameters) {
  const std::string& op = c["op"].as_string();
  std::vector<typename Class::Group> groups;
  for (const Tree& overrides : c["groups"].as_list()) {
    typename Class::Group group;
    for (const Tree& index : overrides["params"].as_list())
      group.parameters.emplace_back(std::to_string(index.as_int()), parameters.at(static_cast<size_t>(index.as_int())));
    set_options(group.options, c["params"], op);
    set_options(group.options, overrides, op);
    groups.push_back(std::move(group));
  }
  return std::make_unique<Class>(std::move(groups));
}

std::unique_ptr<Optimizer> make_optimizer(const Tree& c, const std::vector<Tensor>& parameters) {
  const std::string& op = c["op"].as_string();
  if (op == "SGD") return make<optim::SGD>(c, parameters);
  if (op == "Adam") return make<optim::Adam>(c, parameters);
  if (op == "AdamW") return make<optim::AdamW>(c, parameters);
  throw Skip{fmt::format("{} is not in this version", op)};
}

void check_trajectory(const GoldenFile& file, const Tree& c) {
  std::vector<Tensor> parameters;
  for (const Tree& name : c["initial"].as_list())
    parameters.push_back(file.tensor(name.as_string()).clone().to(golden_device).requires_grad_());
  const auto optimizer = make_optimizer(c, parameters);
  const int64_t steps = file.tensor(c["trajectory"][0].as_string()).size(0);
  for (int64_t step = 0; step < steps; ++step) {
    for (size_t p = 0; p < parameters.size(); ++p)
      parameters[p].set_grad(
          file.tensor(c["grads"][static_cast<int64_t>(p)].as_string()).select(0, step).clone().to(golden_device));
    for (const Tree& missing : c["no_grad_at"].as_list())
      if (missing["step"].as_int() == step) parameters.at(static_cast<size_t>(missing["param"].as_int())).set_grad({});
    optimizer->step();
    for (size_t p = 0; p < parameters.size(); ++p)
      expect_close(parameters[p], file.tensor(c["trajectory"][static_cast<int64_t>(p)].as_string()).select(0, step),
                   tolerance_of(c), fmt::format("parameter {} after step {}", p, step));
  }
}

void check_clip(const GoldenFile& file, const Tree& c) {
  const std::string& op = c["op"].as_string();
  if (op != "clip_grad_norm" && op != "clip_grad_value") throw Skip{fmt::format("{} is not in this version", op)};
  std::vector<Tensor> parameters;
  for (const Tree& name : c["grads"].as_list()) {
    const Tensor gradient = file.tensor(name.as_string()).to(golden_device);
    parameters.push_back(zeros(gradient.shape(), gradient.options()).requires_grad_());
    parameters.back().set_grad(gradient.clone());
  }
  const Tree& params = c["params"];
  if (op == "clip_grad_norm") {
    const double norm = optim::clip_grad_norm_(parameters, golden_number(params["max_norm"]),
                                               {.norm_type = golden_number(params["norm_type"])});
    expect_close(norm, golden_number(c["total_norm"]), tolerance_of(c), "total_norm");
  } else {
    optim::clip_grad_value_(parameters, golden_number(params["clip_value"]));
  }
  for (size_t p = 0; p < parameters.size(); ++p)
    expect_close(parameters[p].grad(), file.tensor(c["clipped"][static_cast<int64_t>(p)].as_string()), tolerance_of(c),
                 fmt::format("clipped gradient {}", p));
}

optim::LambdaLR make_schedule(const Tree& c, Optimizer& optimizer) {
  const std::string& name = c["name"].as_string();
  if (name != "LambdaLR") throw Skip{fmt::format("{} is not in this version", name)};
  // A factor a step: "b^n".
  const std::string& text = c["params"]["lambda"].as_string();
  size_t used = 0;
  double base = 0;
  try {
    base = std::stod(text, &used);
  } catch (const std::invalid_argument&) {
  }
  if (text.substr(used) != "^n") throw Skip{"LambdaLR with a function of its own for each group"};
  return optim::LambdaLR(optimizer, [base](int64_t step) { return std::pow(base, static_cast<double>(step)); });
}

void check_schedule(const GoldenFile& file, const Tree& c) {
  std::vector<optim::SGD::Group> groups;
  for (const Tree& lr : c["initial_lr"].as_list()) {
    Tensor parameter = zeros({1}, {.requires_grad = true});
    groups.push_back({{{std::to_string(groups.size()), parameter}}, {.lr = lr.as_double()}});
  }
  optim::SGD optimizer(std::move(groups));
  optim::LambdaLR schedule = make_schedule(c, optimizer);
  const Tolerance tolerance = tolerance_of(file.index);
  int64_t step = 0;
  for (const Tree& rates : c["lr"].as_list()) {
    for (size_t g = 0; g < optimizer.group_count(); ++g)
      expect_close(optimizer.lr(g), rates[static_cast<int64_t>(g)].as_double(), tolerance,
                   fmt::format("lr of group {} at step {}", g, step));
    optimizer.step();
    schedule.step();
    ++step;
  }
}

}  // namespace

void run_optim(const GoldenFile& file, Report& report) {
  for_each_case(file, [&](const std::string& key, const Tree& c) {
    report.run(case_name(file, c), c, [&] {
      if (file.name == "optim_trajectories") return check_trajectory(file, c);
      if (file.name == "optim_clip_ema") return check_clip(file, c);
      if (file.name == "optim_schedules" && key == "schedules") return check_schedule(file, c);
      if (file.name == "optim_schedules") throw Skip{fmt::format("{} is not in this version", key)};
      throw Skip{fmt::format("{} is not in this version", file.name)};
    });
  });
}

}  // namespace weft::testing
