#include "kernels/simt/emulator/warp.h"

#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/simt/emulator/block.h"
#include "kernels/simt/emulator/observer.h"

namespace weft::emulator {
namespace {

// Calls f(lane) for each lane of a mask, in ascending order.
template <class F>
void for_each_lane(unsigned mask, F&& f) {
  for (unsigned rest = mask; rest; rest &= rest - 1) f(static_cast<unsigned>(std::countr_zero(rest)));
}

// An operation in which every lane gives one number and gets one: finish(warp, lanes) sets the results.
template <class Finish>
uint64_t exchange(Block& block, WarpOperation operation, unsigned mask, uint64_t value, Location at, Finish&& finish) {
  Warp& warp = block.warp();
  warp.value[block.lane()] = value;
  if (block.arrive(operation, mask, at)) {
    finish(warp, mask & warp.exists);
    block.complete(mask);
  }
  return warp.result[block.lane()];
}

// All lanes get the same result.
template <class Finish>
uint64_t combine(WarpOperation operation, unsigned mask, uint64_t value, Location at, Finish&& finish) {
  return exchange(*current.block, operation, mask, value, at, [&](Warp& warp, unsigned lanes) {
    const uint64_t result = finish(warp, lanes);
    for_each_lane(lanes, [&](unsigned lane) { warp.result[lane] = result; });
  });
}

// Folds the lanes' values, as T, from the first lane on.
template <class T, class F>
T fold(const Warp& warp, unsigned lanes, F&& f) {
  const auto first = static_cast<unsigned>(std::countr_zero(lanes));
  T all = static_cast<T>(warp.value[first]);
  for_each_lane(lanes & (lanes - 1), [&](unsigned lane) { all = f(all, static_cast<T>(warp.value[lane])); });
  return all;
}

template <class T>
T reduce_as(WarpOperation operation, unsigned mask, T value, Location at) {
  return static_cast<T>(
      combine(operation, mask, static_cast<uint64_t>(value), at, [&](const Warp& warp, unsigned lanes) {
        T result = 0;
        switch (operation) {
          case WarpOperation::reduce_add:
            // Without the sign: a sum may wrap.
            result = static_cast<T>(fold<unsigned>(warp, lanes, [](unsigned a, unsigned b) { return a + b; }));
            break;
          case WarpOperation::reduce_min: result = fold<T>(warp, lanes, [](T a, T b) { return std::min(a, b); }); break;
          case WarpOperation::reduce_max: result = fold<T>(warp, lanes, [](T a, T b) { return std::max(a, b); }); break;
          case WarpOperation::reduce_and: result = fold<T>(warp, lanes, [](T a, T b) { return a & b; }); break;
          case WarpOperation::reduce_or: result = fold<T>(warp, lanes, [](T a, T b) { return a | b; }); break;
          case WarpOperation::reduce_xor: result = fold<T>(warp, lanes, [](T a, T b) { return a ^ b; }); break;
          default: fail(ErrorCode::internal, "kernel", "{} is no reduction", name(operation));
        }
        return static_cast<uint64_t>(result);
      }));
}

// A matrix operation of the whole warp: finish(operands of all lanes) works through the pointers to where each lane
// keeps its operands.
template <class Operands, class Finish>
void whole_warp(WarpOperation operation, Operands& own, Location at, Finish&& finish) {
  Block& block = *current.block;
  Warp& warp = block.warp();
  if (warp.exists != ~0u)
    block.stop([&] {
      return fmt::format("mask mismatch: {} at {}:{} needs all 32 lanes of a warp, the block's last one has {}",
                         name(operation), at.file, at.line, std::popcount(warp.exists));
    });
  warp.operands[block.lane()] = &own;
  if (block.arrive(operation, ~0u, at)) {
    finish([&](unsigned lane) -> Operands& { return *static_cast<Operands*>(warp.operands[lane]); });
    block.complete(~0u);
  }
}

struct MatrixRows {
  const void* row;
  uint32_t* r;
  bool transposed;
};

struct TileOperands {
  float* d;
  const uint32_t* a;
  const uint32_t* b;
  Format format;
};

// IEEE binary16 to float without branches on common values: the exponent is moved by a multiplication, which also
// normalises subnormals; infinities and NaNs get the largest exponent.
float half_to_float(uint32_t bits) {
  const uint32_t magnitude = (bits & 0x7fffu) << 13;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  const uint32_t special = magnitude >= 0x0f800000u ? 0x7f800000u : 0;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | special | (bits & 0x8000u) << 16);
}

// The two 16-bit elements of a register.
void unpack(uint32_t pair, Format format, float& low, float& high) {
  if (format == Format::bfloat16) {
    low = std::bit_cast<float>(pair << 16);
    high = std::bit_cast<float>(pair & 0xffff0000u);
  } else {
    low = half_to_float(pair & 0xffffu);
    high = half_to_float(pair >> 16);
  }
}

}  // namespace

const char* name(WarpOperation operation) {
  switch (operation) {
    case WarpOperation::none: return "nothing";
    case WarpOperation::sync: return "__syncwarp";
    case WarpOperation::shuffle: return "a shuffle";
    case WarpOperation::ballot: return "a vote";
    case WarpOperation::match: return "__match_any_sync";
    case WarpOperation::reduce_add: return "__reduce_add_sync";
    case WarpOperation::reduce_min: return "__reduce_min_sync";
    case WarpOperation::reduce_max: return "__reduce_max_sync";
    case WarpOperation::reduce_and: return "__reduce_and_sync";
    case WarpOperation::reduce_or: return "__reduce_or_sync";
    case WarpOperation::reduce_xor: return "__reduce_xor_sync";
    case WarpOperation::load_matrix: return "ldmatrix_x4";
    case WarpOperation::multiply: return "mma_m16n8k16";
  }
  return "";
}

void sync_warp(unsigned mask, Location at) {
  Block& block = *current.block;
  if (!block.arrive(WarpOperation::sync, mask, at)) return;
  if (Observer* watcher = observer()) watcher->warp_synced(mask & block.warp().exists);
  block.complete(mask);
}

uint64_t shuffle(unsigned mask, uint64_t bits, int source, Location at) {
  Block& block = *current.block;
  block.warp().source[block.lane()] = source;
  return exchange(block, WarpOperation::shuffle, mask, bits, at, [](Warp& warp, unsigned lanes) {
    for_each_lane(lanes, [&](unsigned lane) {
      const auto from = static_cast<unsigned>(warp.source[lane]) % kWarpSize;
      warp.result[lane] = lanes >> from & 1 ? warp.value[from] : ~uint64_t{0};
    });
  });
}

unsigned ballot(unsigned mask, bool predicate, Location at) {
  return static_cast<unsigned>(
      combine(WarpOperation::ballot, mask, predicate, at, [](const Warp& warp, unsigned lanes) -> uint64_t {
        unsigned votes = 0;
        for_each_lane(lanes, [&](unsigned lane) { votes |= static_cast<unsigned>(warp.value[lane]) << lane; });
        return votes;
      }));
}

unsigned match(unsigned mask, uint64_t bits, Location at) {
  return static_cast<unsigned>(
      exchange(*current.block, WarpOperation::match, mask, bits, at, [](Warp& warp, unsigned lanes) {
        for_each_lane(lanes, [&](unsigned lane) {
          unsigned same = 0;
          for_each_lane(lanes,
                        [&](unsigned other) { same |= unsigned{warp.value[other] == warp.value[lane]} << other; });
          warp.result[lane] = same;
        });
      }));
}

unsigned reduce(WarpOperation operation, unsigned mask, unsigned value, Location at) {
  return reduce_as<unsigned>(operation, mask, value, at);
}
int reduce(WarpOperation operation, unsigned mask, int value, Location at) {
  return reduce_as<int>(operation, mask, value, at);
}

void load_matrix(uint32_t (&r)[4], const void* row, bool transposed, Location at) {
  if (Observer* watcher = observer()) watcher->matrix_row_read(row, 16, __builtin_return_address(0));
  MatrixRows own{row, r, transposed};
  whole_warp(WarpOperation::load_matrix, own, at, [](auto&& lane_operands) {
    uint16_t matrix[8][8];
    for (unsigned m = 0; m < 4; ++m) {
      for (unsigned i = 0; i < 8; ++i) std::memcpy(matrix[i], lane_operands(8 * m + i).row, 16);
      for (unsigned lane = 0; lane < kWarpSize; ++lane) {
        MatrixRows& operands = lane_operands(lane);
        const unsigned i = lane / 4, j = lane % 4 * 2;
        const uint32_t low = operands.transposed ? matrix[j][i] : matrix[i][j];
        const uint32_t high = operands.transposed ? matrix[j + 1][i] : matrix[i][j + 1];
        operands.r[m] = low | high << 16;
      }
    }
  });
}

void multiply_tile(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2], Format format, Location at) {
  TileOperands own{d, a, b, format};
  const void* const pc = __builtin_return_address(0);
  whole_warp(WarpOperation::multiply, own, at, [pc](auto&& lane_operands) {
    if (Observer* watcher = observer()) watcher->matrices_multiplied(2 * 16 * 8 * 16, pc);
    float left[16][16], right[16][8], sums[16][8];
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
      const TileOperands& operands = lane_operands(lane);
      const unsigned g = lane / 4, t = lane % 4 * 2;
      for (unsigned r = 0; r < 4; ++r) {
        float* to = &left[g + r % 2 * 8][t + r / 2 * 8];
        unpack(operands.a[r], operands.format, to[0], to[1]);
      }
      for (unsigned r = 0; r < 2; ++r)
        unpack(operands.b[r], operands.format, right[t + r * 8][g], right[t + r * 8 + 1][g]);
      for (unsigned i = 0; i < 4; ++i) sums[g + i / 2 * 8][t + i % 2] = operands.d[i];
    }
    for (unsigned row = 0; row < 16; ++row) {
      for (unsigned k = 0; k < 16; ++k)
        for (unsigned column = 0; column < 8; ++column) sums[row][column] += left[row][k] * right[k][column];
    }
    for (unsigned lane = 0; lane < kWarpSize; ++lane) {
      const TileOperands& operands = lane_operands(lane);
      const unsigned g = lane / 4, t = lane % 4 * 2;
      for (unsigned i = 0; i < 4; ++i) operands.d[i] = sums[g + i / 2 * 8][t + i % 2];
    }
  });
}

}  // namespace weft::emulator
