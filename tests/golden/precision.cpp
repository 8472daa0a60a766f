// Cases of precision_*: every code of the small formats, and casts to them, bit for bit.
#include <cmath>
#include <limits>

#include "tensor/factory.h"
#include "tests/golden/groups.h"

namespace weft::testing {
namespace {

// Codes (any integer dtype) as a tensor of the format, and back.
Tensor from_codes(const Tensor& codes, DType format) {
  const DType storage = size_of(format) == 1 ? u8 : i16;
  const auto kept = std::make_shared<Tensor>(codes.to(storage).contiguous());
  return from_blob(kept->data(), codes.shape(), format, [kept] {});
}
Tensor to_codes(const Tensor& x) {
  const Tensor dense = x.contiguous();
  Tensor codes = empty(x.shape(), i64);
  for (int64_t i = 0; i < x.numel(); ++i)
    codes.data<int64_t>()[i] = size_of(x.dtype()) == 1 ? static_cast<const uint8_t*>(dense.data())[i]
                                                       : static_cast<const uint16_t*>(dense.data())[i];
  return codes;
}

// By the kernel of the device under test.
Tensor converted(const Tensor& x, DType dtype) { return x.to(golden_device).to(dtype).to(cpu_device); }

// Equal bits, so that 0 and -0 differ; NaN equals NaN.
void expect_same_floats(const Tensor& got, const Tensor& want, const std::string& what) {
  expect_close(got, want, {}, what);
  for (int64_t i = 0; i < want.numel(); ++i)
    WEFT_CHECK(
        std::isnan(want.data<float>()[i]) || std::signbit(want.data<float>()[i]) == std::signbit(got.data<float>()[i]),
        "golden", "{}: another sign at {}", what, i);
}

void check_table(const GoldenFile& file, const std::string& format, const Tree& facts) {
  const Tensor want = file.tensor(format + ".values");
  const Tensor codes = file.tensors.contains(format + ".codes") ? file.tensor(format + ".codes") : arange(want.numel());
  const Tensor got = converted(from_codes(codes, golden_dtype(format)), f32);
  expect_same_floats(got, want, "values");
  int64_t nan = 0, infinite = 0;
  double largest = 0, smallest = std::numeric_limits<double>::infinity();
  for (const double value : got.to_vector()) {
    nan += std::isnan(value);
    infinite += std::isinf(value);
    if (std::isfinite(value)) largest = std::max(largest, value);
    if (value > 0) smallest = std::min(smallest, value);
  }
  expect_equal(nan, facts["nan_codes"], "nan_codes");
  expect_equal(infinite, facts["inf_codes"], "inf_codes");
  expect_close(largest, facts["max"].as_double(), {}, "max");
  expect_close(smallest, facts["smallest_subnormal"].as_double(), {}, "smallest_subnormal");
}

void check_cast(const GoldenFile& file, const std::string& format) {
  const auto part = [&](const char* name) { return file.tensor(format + "." + name); };
  const DType dtype = golden_dtype(format);
  const Tensor input = part("input"), got = to_codes(converted(input, dtype));
  const Tensor plain = part("bits").to(i64), saturated = part("bits_saturated").to(i64), is_nan = part("is_nan");
  const Tensor as_float = from_codes(got, dtype).to(f32);
  const bool has_infinity = dtype != f8e4m3;
  for (int64_t i = 0; i < input.numel(); ++i) {
    const float x = input.data<float>()[i];
    // Weft's casts to fp8 saturate what is finite, and infinity where the format has none.
    const bool saturates = size_of(dtype) == 1 && !std::isnan(x) && (std::isfinite(x) || !has_infinity);
    const int64_t want = (saturates ? saturated : plain).data<int64_t>()[i];
    const bool same =
        !saturates && is_nan.data<bool>()[i] ? std::isnan(as_float.data<float>()[i]) : got.data<int64_t>()[i] == want;
    WEFT_CHECK(same, "golden", "cast of {} to {}: got code {:#x}, expected {:#x}", x, format, got.data<int64_t>()[i],
               want);
  }
  expect_same_floats(from_codes(plain, dtype).to(f32), part("round_trip"), "round_trip");
}

void check_cast_from_f64(const Tree& c) {
  const Tree::List& inputs = c["input"].as_list();
  std::vector<double> values;
  for (const Tree& value : inputs) values.push_back(golden_number(value));
  const Tensor x = tensor(values);
  for (const auto& [key, want] : c.as_map()) {
    if (key == "format" || key == "note" || key == "input") continue;
    const std::vector<double> got = converted(x, golden_dtype(key)).to_vector();
    for (size_t i = 0; i < got.size(); ++i)
      expect_close(got[i], golden_number(want[static_cast<int64_t>(i)]), {}, fmt::format("{} of {}", key, values[i]));
  }
}

}  // namespace

void run_precision(const GoldenFile& file, Report& report) {
  if (file.name == "precision_tables") {
    for (const auto& [format, facts] : file.index["formats"].as_map())
      report.run("table of " + format, facts,
                 [&, &format = format, &facts = facts] { check_table(file, format, facts); });
    return;
  }
  for_each_case(file, [&](const std::string&, const Tree& c) {
    report.run(file.name, c, [&] {
      if (file.name != "precision_casts")
        throw Skip{fmt::format("{} is not in this version", file.name.substr(file.name.find('_') + 1))};
      const std::string& format = c["format"].as_string();
      if (format == "from_float64") return check_cast_from_f64(c);
      check_cast(file, format);
    });
  });
}

}  // namespace weft::testing
