// Cases of optim_*: optimizers over 8 steps of given gradients, clipping, averages, loss scaling. schedules.cpp has the
// schedules.
#include "optim/optim.h"

#include <cmath>
#include <limits>
#include <memory>

#include "autograd/ops/ops.h"
#include "tensor/factory.h"
#include "tests/golden/groups.h"

namespace weft::testing {
namespace {

using optim::Optimizer;

template <class T>
void set_value(T& member, const Tree& value) {
  if constexpr (std::is_same_v<T, bool>)
    member = value.as_bool();
  else if constexpr (std::is_same_v<T, int64_t>)
    member = value.as_int();
  else if constexpr (std::is_same_v<T, std::string>)
    member = value.as_string();
  else
    member = golden_number(value);
}

// Parameters of torch that are tuples, by the members they stand for.
std::vector<std::string> members_of_tuple(const std::string& key) {
  if (key == "betas") return {"beta1", "beta2"};
  if (key == "eps") return {"eps1", "eps2"};
  if (key == "ns_coefficients") return {"ns_a", "ns_b", "ns_c"};
  return {};
}

// Sets the members of `options` by torch's names.
template <class Options>
void set_options(Options& options, const Tree& values, const std::string& op) {
  for (const auto& [key, given] : values.as_map()) {
    if (key == "params") continue;  // of a group: its parameters
    // How torch computes, not what.
    if (key == "foreach" || key == "fused" || key == "capturable" || key == "differentiable") continue;
    const Tree& value = given.is_map() && given.contains("tuple") ? given["tuple"] : given;
    if (value.is_null()) continue;  // the default
    if (value.is_list()) {
      const std::vector<std::string> members = members_of_tuple(key);
      if (static_cast<int64_t>(members.size()) != value.size()) throw Skip{fmt::format("{} with {}", op, key)};
      for (size_t i = 0; i < members.size(); ++i)
        set_options(options, Tree::map({{members[i], value[static_cast<int64_t>(i)]}}), op);
      continue;
    }
    bool known = false;
    std::apply(
        [&, &key = key](const auto&... field) {
          const auto set = [&](const auto& name_and_member) {
            if (key != name_and_member.first) return;
            known = true;
            set_value(options.*name_and_member.second, value);
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
  if (op == "Adagrad") return make<optim::Adagrad>(c, parameters);
  if (op == "RMSprop") return make<optim::RMSprop>(c, parameters);
  if (op == "Adadelta") return make<optim::Adadelta>(c, parameters);
  if (op == "Adamax") return make<optim::Adamax>(c, parameters);
  if (op == "NAdam") return make<optim::NAdam>(c, parameters);
  if (op == "RAdam") return make<optim::RAdam>(c, parameters);
  if (op == "Lion") return make<optim::Lion>(c, parameters);
  if (op == "LAMB") return make<optim::Lamb>(c, parameters);
  if (op == "Lomo") return make<optim::Lomo>(c, parameters);
  if (op == "Adafactor") return make<optim::Adafactor>(c, parameters);
  if (op == "Muon") return make<optim::Muon>(c, parameters);
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

// Averages of a parameter that takes the values given, one a step.
void check_average(const GoldenFile& file, const Tree& c) {
  const bool ema = c["op"].as_string() == "ema";
  const Tensor values = file.tensor(c["values"].as_string());
  const Tensor averages = file.tensor(c[ema ? "averages" : "average"].as_string());
  const Tensor parameter = zeros_like(values.select(0, 0)).to(golden_device);
  optim::AverageOptions options;
  if (ema) options.decay = golden_number(c["params"]["decay"]);
  optim::AveragedModel model(std::vector<Tensor>{parameter}, options);
  for (int64_t step = 0; step < values.size(0); ++step) {
    parameter.copy_(values.select(0, step));
    model.update();
    if (ema)
      expect_close(model.averages()[0].second, averages.select(0, step), tolerance_of(c),
                   fmt::format("average after step {}", step));
  }
  if (!ema) expect_close(model.averages()[0].second, averages, tolerance_of(c), "average");
}

void check_clip(const GoldenFile& file, const Tree& c) {
  const std::string& op = c["op"].as_string();
  if (op == "ema" || op == "swa") return check_average(file, c);
  if (op != "clip_grad_norm" && op != "clip_grad_value") throw Skip{fmt::format("{} is not in this version", op)};
  std::vector<Tensor> parameters;
  for (const Tree& name : c["grads"].as_list()) {
    const Tensor gradient = file.tensor(name.as_string()).to(golden_device);
    parameters.push_back(zeros(gradient.shape(), gradient.options()).requires_grad_());
    parameters.back().set_grad(gradient.clone());
  }
  const Tree& params = c["params"];
  if (op == "clip_grad_norm") {
    optim::ClipOptions options;
    if (params.contains("norm_type")) options.norm_type = golden_number(params["norm_type"]);
    if (params.contains("error_if_nonfinite")) options.error_if_nonfinite = params["error_if_nonfinite"].as_bool();
    const double norm = optim::clip_grad_norm_(parameters, golden_number(params["max_norm"]), options);
    expect_close(norm, golden_number(c["total_norm"]), tolerance_of(c), "total_norm");
  } else {
    optim::clip_grad_value_(parameters, golden_number(params["clip_value"]));
  }
  for (size_t p = 0; p < parameters.size(); ++p)
    expect_close(parameters[p].grad(), file.tensor(c["clipped"][static_cast<int64_t>(p)].as_string()), tolerance_of(c),
                 fmt::format("clipped gradient {}", p));
}

// Steps of a parameter whose gradient is the scale times {1, 2}, or infinite where the event says so.
void check_grad_scaler(const Tree& c) {
  optim::GradScaler scaler({.init_scale = golden_number(c["init_scale"]),
                            .growth_factor = golden_number(c["growth_factor"]),
                            .backoff_factor = golden_number(c["backoff_factor"]),
                            .growth_interval = c["growth_interval"].as_int()});
  const Tensor parameter = zeros({2}, {.device = golden_device, .requires_grad = true});
  const Tensor slope = tensor({1, 2}).to(golden_device);
  optim::SGD optimizer(std::vector<Tensor>{parameter}, {.lr = 1});
  int64_t number = 0;
  for (const Tree& event : c["events"].as_list()) {
    const std::string at = fmt::format(" of event {}", number++);
    expect_close(scaler.get_scale(), golden_number(event["scale_before"]), {}, "scale_before" + at);
    optimizer.zero_grad();
    scaler.scale(sum(parameter * slope)).backward();
    if (event["found_inf"].as_bool()) parameter.set_grad(parameter.grad() * std::numeric_limits<double>::infinity());
    if (event["unscale_first"].as_bool()) scaler.unscale_(optimizer);
    const bool stepped = scaler.step(optimizer);
    expect_equal(Tree(!stepped), event["skipped"], "skipped" + at);
    if (!event["grad_unscaled"].is_null()) {
      const std::vector<double> gradient = parameter.grad().to_vector();
      for (size_t i = 0; i < gradient.size(); ++i)
        expect_close(gradient[i], golden_number(event["grad_unscaled"][static_cast<int64_t>(i)]), {1e-6, 0},
                     "grad_unscaled" + at);
    }
    scaler.update();
    expect_close(scaler.get_scale(), golden_number(event["scale_after"]), {}, "scale_after" + at);
    expect_equal(Tree(scaler.get_growth_tracker()), event["growth_tracker_after"], "growth_tracker_after" + at);
  }
}

}  // namespace

void run_optim(const GoldenFile& file, Report& report) {
  for_each_case(file, [&](const std::string& key, const Tree& c) {
    report.run(case_name(file, c), c, [&] {
      if (file.name == "optim_trajectories") return check_trajectory(file, c);
      if (file.name == "optim_clip_ema") return check_clip(file, c);
      if (file.name == "optim_grad_scaler") return check_grad_scaler(c);
      if (file.name == "optim_schedules" && key == "schedules") return check_schedule(file, c);
      if (file.name == "optim_schedules" && key == "reduce_on_plateau") return check_plateau(file, c);
      throw Skip{fmt::format("{} is not in this version", file.name)};
    });
  });
}

}  // namespace weft::testing
