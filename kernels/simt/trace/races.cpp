#include "kernels/simt/trace/races.h"

#include <bit>

namespace weft::trace {

void WarpClocks::join(unsigned thread, unsigned mask) {
  const unsigned first = thread / 32 * 32;
  std::array<uint32_t, 32> all{};
  for (unsigned rest = mask; rest; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    for (unsigned i = 0; i < 32; ++i) all[i] = std::max(all[i], known_[first + lane][i]);
    all[lane] = std::max(all[lane], own_[first + lane]);
  }
  for (unsigned rest = mask; rest; rest &= rest - 1) {
    const auto lane = static_cast<unsigned>(std::countr_zero(rest));
    known_[first + lane] = all;
    ++own_[first + lane];
  }
}

}  // namespace weft::trace
