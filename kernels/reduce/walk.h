// The order in which a CPU reduction visits its input, and how it is cut into tiles. The arithmetic is behind ReduceOp,
// a small interface over accumulators of any type, so that this order is compiled once and not once an operation.
#pragma once
#include <cstdint>

#include "kernels/reduce/reduce.h"

namespace weft::cpu {

constexpr int64_t kRowBlock = 32;   // rows() gets at most so many rows …
constexpr int64_t kMaxWidth = 256;  // … of at most so many columns
constexpr int64_t kGrain = 32768;   // elements worth a tile of their own

// An accumulator is what is known about the elements seen so far: `accumulator_bytes` at any address of the walk's.
struct ReduceOp {
  int64_t element_bytes;
  int64_t accumulator_bytes;

  // n accumulators that have seen nothing.
  virtual void identity(void* accumulators, int64_t n) const = 0;
  // Takes in n elements with the numbers first, first + 1, …
  virtual void run(void* accumulator, const void* x, int64_t n, int64_t stride, int64_t first) const = 0;
  // Takes in rows first, first + 1, … of `width` contiguous columns; one accumulator a column.
  virtual void rows(void* accumulators, int64_t width, const void* x, int64_t rows, int64_t stride,
                    int64_t first) const = 0;
  // Adds n accumulators of later elements to n others.
  virtual void combine(void* accumulators, const void* later, int64_t n) const = 0;
  // Writes results output, output + 1, …; `count` elements went into each.
  virtual void emit(const void* accumulators, int64_t n, int64_t count, int64_t output) const = 0;

 protected:
  ReduceOp(int64_t element, int64_t accumulator) : element_bytes(element), accumulator_bytes(accumulator) {}
  ~ReduceOp() = default;
};

void walk(const ReduceOp& op, const void* x, const ReduceLayout& layout);

}  // namespace weft::cpu
