// The groups of golden values, a function each: runs every case of one file and tells `report`. The folder's README
// says what the files hold. Ops, optimizers and models are known by name; what is not known is skipped by name.
#pragma once
#include "tests/golden/report.h"
#include "tests/support/golden.h"

namespace weft::testing {

void run_ops(const GoldenFile& file, Report& report);        // ops.cpp
void run_optim(const GoldenFile& file, Report& report);      // optim.cpp
void run_data(const GoldenFile& file, Report& report);       // data.cpp
void run_model(const GoldenFile& file, Report& report);      // model.cpp
void run_precision(const GoldenFile& file, Report& report);  // precision.cpp
void run_accel(const GoldenFile& file, Report& report);      // accel.cpp

// Cases of optim_schedules (schedules.cpp).
void check_schedule(const GoldenFile& file, const Tree& c);
void check_plateau(const GoldenFile& file, const Tree& c);

// Where ops, optimizers, models and casts run: --device. Data and the Accelerator's rules have nothing to compute.
inline Device golden_device = Device::cpu();

// f(key, case) for every case of every list of `file`.
template <class F>
void for_each_case(const GoldenFile& file, F&& f) {
  for (const auto& [key, list] : file.index.as_map())
    if (key != "meta" && list.is_list())
      for (const Tree& c : list.as_list()) f(key, c);
}
inline std::string case_name(const GoldenFile& file, const Tree& c) {
  return c.is_map() && c.contains("name") ? c["name"].as_string() : file.name;
}

}  // namespace weft::testing
