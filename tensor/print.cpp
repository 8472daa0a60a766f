// Printing as NumPy's str() does: shortest digits that tell the value from its neighbours in its dtype, at most eight
// after the point, columns aligned, lines of 75 characters, "..." in tensors of more than 1000 elements.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ostream>

#include "kernels/copy/convert.h"
#include "tensor/device.h"

namespace weft {
namespace {

constexpr int64_t kThreshold = 1000;
constexpr int64_t kEdgeItems = 3;
constexpr size_t kLineWidth = 75;
constexpr int kPrecision = 8;

struct Number {
  double real = 0;
  int64_t whole = 0;
};

// One element; `offset` in elements.
Number read(const Tensor& t, int64_t offset) {
  const char* at = static_cast<const char*>(t.data()) + offset * size_of(t.dtype());
  Number number;
  if (is_floating(t.dtype()))
    cpu::convert_row(t.dtype(), at, 1, DType::f64, &number.real, 1, 1);
  else
    cpu::convert_row(t.dtype(), at, 1, DType::i64, &number.whole, 1, 1);
  return number;
}

// A finite value as 0.d1d2d3… · 10^exponent with the fewest digits, "0" and exponent 1 for zero.
struct Digits {
  bool negative = false;
  std::string digits;
  int exponent = 1;

  // From text like "-1.25e+03".
  explicit Digits(const std::string& scientific) {
    const size_t e = scientific.find('e');
    for (char c : scientific.substr(0, e)) {
      if (c == '-')
        negative = true;
      else if (c != '.')
        digits += c;
    }
    exponent = std::stoi(scientific.substr(e + 1)) + 1;
    while (digits.size() > 1 && digits.back() == '0') digits.pop_back();
  }
  bool zero() const { return digits == "0"; }
};

template <class T>
std::string shortest(T value) {
  char text[64];
  const auto result = std::to_chars(text, text + sizeof(text), value, std::chars_format::scientific);
  return {text, result.ptr};
}

// The same for the small formats: the fewest digits that round back to the value.
template <class T>
std::string shortest_small(double value) {
  for (int precision = 0;; ++precision) {
    std::string text = fmt::format("{:.{}e}", value, precision);
    if (precision == 9 || static_cast<double>(static_cast<float>(T(std::stof(text)))) == value) return text;
  }
}

Digits shortest_digits(double value, DType dtype) {
  switch (dtype) {
    case DType::f64: return Digits(shortest(value));
    case DType::f16: return Digits(shortest_small<Half>(value));
    case DType::bf16: return Digits(shortest_small<BFloat16>(value));
    case DType::f8e4m3: return Digits(shortest_small<Float8E4M3>(value));
    case DType::f8e5m2: return Digits(shortest_small<Float8E5M2>(value));
    default: return Digits(shortest(static_cast<float>(value)));
  }
}

struct Parts {
  std::string whole;     // with the sign
  std::string fraction;  // without trailing zeros
  std::string exponent;  // with its sign; empty in positional notation
};

// At most `precision` digits after the point.
Parts positional(double value, DType dtype, int precision) {
  const Digits d = shortest_digits(value, dtype);
  if (static_cast<int>(d.digits.size()) - d.exponent > precision) {
    const std::string text = fmt::format("{:.{}f}", value, precision);
    const size_t point = text.find('.');
    Parts parts{text.substr(0, point), text.substr(point + 1), {}};
    parts.fraction.erase(parts.fraction.find_last_not_of('0') + 1);
    return parts;
  }
  Parts parts{d.negative ? "-" : "", {}, {}};
  const int size = static_cast<int>(d.digits.size());
  if (d.exponent <= 0)
    parts.whole += '0';
  else
    parts.whole += d.digits.substr(0, static_cast<size_t>(std::min(size, d.exponent)));
  if (d.exponent > size) parts.whole.append(static_cast<size_t>(d.exponent - size), '0');
  if (d.exponent < 0) parts.fraction.append(static_cast<size_t>(-d.exponent), '0');
  if (d.exponent < size && !d.zero()) parts.fraction += d.digits.substr(static_cast<size_t>(std::max(d.exponent, 0)));
  return parts;
}

Parts scientific(double value, DType dtype, int precision) {
  Digits d = shortest_digits(value, dtype);
  if (static_cast<int>(d.digits.size()) > precision + 1) d = Digits(fmt::format("{:.{}e}", value, precision));
  const int exponent = d.zero() ? 0 : d.exponent - 1;
  return {(d.negative ? "-" : "") + d.digits.substr(0, 1), d.digits.substr(1), fmt::format("{:+03d}", exponent)};
}

std::string not_finite(double value) { return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf"; }

// A single number, as NumPy prints a scalar.
std::string scalar(const Number& number, DType dtype) {
  if (dtype == DType::boolean) return number.whole ? "True" : "False";
  if (!is_floating(dtype)) return std::to_string(number.whole);
  const double value = number.real;
  if (!std::isfinite(value)) return not_finite(value);
  const double size = std::abs(value);
  if (size != 0 && (size < 1e-4 || size >= 1e16)) {
    const Parts parts = scientific(value, dtype, 17);
    return parts.whole + (parts.fraction.empty() ? "" : ".") + parts.fraction + "e" + parts.exponent;
  }
  const Parts parts = positional(value, dtype, 30);
  return parts.whole + "." + (parts.fraction.empty() ? "0" : parts.fraction);
}

// The common format of all printed elements.
class Format {
 public:
  Format(const std::vector<Number>& numbers, DType dtype) : dtype_(dtype) {
    if (dtype == DType::boolean) return;
    if (!is_floating(dtype)) {
      for (const Number& n : numbers) left_ = std::max(left_, std::to_string(n.whole).size());
      return;
    }
    double least = INFINITY, most = 0;
    for (const Number& n : numbers) {
      if (!std::isfinite(n.real) || n.real == 0) continue;
      least = std::min(least, std::abs(n.real));
      most = std::max(most, std::abs(n.real));
    }
    scientific_ = most > 0 && (most >= 1e8 || least < 1e-4 || most / least > 1000);
    bool any_finite = false, any_other = false, any_negative_infinity = false;
    for (const Number& n : numbers) {
      if (!std::isfinite(n.real)) {
        any_other = true;
        any_negative_infinity = any_negative_infinity || n.real < 0;
        continue;
      }
      any_finite = true;
      const Parts parts = split(n.real, kPrecision);
      left_ = std::max(left_, parts.whole.size());
      right_ = std::max(right_, parts.fraction.size());
      if (scientific_) exponent_ = std::max(exponent_, parts.exponent.size() - 1);
    }
    tail_ = !any_finite ? 0 : scientific_ ? right_ + exponent_ + 2 : right_;
    if (any_other) {
      const size_t wanted = any_negative_infinity ? 4 : 3;
      if (wanted > tail_ + 1) left_ = std::max(left_, wanted - (tail_ + 1));
    }
  }

  std::string operator()(const Number& number) const {
    if (dtype_ == DType::boolean) return number.whole ? " True" : "False";
    if (!is_floating(dtype_)) return fmt::format("{:>{}}", number.whole, left_);
    if (!std::isfinite(number.real)) return fmt::format("{:>{}}", not_finite(number.real), left_ + tail_ + 1);
    Parts parts = split(number.real, kPrecision);
    std::string text = fmt::format("{:>{}}.{}", parts.whole, left_, parts.fraction);
    text.append(right_ - parts.fraction.size(), scientific_ ? '0' : ' ');
    if (!scientific_) return text;
    const std::string digits = parts.exponent.substr(1);
    return text + "e" + parts.exponent[0] + std::string(exponent_ - digits.size(), '0') + digits;
  }

 private:
  Parts split(double value, int precision) const {
    return scientific_ ? scientific(value, dtype_, precision) : positional(value, dtype_, precision);
  }
  DType dtype_;
  bool scientific_ = false;
  size_t left_ = 0;      // before the point
  size_t right_ = 0;     // after it, without the exponent
  size_t exponent_ = 0;  // digits of the exponent
  size_t tail_ = 0;      // everything after the point
};

class Printer {
 public:
  explicit Printer(const Tensor& tensor) : tensor_(tensor), summary_(tensor.numel() > kThreshold) {
    std::vector<Number> numbers;
    collect(0, 0, numbers);
    format_.emplace(numbers, tensor.dtype());
  }
  std::string text() const { return nested(0, 0, " ", kLineWidth); }

 private:
  // Calls f(i) for the printed indices of an axis; -1 stands for "...".
  template <class F>
  void for_each_item(int axis, F&& f) const {
    const int64_t size = tensor_.size(axis);
    if (!summary_ || size <= 2 * kEdgeItems) {
      for (int64_t i = 0; i < size; ++i) f(i);
      return;
    }
    for (int64_t i = 0; i < kEdgeItems; ++i) f(i);
    f(int64_t{-1});
    for (int64_t i = size - kEdgeItems; i < size; ++i) f(i);
  }

  void collect(int axis, int64_t offset, std::vector<Number>& numbers) const {
    if (axis == tensor_.dim()) return numbers.push_back(read(tensor_, offset));
    for_each_item(axis, [&](int64_t i) {
      if (i >= 0) collect(axis + 1, offset + i * tensor_.stride(axis), numbers);
    });
  }

  std::string nested(int axis, int64_t offset, const std::string& indent, size_t width) const {
    const int axes_left = tensor_.dim() - axis;
    if (axes_left == 0) return (*format_)(read(tensor_, offset));
    const int64_t step = tensor_.stride(axis);
    std::string all;
    if (axes_left == 1) {
      std::string line = indent;
      for_each_item(axis, [&](int64_t i) {
        const std::string word = i < 0 ? "..." : (*format_)(read(tensor_, offset + i * step));
        if (line.size() + word.size() > width - 1 && line.size() > indent.size()) {
          line.erase(line.find_last_not_of(' ') + 1);
          all += line + "\n";
          line = indent;
        }
        line += word + " ";
      });
      line.pop_back();
      all += line;
    } else {
      const std::string between(static_cast<size_t>(axes_left - 1), '\n');
      for_each_item(axis, [&](int64_t i) {
        if (!all.empty()) all += between;
        all += indent + (i < 0 ? "..." : nested(axis + 1, offset + i * step, indent + " ", width - 1));
      });
    }
    return "[" + all.substr(indent.size()) + "]";
  }

  const Tensor& tensor_;
  bool summary_;
  std::optional<Format> format_;
};

}  // namespace

std::string describe(const Tensor& tensor) {
  return tensor.defined() ? fmt::format("{}{}", tensor.dtype(), tensor.shape()) : "undefined";
}

std::string to_string(const Tensor& tensor) {
  if (!tensor.defined()) return "undefined";
  if (tensor.is_meta()) return describe(tensor) + " on meta";
  if (tensor.numel() == 0) return "[]";
  const Tensor host = tensor.device() == cpu_device ? tensor : detail::on_host(tensor);
  if (host.dim() == 0) return scalar(read(host, 0), host.dtype());
  return Printer(host).text();
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return out << to_string(tensor); }

}  // namespace weft

fmt::appender fmt::formatter<weft::Tensor>::format(const weft::Tensor& tensor, fmt::format_context& context) const {
  return fmt::formatter<std::string_view>::format(weft::to_string(tensor), context);
}
