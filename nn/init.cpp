#include "nn/init.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "autograd/ops/ops.h"
#include "tensor/factory.h"

namespace weft::nn::init {
namespace {

constexpr double kSqrt2 = 1.41421356237309504880;

// The dtype in which values are drawn: f64 for f64, else f32, rounded when they are written.
DType drawn(const Tensor& t) { return t.dtype() == DType::f64 ? DType::f64 : DType::f32; }

// erf⁻¹ by Newton's method from Winitzki's closed approximation, which is within 0.005 everywhere.
double inverse_erf(double y) {
  constexpr double kA = 0.147, kPi = 3.14159265358979323846;
  if (y <= -1 || y >= 1) return std::copysign(std::numeric_limits<double>::infinity(), y);
  const double logarithm = std::log1p(-y * y), middle = 2 / (kPi * kA) + logarithm / 2;
  double x = std::copysign(std::sqrt(std::sqrt(middle * middle - logarithm / kA) - middle), y);
  for (int i = 0; i < 4; ++i) x -= (std::erf(x) - y) / (2 / std::sqrt(kPi) * std::exp(-x * x));
  return x;
}

double normal_cdf(double x) { return (1 + std::erf(x / kSqrt2)) / 2; }

double kaiming_std(const Tensor& weight, const KaimingOptions& options, double fan) {
  WEFT_CHECK(weight.dim() >= 2, "init", "kaiming needs at least two dimensions, got {}", describe(weight));
  return calculate_gain(options.nonlinearity, options.a) / std::sqrt(fan);
}
double chosen_fan(const Tensor& weight, Fan mode) {
  return static_cast<double>(mode == Fan::in ? fan_in(weight) : fan_out(weight));
}
double xavier_std(const Tensor& weight, double gain) {
  return gain * std::sqrt(2.0 / static_cast<double>(fan_in(weight) + fan_out(weight)));
}

}  // namespace

const Tensor& uniform_(const Tensor& t, double low, double high) {
  NoGrad guard;
  if (t.is_meta()) return t;
  return t.copy_(rand(t.shape(), drawn(t)) * (high - low) + low);
}

const Tensor& normal_(const Tensor& t, double mean, double std) {
  NoGrad guard;
  if (t.is_meta()) return t;
  return t.copy_(randn(t.shape(), drawn(t)) * std + mean);
}

const Tensor& trunc_normal_(const Tensor& t, double mean, double std, double low, double high) {
  WEFT_CHECK(std > 0 && low < high, "trunc_normal_", "expected std > 0 and low < high, got {} and [{}, {}]", std, low,
             high);
  NoGrad guard;
  if (t.is_meta()) return t;
  // Uniform between the values that erf has at the ends, and back through erf⁻¹.
  const double first = 2 * normal_cdf((low - mean) / std) - 1, last = 2 * normal_cdf((high - mean) / std) - 1;
  const Tensor values = empty(t.shape(), DType::f64);
  double* out = values.data<double>();
  const Tensor draws = (rand(t.shape(), drawn(t)) * (last - first) + first).to(DType::f64);
  const double* from = draws.data<double>();
  for (int64_t i = 0; i < values.numel(); ++i)
    out[i] = std::clamp(mean + std * kSqrt2 * inverse_erf(from[i]), low, high);
  return t.copy_(values);
}

const Tensor& constant_(const Tensor& t, double value) {
  NoGrad guard;
  return t.is_meta() ? t : t.fill_(value);
}
const Tensor& zeros_(const Tensor& t) { return constant_(t, 0); }
const Tensor& ones_(const Tensor& t) { return constant_(t, 1); }

int64_t fan_in(const Tensor& weight) {
  WEFT_CHECK(weight.dim() >= 2, "init", "fan-in needs a weight of at least two dimensions, got {}", describe(weight));
  return weight.numel() / std::max<int64_t>(weight.size(0), 1);
}

int64_t fan_out(const Tensor& weight) {
  WEFT_CHECK(weight.dim() >= 2, "init", "fan-out needs a weight of at least two dimensions, got {}", describe(weight));
  return weight.numel() / std::max<int64_t>(weight.size(1), 1);
}

double calculate_gain(Nonlinearity nonlinearity, double slope) {
  switch (nonlinearity) {
    case Nonlinearity::linear:
    case Nonlinearity::sigmoid: return 1;
    case Nonlinearity::tanh: return 5.0 / 3;
    case Nonlinearity::relu: return kSqrt2;
    case Nonlinearity::leaky_relu: return std::sqrt(2 / (1 + slope * slope));
    case Nonlinearity::selu: return 0.75;
  }
  fail(ErrorCode::invalid_argument, "calculate_gain", "unknown nonlinearity");
}

const Tensor& xavier_uniform_(const Tensor& weight, double gain) {
  if (weight.numel() == 0) return weight;
  const double bound = std::sqrt(3.0) * xavier_std(weight, gain);
  return uniform_(weight, -bound, bound);
}
const Tensor& xavier_normal_(const Tensor& weight, double gain) {
  return weight.numel() == 0 ? weight : normal_(weight, 0, xavier_std(weight, gain));
}

const Tensor& kaiming_uniform_(const Tensor& weight, KaimingOptions options) {
  const double fan = chosen_fan(weight, options.mode);
  if (fan == 0) return weight;
  const double bound = std::sqrt(3.0) * kaiming_std(weight, options, fan);
  return uniform_(weight, -bound, bound);
}
const Tensor& kaiming_normal_(const Tensor& weight, KaimingOptions options) {
  const double fan = chosen_fan(weight, options.mode);
  return fan == 0 ? weight : normal_(weight, 0, kaiming_std(weight, options, fan));
}
const Tensor& kaiming_uniform_(const Tensor& weight, double a) {
  return kaiming_uniform_(weight, KaimingOptions{.a = a});
}

const Tensor& orthogonal_(const Tensor& weight, double gain) {
  WEFT_CHECK(weight.dim() >= 2, "orthogonal_", "expected at least two dimensions, got {}", describe(weight));
  NoGrad guard;
  if (weight.is_meta() || weight.numel() == 0) return weight;
  const int64_t rows = weight.size(0), columns = weight.numel() / rows;
  const bool wide = rows < columns;
  const Tensor drawn_values = randn({rows, columns}, drawn(weight)).to(DType::f64);
  // One vector after the other, each contiguous: columns of a tall matrix, rows of a wide one.
  const Tensor vectors = (wide ? drawn_values : drawn_values.t()).contiguous().clone();
  const int64_t count = vectors.size(0), length = vectors.size(1);
  double* data = vectors.data<double>();
  // Gram and Schmidt's process, twice for each vector so that rounding leaves them orthogonal. It is the QR
  // decomposition whose R has a positive diagonal.
  for (int64_t i = 0; i < count; ++i) {
    double* own = data + i * length;
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t j = 0; j < i; ++j) {
        const double* other = data + j * length;
        double product = 0;
        for (int64_t k = 0; k < length; ++k) product += own[k] * other[k];
        for (int64_t k = 0; k < length; ++k) own[k] -= product * other[k];
      }
    double square = 0;
    for (int64_t k = 0; k < length; ++k) square += own[k] * own[k];
    for (int64_t k = 0; k < length; ++k) own[k] /= std::sqrt(square);
  }
  const Tensor result = wide ? vectors : vectors.t();
  return weight.copy_((result * gain).reshape(weight.shape()));
}

}  // namespace weft::nn::init
