// From functors to device kernels. A family's unit (arithmetic.cu …) is this header, the family's functors and the
// lines of pointwise.def that name it.
//
// A thread computes `width` neighbours at a time, loaded and stored in one access each:
//
//   width 8   all operands that vary along the innermost dimension are bf16, or f16 (16 bytes)
//   width 4   they are f32, bf16, f16 or bool, at most 16 bytes
//   width 1   everything else: strides along the innermost dimension, other dtypes, f64 and i64
//
// Operands that do not vary there (scalars, a column that broadcasts) are read once. The wide paths need rows whose size
// is a multiple of the width and whose addresses are aligned; of a single row the last few elements go through a second
// launch of width 1. Dtypes other than the three computed in (f32, f64, i64) are converted when loaded and stored.
#pragma once
#include <algorithm>

#include "kernels/base/strided_index.h"
#include "kernels/copy/device_convert.h"
#include "kernels/pointwise/apply-inl.h"
#include "kernels/pointwise/pointwise.h"

namespace weft::WEFT_DEVICE {

// A family's unit gives these; false where an op has no such kernel.
bool run_arithmetic(Stream stream, PointwiseOp op, PointwisePass pass, const PointwiseArguments& arguments);
bool run_exponential(Stream stream, PointwiseOp op, PointwisePass pass, const PointwiseArguments& arguments);
bool run_activation(Stream stream, PointwiseOp op, PointwisePass pass, const PointwiseArguments& arguments);
bool run_comparison(Stream stream, PointwiseOp op, PointwisePass pass, const PointwiseArguments& arguments);
bool run_loss(Stream stream, PointwiseOp op, PointwisePass pass, const PointwiseArguments& arguments);

namespace {

constexpr int kPointwiseThreads = 256;
constexpr int64_t kPointwiseBlocks = 2048;  // more of them loop

// What a launch gets: operands in the order of PointwisePass, then the result; the innermost dimension counted in packs.
template <int count>
struct PointwiseLaunch {
  StridedIndex<count> index;
  void* data[count];
  DType dtype[count];
  bool varies[count];  // along the innermost dimension
  int64_t packs;
  double parameters[2];
};

template <class Functor, int arity, int input, class C, int width>
__global__ void __launch_bounds__(kPointwiseThreads)
    pointwise_kernel(const PointwiseLaunch<functors::operands_read(arity, input) + 1> args) {
  constexpr int operands = functors::operands_read(arity, input);
  const Functor functor = functors::functor_from<Functor>(args.parameters);
  const int64_t step = static_cast<int64_t>(gridDim.x) * kPointwiseThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kPointwiseThreads + threadIdx.x; i < args.packs; i += step) {
    int64_t at[operands + 1];
    args.index.offsets(i, at);
    C in[operands][width];
    for (int k = 0; k < operands; ++k) {
      if constexpr (width > 1) {
        if (args.varies[k]) {
          load_pack_as(args.dtype[k], args.data[k], at[k], in[k]);
          continue;
        }
      }
      C value[1];
      if constexpr (width > 1)
        load_pack_as(args.dtype[k], args.data[k], at[k], value);
      else
        value[0] = load_as<C>(args.dtype[k], args.data[k], at[k]);
      for (int e = 0; e < width; ++e) in[k][e] = value[0];
    }
    C out[width];
    for (int e = 0; e < width; ++e) {
      functors::Plain<C> values[operands];
      for (int k = 0; k < operands; ++k) values[k] = in[k][e];
      out[e] = functors::apply<arity, input>(functor, values).v;
    }
    if constexpr (width > 1)
      store_pack_as(args.dtype[operands], args.data[operands], at[operands], out);
    else
      store_as(args.dtype[operands], args.data[operands], at[operands], out[0]);
  }
}

// The widest access that all operands allow: 8, 4 or 1.
inline int pack_width(const PointwiseArguments& args) {
  if (args.compute != DType::f32 || args.layout.row_stride(args.count - 1) != 1) return 1;
  const auto fits = [&](int width) {
    if (args.layout.row_size() < width || (args.layout.ndim > 1 && args.layout.row_size() % width != 0)) return false;
    for (int k = 0; k < args.count; ++k) {
      const auto i = static_cast<size_t>(k);
      if (!has_packs(args.dtype[i])) return false;
      if (args.layout.row_stride(k) == 0) continue;
      const int64_t bytes = size_of(args.dtype[i]);
      if (args.layout.row_stride(k) != 1 || (width == 8 && bytes != 2)) return false;
      if (reinterpret_cast<uintptr_t>(args.data[i]) % static_cast<uint64_t>(width * bytes) != 0) return false;
      for (int d = 0; d + 1 < args.layout.ndim; ++d)
        if (args.layout.strides[i][static_cast<size_t>(d)] % width != 0) return false;
    }
    return true;
  };
  return fits(8) ? 8 : fits(4) ? 4 : 1;
}

template <class Functor, int arity, int input, class C, int width>
void launch_width(Stream stream, const PointwiseArguments& args, int64_t first, int64_t row_size) {
  constexpr int count = functors::operands_read(arity, input) + 1;
  PointwiseLaunch<count> params;
  for (int d = 0; d < args.layout.ndim; ++d) {
    const auto at = static_cast<size_t>(d);
    const bool innermost = d + 1 == args.layout.ndim;
    int64_t step[count];
    for (int k = 0; k < count; ++k) step[k] = args.layout.strides[static_cast<size_t>(k)][at] * (innermost ? width : 1);
    params.index.push(innermost ? row_size / width : args.layout.sizes[at], step);
  }
  for (int k = 0; k < count; ++k) {
    const auto i = static_cast<size_t>(k);
    const int64_t stride = args.layout.row_stride(k);
    params.data[k] =
        const_cast<char*>(static_cast<const char*>(args.data[i]) + first * stride * size_of(args.dtype[i]));
    params.dtype[k] = args.dtype[i];
    params.varies[k] = stride != 0;
  }
  params.parameters[0] = args.parameters[0];
  params.parameters[1] = args.parameters[1];
  params.packs = params.index.count();
  const int64_t blocks = std::min(kPointwiseBlocks, (params.packs + kPointwiseThreads - 1) / kPointwiseThreads);
  launch(pointwise_kernel<Functor, arity, input, C, width>, dim3(static_cast<unsigned>(blocks)),
         dim3(kPointwiseThreads), 0, stream, params);
}

// f32 in the widest accesses; what is left of a single row one by one.
template <class Functor, int arity, int input>
bool run_float(Stream stream, const PointwiseArguments& args) {
  const int64_t row_size = args.layout.row_size();
  const int width = pack_width(args);
  const int64_t whole = row_size / width * width;
  if (width == 8)
    launch_width<Functor, arity, input, float, 8>(stream, args, 0, whole);
  else if (width == 4)
    launch_width<Functor, arity, input, float, 4>(stream, args, 0, whole);
  if (width == 1)
    launch_width<Functor, arity, input, float, 1>(stream, args, 0, row_size);
  else if (whole < row_size)
    launch_width<Functor, arity, input, float, 1>(stream, args, whole, row_size - whole);
  return true;
}

template <class Functor, int arity, functors::Rule rule, int input>
bool run_pass(Stream stream, const PointwiseArguments& args) {
  if constexpr (input < 0 || (input < arity && functors::has_gradient(rule))) {
    const int64_t row_size = args.layout.row_size();
    if constexpr (functors::has_floats(rule)) {
      if (args.compute == DType::f32) return run_float<Functor, arity, input>(stream, args);
      if (args.compute == DType::f64) {
        launch_width<Functor, arity, input, double, 1>(stream, args, 0, row_size);
        return true;
      }
    }
    if constexpr (input < 0 && functors::has_integers(rule)) {
      if (args.compute == DType::i64) {
        launch_width<Functor, arity, input, int64_t, 1>(stream, args, 0, row_size);
        return true;
      }
    }
  }
  return false;
}

template <class Functor, int arity, functors::Rule rule>
bool run_op(Stream stream, PointwisePass pass, const PointwiseArguments& args) {
  switch (pass) {
    case PointwisePass::forward: return run_pass<Functor, arity, rule, -1>(stream, args);
    case PointwisePass::backward_0: return run_pass<Functor, arity, rule, 0>(stream, args);
    case PointwisePass::backward_1: return run_pass<Functor, arity, rule, 1>(stream, args);
    case PointwisePass::backward_2: return run_pass<Functor, arity, rule, 2>(stream, args);
  }
  return false;
}

}  // namespace
}  // namespace weft::WEFT_DEVICE
