// What the structured ops share.
#pragma once
#include <string_view>

#include "tensor/tensor.h"

namespace weft::detail {

// The dtype in which a structured kernel computes for `x`: f64 and f32 themselves, f32 for f16 and bf16 (the caller
// converts and converts back); anything else is an error naming `op`.
inline DType compute_dtype_of(const Tensor& x, std::string_view op) {
  switch (x.dtype()) {
    case DType::f64: return DType::f64;
    case DType::f32:
    case DType::f16:
    case DType::bf16: return DType::f32;
    default: fail(ErrorCode::unsupported, op, "expected a tensor of f64, f32, f16 or bf16, got {}", describe(x));
  }
}

inline void check_same_dtype(std::string_view op, const Tensor& a, const Tensor& b) {
  WEFT_CHECK(a.dtype() == b.dtype(), op, "dtypes differ: {} and {}", describe(a), describe(b));
}

}  // namespace weft::detail
