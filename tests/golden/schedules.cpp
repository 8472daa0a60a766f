// Cases of optim_schedules: the learning rates (and momenta) of 30 steps.
#include <cctype>
#include <charconv>
#include <cmath>
#include <memory>

#include "optim/optim.h"
#include "tensor/factory.h"
#include "tests/golden/case.h"

namespace weft::testing {
namespace {

using optim::Optimizer;

// A function of n in the notation of the files: numbers, + - * / ^, parentheses, "a if n < 4 else b".
class Formula {
 public:
  explicit Formula(std::string text) : text_(std::move(text)) {
    (*this)(0);  // complains about what it does not know
  }
  double operator()(int64_t n) const {
    Reader reader{text_, static_cast<double>(n)};
    const double value = reader.choice();
    if (reader.at != text_.size()) throw Skip{fmt::format("the function \"{}\"", text_)};
    return value;
  }

 private:
  struct Reader {
    const std::string& text;
    double n;
    size_t at = 0;

    bool take(std::string_view token) {
      while (at < text.size() && std::isspace(static_cast<unsigned char>(text[at]))) ++at;
      if (text.compare(at, token.size(), token) != 0) return false;
      at += token.size();
      return true;
    }
    double choice() {
      const double yes = comparison();
      if (!take("if ")) return yes;
      const double condition = comparison();
      if (!take("else ")) throw Skip{fmt::format("the function \"{}\"", text)};
      const double no = choice();
      return condition != 0 ? yes : no;
    }
    double comparison() {
      const double a = sum();
      if (take("<=")) return a <= sum() ? 1 : 0;
      if (take(">=")) return a >= sum() ? 1 : 0;
      if (take("==")) return a == sum() ? 1 : 0;
      if (take("<")) return a < sum() ? 1 : 0;
      if (take(">")) return a > sum() ? 1 : 0;
      return a;
    }
    double sum() {
      double value = product();
      while (true) {
        if (take("+"))
          value += product();
        else if (take("-"))
          value -= product();
        else
          return value;
      }
    }
    double product() {
      double value = power();
      while (true) {
        if (take("//"))
          value = std::floor(value / power());
        else if (take("*"))
          value *= power();
        else if (take("/"))
          value /= power();
        else if (take("%"))
          value = modulo(value, power());
        else
          return value;
      }
    }
    static double modulo(double a, double b) { return a - b * std::floor(a / b); }
    double power() {
      if (take("-")) return -power();
      const double base = atom();
      if (take("^") || take("**")) return std::pow(base, power());
      return base;
    }
    double atom() {
      if (take("(")) {
        const double value = choice();
        if (!take(")")) throw Skip{fmt::format("the function \"{}\"", text)};
        return value;
      }
      if (take("n")) return n;
      double value = 0;
      const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), value);
      if (error != std::errc()) throw Skip{fmt::format("the function \"{}\"", text)};
      at = static_cast<size_t>(end - text.data());
      return value;
    }
  };
  std::string text_;
};

// "f" for all groups, or "per group: f and g".
std::vector<optim::LambdaLR::Factor> factors(const std::string& text, size_t groups) {
  const std::string prefix = "per group:";
  if (text.compare(0, prefix.size(), prefix) != 0) return std::vector<optim::LambdaLR::Factor>(groups, Formula(text));
  std::vector<optim::LambdaLR::Factor> result;
  size_t at = prefix.size();
  while (at <= text.size()) {
    const size_t end = std::min(text.find(" and ", at), text.size());
    result.emplace_back(Formula(text.substr(at, end - at)));
    at = end + 5;
  }
  return result;
}

// A number or a list of them.
std::vector<double> numbers(const Params& p, const std::string& name, std::vector<double> otherwise) {
  if (!p.has(name)) return otherwise;
  if (!p.get(name).is_list()) return {p.real(name)};
  std::vector<double> values;
  for (const Tree& value : p.get(name).as_list()) values.push_back(golden_number(value));
  return values;
}

using Schedule = std::shared_ptr<optim::LRScheduler>;

int64_t integer(const Params& p, const std::string& name, int64_t otherwise) {
  return p.has(name) ? p.integer(name) : otherwise;
}
std::string text(const Params& p, const std::string& name, std::string otherwise) {
  return p.has(name) ? p.text(name) : otherwise;
}

Schedule make_schedule(const std::string& name, const Tree& params, Optimizer& optimizer);

std::vector<Schedule> make_schedules(const Tree& list, Optimizer& optimizer) {
  std::vector<Schedule> result;
  for (const Tree& entry : list.as_list())
    for (const auto& [name, params] : entry.as_map()) result.push_back(make_schedule(name, params, optimizer));
  return result;
}

Schedule one_cycle(const Params& p, Optimizer& optimizer) {
  const optim::OneCycleOptions defaults;
  optim::OneCycleOptions o;
  o.max_lr = numbers(p, "max_lr", {});
  o.total_steps = integer(p, "total_steps", 0);
  o.epochs = integer(p, "epochs", 0);
  o.steps_per_epoch = integer(p, "steps_per_epoch", 0);
  o.pct_start = p.real("pct_start", defaults.pct_start);
  o.anneal_strategy = text(p, "anneal_strategy", defaults.anneal_strategy);
  o.cycle_momentum = p.flag("cycle_momentum", defaults.cycle_momentum);
  o.base_momentum = numbers(p, "base_momentum", defaults.base_momentum);
  o.max_momentum = numbers(p, "max_momentum", defaults.max_momentum);
  o.div_factor = p.real("div_factor", defaults.div_factor);
  o.final_div_factor = p.real("final_div_factor", defaults.final_div_factor);
  o.three_phase = p.flag("three_phase", defaults.three_phase);
  return std::make_shared<optim::OneCycleLR>(optimizer, o);
}

Schedule cyclic(const Params& p, Optimizer& optimizer) {
  const optim::CyclicOptions defaults;
  optim::CyclicOptions o;
  o.base_lr = numbers(p, "base_lr", {});
  o.max_lr = numbers(p, "max_lr", {});
  o.step_size_up = integer(p, "step_size_up", defaults.step_size_up);
  o.step_size_down = integer(p, "step_size_down", 0);
  o.mode = text(p, "mode", defaults.mode);
  o.gamma = p.real("gamma", defaults.gamma);
  o.scale_mode = text(p, "scale_mode", defaults.scale_mode);
  o.cycle_momentum = p.flag("cycle_momentum", defaults.cycle_momentum);
  o.base_momentum = numbers(p, "base_momentum", defaults.base_momentum);
  o.max_momentum = numbers(p, "max_momentum", defaults.max_momentum);
  return std::make_shared<optim::CyclicLR>(optimizer, o);
}

Schedule known_schedule(const std::string& name, const Params& p, Optimizer& optimizer) {
  const size_t groups = optimizer.group_count();
  if (name == "StepLR") return std::make_shared<optim::StepLR>(optimizer, p.integer("step_size"), p.real("gamma", 0.1));
  if (name == "MultiStepLR") {
    std::vector<int64_t> milestones;
    for (const int64_t milestone : p.list("milestones")) milestones.push_back(milestone);
    return std::make_shared<optim::MultiStepLR>(optimizer, milestones, p.real("gamma", 0.1));
  }
  if (name == "ExponentialLR") return std::make_shared<optim::ExponentialLR>(optimizer, p.real("gamma"));
  if (name == "ConstantLR")
    return std::make_shared<optim::ConstantLR>(optimizer, p.real("factor", 1.0 / 3), integer(p, "total_iters", 5));
  if (name == "LinearLR")
    return std::make_shared<optim::LinearLR>(optimizer,
                                             optim::LinearLROptions{.start_factor = p.real("start_factor", 1.0 / 3),
                                                                    .end_factor = p.real("end_factor", 1),
                                                                    .total_iters = integer(p, "total_iters", 5)});
  if (name == "PolynomialLR")
    return std::make_shared<optim::PolynomialLR>(optimizer, integer(p, "total_iters", 5), p.real("power", 1));
  if (name == "CosineAnnealingLR")
    return std::make_shared<optim::CosineAnnealingLR>(optimizer, p.integer("T_max"), p.real("eta_min", 0));
  if (name == "CosineAnnealingWarmRestarts")
    return std::make_shared<optim::CosineAnnealingWarmRestarts>(
        optimizer, optim::WarmRestartsOptions{
                       .t_0 = p.integer("T_0"), .t_mult = integer(p, "T_mult", 1), .eta_min = p.real("eta_min", 0)});
  if (name == "OneCycleLR") return one_cycle(p, optimizer);
  if (name == "CyclicLR") return cyclic(p, optimizer);
  if (name == "LambdaLR") return std::make_shared<optim::LambdaLR>(optimizer, factors(p.text("lambda"), groups));
  if (name == "MultiplicativeLR")
    return std::make_shared<optim::MultiplicativeLR>(optimizer, factors(p.text("lambda"), groups));
  if (name == "linear_warmup_linear_decay" || name == "linear_warmup_cosine_decay") {
    if (p.has("formula")) p.text("formula");  // a note
    const optim::WarmupDecayOptions o = {.warmup_steps = p.integer("warmup"), .total_steps = p.integer("total")};
    if (name == "linear_warmup_linear_decay")
      return std::make_shared<optim::LambdaLR>(optim::linear_warmup_linear_decay(optimizer, o));
    return std::make_shared<optim::LambdaLR>(optim::linear_warmup_cosine_decay(optimizer, o, p.real("cycles", 0.5)));
  }
  if (name == "SequentialLR") {
    std::vector<int64_t> milestones;
    for (const int64_t milestone : p.list("milestones")) milestones.push_back(milestone);
    return std::make_shared<optim::SequentialLR>(optimizer, make_schedules(p.get("schedulers"), optimizer), milestones);
  }
  if (name == "ChainedScheduler")
    return std::make_shared<optim::ChainedScheduler>(make_schedules(p.get("schedulers"), optimizer));
  throw Skip{fmt::format("{} is not in this version", name)};
}

Schedule make_schedule(const std::string& name, const Tree& params, Optimizer& optimizer) {
  const Params p(params);
  Schedule schedule = known_schedule(name, p, optimizer);
  p.check_all_read(name);
  return schedule;
}

optim::SGD make_optimizer(const std::vector<double>& rates) {
  std::vector<optim::SGD::Group> groups;
  for (const double lr : rates)
    groups.push_back(
        {{{std::to_string(groups.size()), zeros({1}, {.requires_grad = true})}}, {.lr = lr, .momentum = 0.9}});
  return optim::SGD(std::move(groups));
}

std::vector<double> rates_of(const Tree& initial) {
  if (!initial.is_list()) return {golden_number(initial)};
  std::vector<double> rates;
  for (const Tree& lr : initial.as_list()) rates.push_back(golden_number(lr));
  return rates;
}

}  // namespace

void check_schedule(const GoldenFile& file, const Tree& c) {
  optim::SGD optimizer = make_optimizer(rates_of(c["initial_lr"]));
  const Schedule schedule = make_schedule(c["name"].as_string(), c["params"], optimizer);
  const Tolerance tolerance = tolerance_of(file.index);
  const int64_t steps = c["lr"].size();
  for (int64_t step = 0; step < steps; ++step) {
    for (size_t g = 0; g < optimizer.group_count(); ++g) {
      const auto group = static_cast<int64_t>(g);
      expect_close(optimizer.lr(g), golden_number(c["lr"][step][group]), tolerance,
                   fmt::format("lr of group {} at step {}", g, step));
      if (c.contains("momentum"))
        expect_close(*optimizer.momentum(g), golden_number(c["momentum"][step][group]), tolerance,
                     fmt::format("momentum of group {} at step {}", g, step));
    }
    optimizer.step();
    if (step + 1 < steps) schedule->step();
  }
}

void check_plateau(const GoldenFile& file, const Tree& c) {
  optim::SGD optimizer = make_optimizer(rates_of(c["initial_lr"]));
  const Params p(c["params"]);
  const optim::PlateauOptions defaults;
  optim::PlateauOptions o;
  o.mode = text(p, "mode", defaults.mode);
  o.factor = p.real("factor", defaults.factor);
  o.patience = integer(p, "patience", defaults.patience);
  o.threshold = p.real("threshold", defaults.threshold);
  o.threshold_mode = text(p, "threshold_mode", defaults.threshold_mode);
  o.cooldown = integer(p, "cooldown", defaults.cooldown);
  o.min_lr = numbers(p, "min_lr", defaults.min_lr);
  o.eps = p.real("eps", defaults.eps);
  optim::ReduceLROnPlateau schedule(optimizer, o);
  p.check_all_read("ReduceLROnPlateau");
  for (int64_t step = 0; step < c["metrics"].size(); ++step) {
    schedule.step(golden_number(c["metrics"][step]));
    expect_close(optimizer.lr(), golden_number(c["lr_after"][step]), tolerance_of(file.index),
                 fmt::format("lr after step {}", step));
    expect_equal(Tree(schedule.num_bad_epochs()), c["num_bad_epochs"][step],
                 fmt::format("num_bad_epochs after step {}", step));
    expect_equal(Tree(schedule.cooldown_counter()), c["cooldown_counter"][step],
                 fmt::format("cooldown_counter after step {}", step));
  }
}

}  // namespace weft::testing
