// What the lanes of a warp do together, as functions that a kernel thread calls.
//
// A lane leaves its operand in the Warp and waits; the last lane named in the mask to arrive computes the results of all
// and makes the others runnable (Block::collective). `at` is the line in the kernel, for messages.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/simt/emulator/state.h"

namespace weft::emulator {

enum class WarpOperation : uint8_t {
  none,
  sync,
  shuffle,
  ballot,
  match,
  reduce_add,
  reduce_min,
  reduce_max,
  reduce_and,
  reduce_or,
  reduce_xor,
  load_matrix,
  multiply,
};
const char* name(WarpOperation operation);

void sync_warp(unsigned mask, Location at);

// The bits that lane `source` gave. A lane that takes no part gives ones: NaN.
uint64_t shuffle(unsigned mask, uint64_t bits, int source, Location at);

// One bit a lane whose `predicate` is true.
unsigned ballot(unsigned mask, bool predicate, Location at);
// One bit a lane that gave the same bits as the caller.
unsigned match(unsigned mask, uint64_t bits, Location at);

unsigned reduce(WarpOperation operation, unsigned mask, unsigned value, Location at);
int reduce(WarpOperation operation, unsigned mask, int value, Location at);

// PTX ldmatrix: lane l gives the address of row l % 8 of matrix l / 8, and gets of each matrix the elements
// (l / 4, 2 · (l % 4)) and (l / 4, 2 · (l % 4) + 1); transposed, those of the transpose.
void load_matrix(uint32_t (&r)[4], const void* row, bool transposed, Location at);

enum class Format : uint8_t { bfloat16, half };
// PTX mma.m16n8k16 (ISA 9.7.14): with g = lane / 4 and t = lane % 4, lane holds of a (rows × k) the pairs at (g, 2t),
// (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8); of b (k × columns) those at (2t, g), (2t + 8, g); of d the elements (g, 2t),
// (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1). Products and sums are in f32, in the order of k.
void multiply_tile(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], Format format, Location at);

template <class T>
T shuffle_value(unsigned mask, T value, int source, Location at) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8, "CUDA shuffles 4- and 8-byte numbers");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = shuffle(mask, bits, source, at);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace weft::emulator
