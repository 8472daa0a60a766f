// The bench of the kernel lab: ladders of versions of one kernel, checked, timed and compared.
//
// A ladder is a problem (softmax, layer norm, …) and its rungs, the versions in the order in which a kernel grows up. A
// rung is a function that launches. The lab makes the inputs, checks each rung against a plain CPU loop in f64, tries
// block sizes, and prints what each rung gained. To add one, write the launch function and a line in the ladder.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/base/half.h"
#include "kernels/base/stream.h"

namespace lab {

// What a rung gets. Everything is contiguous and on the stream's device.
struct Problem {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t depth = 0;                    // of a matrix product: x is [rows, depth], w is [depth, columns]
  const float* x = nullptr;             // [rows, columns]; the first matrix of a product
  const float* w = nullptr;             // [columns]; the second matrix of a product
  const float* bias = nullptr;          // [columns]
  const weft::BFloat16* x16 = nullptr;  // the same values as x and w, rounded
  const weft::BFloat16* w16 = nullptr;
  float* y = nullptr;
  float* workspace = nullptr;  // max(4096, 2 · rows) values
};

struct Rung {
  std::string_view name;
  std::string_view idea;  // what is new in it, one line
  void (*run)(weft::Stream stream, const Problem& problem, int block);
  std::vector<int> blocks;     // threads a block worth trying
  bool low_precision = false;  // computes from x16 and w16
};

struct Ladder {
  std::string_view name;
  std::string_view formula;
  Problem size;      // rows, columns, depth of the default problem in the emulator …
  Problem gpu_size;  // … and on a GPU
  std::vector<Rung> rungs;
  int64_t max_columns;              // that all rungs can do
  int64_t outputs;                  // of y: -1: rows × columns
  double (*bytes)(const Problem&);  // that must move at least once
  double (*flops)(const Problem&);  // 0: bound by memory
  // y in f64 from x, w, bias on the host.
  void (*reference)(const Problem& host, double* y);
  // The kernel that Weft itself uses, to be compared with.
  void (*library)(weft::Stream stream, const Problem& problem);
};

// Blocks for `work` pieces, `each` of them a block.
inline unsigned blocks_for(int64_t work, int64_t each) { return static_cast<unsigned>((work + each - 1) / each); }

// softmax.cu, layer_norm.cu, reduction.cu, sgemm.cu, and whatever was copied from template/
const Ladder& softmax_ladder();
const Ladder& layer_norm_ladder();
const Ladder& reduction_ladder();
const Ladder& sgemm_ladder();
const Ladder& template_ladder();

}  // namespace lab
