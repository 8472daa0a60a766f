// The switch over element sizes that kernels which only copy elements share: one instantiation a size, not a dtype.
//
//   visit_size(size_of(dtype), [&](auto type) { using Word = typename decltype(type)::type; … });
#pragma once
#include <cstdint>

#include "kernels/base/dtype.h"

namespace weft {

// Calls f with an unsigned integer of that many bytes: copies need no more.
template <class F>
void visit_size(int64_t bytes, F&& f) {
  switch (bytes) {
    case 1: return f(TypeTag<uint8_t>{});
    case 2: return f(TypeTag<uint16_t>{});
    case 4: return f(TypeTag<uint32_t>{});
    case 8: return f(TypeTag<uint64_t>{});
    default: fail(ErrorCode::internal, "index", "no element has {} bytes", bytes);
  }
}

}  // namespace weft
