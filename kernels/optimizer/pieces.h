// How the CPU kernels of this folder walk a list of slices.
#pragma once
#include <algorithm>
#include <string_view>
#include <type_traits>

#include "kernels/base/dtype.h"
#include "kernels/base/error.h"
#include "kernels/base/parallel.h"
#include "kernels/base/scratch.h"
#include "kernels/optimizer/optimizer.h"

namespace weft::cpu {

constexpr int64_t kOptimizerTile = 32768;  // elements

// Lays the slices end to end, cuts that line into tiles and calls f(tile, slice, first element, length) for every piece
// of a slice in a tile, tiles in parallel.
template <class Slice, class F>
void for_pieces(const Slice* slices, int64_t count, F&& f) {
  struct Offsets;
  int64_t* offsets = scratch<Offsets, int64_t>(count + 1);
  offsets[0] = 0;
  for (int64_t i = 0; i < count; ++i) offsets[i + 1] = offsets[i] + slices[i].size;
  const int64_t* end_of_offsets = offsets + count + 1;
  parallel_for(offsets[count], kOptimizerTile, [&](int64_t begin, int64_t end) {
    int64_t index = std::upper_bound(static_cast<const int64_t*>(offsets), end_of_offsets, begin) - offsets - 1;
    const int64_t tile = begin / kOptimizerTile;
    while (begin < end) {
      const int64_t stop = std::min(end, offsets[index + 1]);
      if (stop > begin) f(tile, slices[index], begin - offsets[index], stop - begin);
      begin = stop;
      ++index;
    }
  });
}

// Calls f(TypeTag<T>{}) for the dtypes of parameters.
template <class F>
void visit_parameter(DType dtype, std::string_view op, F&& f) {
  switch (dtype) {
    case DType::f64: return f(TypeTag<double>{});
    case DType::f32: return f(TypeTag<float>{});
    case DType::f16: return f(TypeTag<Half>{});
    case DType::bf16: return f(TypeTag<BFloat16>{});
    default: fail(ErrorCode::unsupported, op, "expected f64, f32, f16 or bf16, got {}", name(dtype));
  }
}

// The type that a parameter of type T is computed in.
template <class T>
using ComputeOf = std::conditional_t<std::is_same_v<T, double>, double, float>;
// Halves are widened so many at a time.
constexpr int64_t kHalfBlock = 512;

template <class T>
void widen(const T* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]);
}
template <class T>
void narrow(const float* from, T* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = T(from[i]);
}

}  // namespace weft::cpu
