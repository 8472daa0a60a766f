// What the structured ops share.
#pragma once
#include <string_view>

#include "tensor/tensor.h"

namespace weft::detail {

// The dtype in which a structured kernel takes `x`: its own on a device; on the CPU f64 and f32 themselves, f32 for f16
// and bf16 (the caller converts and converts back). Anything else is an error naming `op`.
inline DType compute_dtype_of(const Tensor& x, std::string_view op) {
  switch (x.dtype()) {
    case DType::f64: return DType::f64;
    case DType::f32:
    case DType::f16:
    case DType::bf16: return x.device().type == DeviceType::cpu ? DType::f32 : x.dtype();
    default: fail(ErrorCode::unsupported, op, "expected a tensor of f64, f32, f16 or bf16, got {}", describe(x));
  }
}

// The dtype of what a structured kernel keeps for backward beside its result: means, maxima, sums of exponentials.
inline DType statistics_dtype(DType dtype) { return dtype == DType::f64 ? DType::f64 : DType::f32; }

inline void check_same_device(std::string_view op, const Tensor& a, const Tensor& b) {
  WEFT_CHECK(a.device() == b.device(), op, "operands on different devices: {} on {} and {} on {}; move one with to()",
             describe(a), name(a.device()), describe(b), name(b.device()));
}

inline void check_same_kind(std::string_view op, const Tensor& a, const Tensor& b) {
  WEFT_CHECK(a.dtype() == b.dtype(), op, "dtypes differ: {} and {}", describe(a), describe(b));
  check_same_device(op, a, b);
}

}  // namespace weft::detail
