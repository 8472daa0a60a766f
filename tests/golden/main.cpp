// golden_runner: compares Weft with recorded values of torch, Accelerate and others.
//
//   build/tests/golden_runner --dir ../shared/goldens
//   build/tests/golden_runner --dir ../shared/goldens --groups ops,optim --device simt
//
// Reads every <group>_<topic>.json of the folder, prints a line a group and at the end "N passed, N failed". A failing
// case prints its name, op, parameters and the first difference; skipped ones are counted by what is missing. Ends
// with 1 on a failure, 2 when nothing could be run.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "kernels/base/error.h"
#include "tensor/factory.h"
#include "tests/golden/groups.h"

namespace weft::testing {
namespace {

using Runner = void (*)(const GoldenFile&, Report&);
struct Group {
  std::string_view name;
  Runner run;
};
constexpr Group kGroups[] = {{"ops", run_ops},   {"optim", run_optim}, {"model", run_model},
                             {"data", run_data}, {"accel", run_accel}, {"precision", run_precision}};

const Group* find_group(std::string_view name) {
  for (const Group& group : kGroups)
    if (group.name == name) return &group;
  return nullptr;
}

std::string group_of(const std::string& file) { return file.substr(0, file.find('_')); }

void check_arguments(const std::vector<std::string>& wanted, const std::string& device) {
  golden_device = device_named(device, "golden_runner");
  empty({1}, TensorOptions{.device = golden_device});  // a device that is not there is an error of its own
  for (const std::string& name : wanted)
    if (!find_group(name))
      fail(ErrorCode::invalid_argument, "golden_runner",
           "no group \"{}\"; there are: ops, optim, model, data, accel, precision", name);
}

Report run_group(const Group& group, const std::filesystem::path& folder, const std::vector<std::string>& files) {
  Report report{std::string(group.name)};
  for (const std::string& name : files) {
    if (group_of(name) != group.name) continue;
    try {
      group.run(load_golden(folder, name), report);
    } catch (const std::exception& error) {
      report.fail_all(name, error.what());
    }
  }
  return report;
}

int run(const std::filesystem::path& folder, const std::vector<std::string>& wanted, const std::string& device) {
  check_arguments(wanted, device);
  const std::vector<std::string> files = golden_names(folder);
  int64_t passed = 0, failed = 0;
  for (const Group& group : kGroups) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), group.name) == wanted.end()) continue;
    if (std::none_of(files.begin(), files.end(), [&](const auto& name) { return group_of(name) == group.name; }))
      continue;
    const Report report = run_group(group, folder, files);
    report.print();
    passed += report.passed();
    failed += report.failed();
  }
  if (passed + failed == 0)
    fail(ErrorCode::not_found, "golden_runner", "{}: no case to run; expected files such as ops_unary.json",
         folder.string());
  std::printf("%lld passed, %lld failed\n", static_cast<long long>(passed), static_cast<long long>(failed));
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace weft::testing

int main(int argc, char** argv) {
  CLI::App app{"Compares Weft with recorded values of other programs", "golden_runner"};
  std::string folder, device = "cpu";
  std::vector<std::string> groups;
  app.add_option("--dir", folder, "the folder with <group>_<topic>.json and .safetensors files")->required();
  app.add_option("--groups", groups, "only these: ops, optim, model, data, accel, precision")->delimiter(',');
  app.add_option("--device", device, "where to run: cpu, simt or cuda")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  try {
    return weft::testing::run(folder, groups, device);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
