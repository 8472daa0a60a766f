#include "autograd/ops/rope.h"

#include <cmath>

#include "autograd/ops/common.h"
#include "autograd/ops/ops.h"

namespace weft {
namespace {

constexpr double kPi = 3.14159265358979323846;

double scaled_frequency(double frequency, const RopeScaling& scaling) {
  if (scaling.low_freq_factor <= 0) return frequency / scaling.factor;
  const double turns = static_cast<double>(scaling.original_context) * frequency / (2 * kPi);
  if (turns < scaling.low_freq_factor) return frequency / scaling.factor;
  if (turns > scaling.high_freq_factor) return frequency;
  const double kept = (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - kept) * frequency / scaling.factor + kept * frequency;
}

void check_options(const RopeOptions& options) {
  WEFT_CHECK(options.dim > 0 && options.dim % 2 == 0, "rope", "expected an even dim above 0, got {}", options.dim);
  WEFT_CHECK(options.base > 0, "rope", "expected a base above 0, got {}", options.base);
  const RopeScaling& scaling = options.scaling;
  WEFT_CHECK(scaling.factor > 0, "rope", "expected a scaling factor above 0, got {}", scaling.factor);
  WEFT_CHECK(scaling.low_freq_factor <= 0 ||
                 (scaling.high_freq_factor > scaling.low_freq_factor && scaling.original_context > 0),
             "rope", "expected low_freq_factor < high_freq_factor and a context above 0, got {}, {} and {}",
             scaling.low_freq_factor, scaling.high_freq_factor, scaling.original_context);
}

}  // namespace

RopeTables rope_tables(const Tensor& positions, const RopeOptions& options, DType dtype) {
  check_options(options);
  WEFT_CHECK(positions.dim() == 1 || positions.dim() == 2, "rope", "expected positions [time] or [batch, time], got {}",
             describe(positions));
  WEFT_CHECK(!is_floating(positions.dtype()) && positions.dtype() != DType::boolean, "rope",
             "expected positions of whole numbers, got {}", describe(positions));
  std::vector<double> frequencies;
  for (int64_t i = 0; i < options.dim; i += 2)
    frequencies.push_back(scaled_frequency(
        std::pow(options.base, -static_cast<double>(i) / static_cast<double>(options.dim)), options.scaling));
  const DType wide = dtype == DType::f64 ? DType::f64 : DType::f32;
  const NoGrad guard;
  Tensor angles = positions.to(wide).unsqueeze(-1) * tensor(frequencies).to(wide).to(positions.device());
  // Into one turn, for the fast sine and cosine are exact for moderate angles only.
  angles = remainder(angles.to(DType::f64), 2 * kPi).to(wide);
  if (positions.dim() == 2) angles = angles.unsqueeze(1);
  return {cos(angles), sin(angles)};
}

Tensor apply_rope(const Tensor& x, const Tensor& cos, const Tensor& sin, bool interleaved) {
  WEFT_CHECK(x.dim() >= 1 && cos.dim() >= 1 && cos.shape() == sin.shape(), "rope",
             "expected x [.., time, head] and cos and sin of one shape, got {}, {}, {}", describe(x), describe(cos),
             describe(sin));
  const int64_t half = cos.size(-1), head = x.size(-1);
  WEFT_CHECK(2 * half <= head, "rope", "tables of {} pairs are wider than a head of {}", half, head);
  detail::check_same_device("rope", x, cos);
  Shape wanted = x.shape();
  wanted[-1] = half;
  WEFT_CHECK(broadcast_shapes(cos.shape(), wanted, "rope") == wanted, "rope", "the tables {} do not broadcast to x {}",
             describe(cos), describe(x));
  if (const DType compute = detail::compute_dtype_of(x, "rope"); compute != x.dtype())
    return apply_rope(x.to(compute), cos, sin, interleaved).to(x.dtype());
  const Tensor c = cos.to(x.dtype()), s = sin.to(x.dtype());
  const auto part = [&](int64_t which) {
    return interleaved ? x.slice(-1, which, 2 * half, 2) : x.slice(-1, which * half, (which + 1) * half);
  };
  const Tensor a = part(0), b = part(1);
  const Tensor turned_a = addcmul(a * c, b, s, -1), turned_b = addcmul(b * c, a, s);
  Tensor turned = interleaved ? stack({turned_a, turned_b}, -1).flatten(-2) : cat({turned_a, turned_b}, -1);
  if (2 * half == head) return turned;
  return cat({turned, x.slice(-1, 2 * half, head)}, -1);
}

Tensor rope(const Tensor& x, const Tensor& positions, RopeOptions options) {
  WEFT_CHECK(x.dim() >= 2 && positions.size(-1) == x.size(-2), "rope",
             "expected x [.., time, head] and positions [.., time], got {} and {}", describe(x), describe(positions));
  WEFT_CHECK(positions.dim() == 1 || x.dim() == 4, "rope",
             "positions [batch, time] need x [batch, heads, time, head], got {}", describe(x));
  if (options.dim == 0) options.dim = x.size(-1);
  const RopeTables tables = rope_tables(positions, options, x.dtype());
  return apply_rope(x, tables.cos, tables.sin, options.interleaved);
}

}  // namespace weft
