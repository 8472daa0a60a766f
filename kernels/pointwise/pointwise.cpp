// The driver: walks strided, broadcast operands of any dtype and feeds contiguous chunks to a chunk function.
#include "kernels/pointwise/pointwise.h"

#include <algorithm>

#include "kernels/base/parallel.h"
#include "kernels/copy/convert.h"
#include "kernels/pointwise/driver.h"

namespace weft::cpu {
namespace {

constexpr int64_t kTile = 1 << 14;  // elements a thread takes at a time
constexpr int64_t kChunk = 512;     // elements converted or gathered at a time, on the stack

ChunkFunction chunk_function(PointwiseOp op, PointwisePass pass, DType compute) {
  switch (op) {
#define WEFT_POINTWISE(op, Functor, family, ...) \
  case PointwiseOp::op:                          \
    return family##_chunk(PointwiseOp::op, pass, compute);
#include "kernels/pointwise/pointwise.def"
#undef WEFT_POINTWISE
  }
  return nullptr;
}

// Runs one row: `n` elements from the operands' addresses `at`, with the strides of the innermost dimension.
void run_row(ChunkFunction function, const PointwiseArguments& args, const std::array<char*, kPointwiseOperands>& at,
             int64_t n) {
  const int inputs = args.count - 1;
  std::array<bool, kPointwiseOperands> direct{};
  bool all_direct = true;
  for (int k = 0; k < args.count; ++k) {
    const auto i = static_cast<size_t>(k);
    direct[i] = args.dtype[i] == args.compute && args.layout.row_stride(k) == 1;
    all_direct = all_direct && direct[i];
  }
  if (all_direct) {
    std::array<const void*, kPointwiseOperands> in{};
    for (int k = 0; k < inputs; ++k) in[static_cast<size_t>(k)] = at[static_cast<size_t>(k)];
    function(in.data(), at[static_cast<size_t>(inputs)], n, args.parameters.data());
    return;
  }
  alignas(64) char buffers[kPointwiseOperands][kChunk * 8];
  for (int64_t begin = 0; begin < n; begin += kChunk) {
    const int64_t count = std::min(kChunk, n - begin);
    std::array<const void*, kPointwiseOperands> in{};
    for (int k = 0; k < inputs; ++k) {
      const auto i = static_cast<size_t>(k);
      const int64_t stride = args.layout.row_stride(k);
      char* source = at[i] + begin * stride * size_of(args.dtype[i]);
      in[i] = direct[i] ? source : buffers[i];
      // A broadcast operand fills its buffer once a row.
      if (!direct[i] && (stride != 0 || begin == 0))
        convert_row(args.dtype[i], source, stride, args.compute, buffers[i], 1, count);
    }
    const auto last = static_cast<size_t>(inputs);
    const int64_t stride = args.layout.row_stride(inputs);
    char* target = at[last] + begin * stride * size_of(args.dtype[last]);
    if (direct[last]) {
      function(in.data(), target, count, args.parameters.data());
    } else {
      function(in.data(), buffers[last], count, args.parameters.data());
      convert_row(args.compute, buffers[last], 1, args.dtype[last], target, stride, count);
    }
  }
}

void run(Stream, PointwiseOp op, PointwisePass pass, const PointwiseArguments& args) {
  const ChunkFunction function = chunk_function(op, pass, args.compute);
  if (!function)
    fail(ErrorCode::unsupported, "pointwise", "op {} has no kernel that computes in {}", static_cast<int>(op),
         name(args.compute));
  const int64_t rows = args.layout.rows();
  const int64_t row_size = args.layout.row_size();
  if (rows * row_size == 0) return;
  const auto start = [&](const std::array<int64_t, kPointwiseOperands>& offset, int64_t column) {
    std::array<char*, kPointwiseOperands> at{};
    for (int k = 0; k < args.count; ++k) {
      const auto i = static_cast<size_t>(k);
      at[i] = const_cast<char*>(static_cast<const char*>(args.data[i])) +
              (offset[i] + column * args.layout.row_stride(k)) * size_of(args.dtype[i]);
    }
    return at;
  };
  if (rows == 1) {
    parallel_for(row_size, kTile,
                 [&](int64_t begin, int64_t end) { run_row(function, args, start({}, begin), end - begin); });
    return;
  }
  parallel_for(rows, std::max<int64_t>(1, kTile / row_size), [&](int64_t begin, int64_t end) {
    args.layout.for_each_row(begin, end, [&](const std::array<int64_t, kPointwiseOperands>& offset) {
      run_row(function, args, start(offset, 0), row_size);
    });
  });
}

}  // namespace

extern constinit const PointwiseKernels pointwise_kernels = {.run = run};

}  // namespace weft::cpu
