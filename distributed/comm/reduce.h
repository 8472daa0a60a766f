// Element-wise combination of the buffers of several ranks: the arithmetic under all_reduce, reduce, reduce_scatter.
//
//   const void* sources[] = {a, b, c};                      // rank 0, 1, 2
//   void* destinations[] = {a};
//   reduce_elements(Reduce::sum, DType::f32, sources, destinations, count);   // a[i] = (a[i] + b[i]) + c[i]
//
// Elements are always combined in the order of the sources, one element independent of the others, so a result does
// not depend on how a buffer is cut into chunks or on which rank combines it: all ranks see the same bits.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "kernels/base/dtype.h"

namespace weft {

// sum      f16, bf16 and fp8 add in f32 and round once; integers wrap; bool is a logical or
// mean     the sum divided by the number of ranks; floating dtypes only
// min, max NaN wins; on bool: and, or
// product  as sum; on bool a logical and
enum class Reduce : uint8_t { sum, mean, min, max, product };

constexpr std::string_view name(Reduce reduce) {
  constexpr std::string_view names[] = {"sum", "mean", "min", "max", "product"};
  return names[static_cast<int>(reduce)];
}

namespace comm {

// destinations[k][i] = sources[0][i] ∘ sources[1][i] ∘ …, for every k and 0 <= i < count. A destination may be one of
// the sources; otherwise no two buffers may overlap. Throws for the mean of a dtype that is not floating.
void reduce_elements(Reduce reduce, DType dtype, std::span<const void* const> sources,
                     std::span<void* const> destinations, int64_t count);

}  // namespace comm
}  // namespace weft
