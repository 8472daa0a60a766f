// Cases of ops_*: an op forward and backward against the recorded values; then, in f64, where rounding hides nothing,
// the backward under create_graph (composite formulas) against the plain one (fused kernels).
#include <optional>
#include <utility>

#include "autograd/engine.h"
#include "tests/golden/case.h"

namespace weft::testing {
namespace {

Tensor apply_views(Tensor x, const Tree& steps) {
  for (const Tree& step : steps.as_list()) {
    const std::string& kind = step[0].as_string();
    std::vector<int64_t> numbers;
    for (int64_t i = 1; i < step.size(); ++i) numbers.push_back(step[i].as_int());
    if (kind == "transpose")
      x = x.transpose(numbers.at(0), numbers.at(1));
    else if (kind == "t")
      x = x.t();
    else if (kind == "slice")
      x = x.slice(numbers.at(0), numbers.at(1), numbers.at(2), numbers.at(3));
    else if (kind == "permute")
      x = x.permute(numbers);
    else if (kind == "expand")
      x = x.expand(numbers);
    else
      throw Skip{fmt::format("the view {}", kind)};
  }
  return x;
}

// The stored inputs as leaves, and the op's outputs made from them.
struct Run {
  std::vector<Tensor> leaves;
  std::vector<Tensor> outputs;
};

// `dtype`: floating-point inputs are converted to it.
Run run_forward(const GoldenFile& file, const Tree& c, const OpFunction& op, std::optional<DType> dtype = {}) {
  Run run;
  OpArguments arguments{Params(c["params"]), {}};
  for (int64_t i = 0; i < c["inputs"].size(); ++i) {
    Tensor leaf = file.tensor(c["inputs"][i].as_string()).clone();
    if (dtype && is_floating(leaf.dtype())) leaf = leaf.to(*dtype);
    leaf = leaf.to(golden_device);
    if (c.contains("grad_inputs") && c["grad_inputs"].contains(std::to_string(i))) leaf.requires_grad_();
    run.leaves.push_back(leaf);
    const bool has_view = c.contains("views") && c["views"].contains(std::to_string(i));
    arguments.in.push_back(has_view ? apply_views(leaf, c["views"][std::to_string(i)]) : leaf);
  }
  run.outputs = op(arguments);
  arguments.params.check_all_read(c["op"].as_string());
  return run;
}

std::vector<Tensor> gradients(const GoldenFile& file, const Tree& c, const Run& run, bool create_graph) {
  std::vector<Tensor> outputs, grad_outputs, leaves;
  for (const auto& [index, name] : c["grad_outputs"].as_map()) {
    outputs.push_back(run.outputs.at(std::stoul(index)));
    grad_outputs.push_back(file.tensor(name.as_string()).to(outputs.back().dtype()).to(golden_device));
  }
  for (const auto& entry : c["grad_inputs"].as_map()) leaves.push_back(run.leaves.at(std::stoul(entry.first)));
  if (create_graph) return grad(outputs, leaves, grad_outputs, {.create_graph = true});
  backward(outputs, grad_outputs);
  std::vector<Tensor> result;
  for (const Tensor& leaf : leaves) result.push_back(leaf.grad());
  return result;
}

bool close(const Tensor& got, const Tensor& want, Tolerance tolerance) {
  try {
    expect_close(got, want, tolerance, "");
  } catch (const Error&) {
    return false;
  }
  return true;
}

// The gradients of the case on the CPU, wherever the others are computed.
std::vector<Tensor> cpu_gradients(const GoldenFile& file, const Tree& c, const OpFunction& op) {
  const Device device = std::exchange(golden_device, cpu_device);
  std::vector<Tensor> result;
  try {
    result = gradients(file, c, run_forward(file, c, op), false);
  } catch (...) {
    golden_device = device;
    throw;
  }
  golden_device = device;
  return result;
}

// On other devices than the CPU a recorded value may be nothing but the CPU's rounding: a sum whose terms cancel. That is
// so where the CPU gives it in f32, but the same op in f64 does not; there the device must give what f64 gives.
bool is_rounding_of_cpu(const Tensor& cpu_gradient, const Tensor& exact, const Tensor& recorded, Tolerance tolerance) {
  return close(cpu_gradient, recorded, tolerance) &&
         !close(exact.to(recorded.dtype()).to(cpu_device), recorded, tolerance);
}

void check_gradients(const GoldenFile& file, const Tree& c, const OpFunction& op, const Run& run) {
  const std::vector<Tensor> got = gradients(file, c, run, false);
  const std::vector<Tensor> fused = gradients(file, c, run_forward(file, c, op, f64), false);
  const std::vector<Tensor> composite = gradients(file, c, run_forward(file, c, op, f64), true);
  size_t k = 0;
  for (const auto& [index, name] : c["grad_inputs"].as_map()) {
    Tensor want = file.tensor(name.as_string());
    if (golden_device != cpu_device && !close(got[k], want, tolerance_of(c)) &&
        is_rounding_of_cpu(cpu_gradients(file, c, op)[k], fused[k], want, tolerance_of(c)))
      want = fused[k].to(want.dtype()).to(cpu_device);
    expect_close(got[k], want, tolerance_of(c), "grad_input" + index);
    expect_close(composite[k], fused[k], {1e-8, 1e-10}, fmt::format("grad_input{} under create_graph", index));
    ++k;
  }
}

void check_op(const GoldenFile& file, const Tree& c) {
  const std::string& name = c["op"].as_string();
  const OpFunction op = find_op(name);
  if (!op) throw Skip{fmt::format("{} is not in this version", name)};
  if (c.contains("raises")) return expect_throws([&] { run_forward(file, c, op); });
  const Run run = run_forward(file, c, op);
  WEFT_CHECK(static_cast<int64_t>(run.outputs.size()) == c["outputs"].size(), "golden", "{} outputs, expected {}",
             run.outputs.size(), c["outputs"].size());
  for (int64_t i = 0; i < c["outputs"].size(); ++i)
    expect_close(run.outputs[static_cast<size_t>(i)], file.tensor(c["outputs"][i].as_string()), tolerance_of(c),
                 fmt::format("output{}", i));
  if (!c.contains("grad_inputs") || c["grad_inputs"].size() == 0) return;
  check_gradients(file, c, op, run);
}

}  // namespace

void run_ops(const GoldenFile& file, Report& report) {
  for_each_case(
      file, [&](const std::string&, const Tree& c) { report.run(case_name(file, c), c, [&] { check_op(file, c); }); });
}

}  // namespace weft::testing
