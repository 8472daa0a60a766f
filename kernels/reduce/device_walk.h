// How a device reduction goes through its input. Three kernels:
//
//   reduce_runs     an output belongs to a thread, a warp or a block, by the number of its elements; these lie along a
//                   contiguous run where memory has one, and are then read 16 bytes at a time
//   reduce_columns  where the innermost kept dimension is contiguous and no reduced one is: 32 neighbouring outputs a
//                   block, a row of them at a time, in 8 rows of threads
//   merge_chunks    where outputs are too few to fill a device, each is cut into chunks, whose accumulators this merges
//
// Who adds what in which order depends on sizes and strides alone: results have the same bits every time.
#pragma once
#include <algorithm>
#include <cstring>

#include "kernels/base/device_memory.h"
#include "kernels/base/strided_index.h"
#include "kernels/copy/device_convert.h"
#include "kernels/reduce/device_ops.h"
#include "kernels/reduce/reduce.h"
#include "kernels/simt/simt.h"

namespace weft::WEFT_DEVICE {
namespace {

constexpr int kReduceThreads = 256;
constexpr int kColumns = 32;
constexpr int kColumnRows = kReduceThreads / kColumns;

template <class Op>
struct ReduceLaunch {
  Op op;
  const void* x;
  DType dtype;
  bool contiguous;       // the reduced elements are one run
  int group;             // threads an output: 1, 32 or 256
  StridedIndex<1> kept;  // reduce_columns: without the innermost dimension
  StridedIndex<1> reduced;
  int64_t columns;  // reduce_columns: the size of that dimension
  int64_t outputs, count;
  int64_t chunks, chunk;  // of the elements of an output
  ReduceOutput out;
  typename Op::Acc* partial;  // [outputs, chunks] where chunks > 1
};

template <class Acc>
__device__ __forceinline__ Acc shuffle_down(const Acc& acc, int lanes) {
  constexpr int words = sizeof(Acc) / 8;
  static_assert(sizeof(Acc) % 8 == 0);
  unsigned long long parts[words];
  memcpy(parts, &acc, sizeof(Acc));
  WEFT_UNROLL
  for (int w = 0; w < words; ++w) parts[w] = __shfl_down_sync(0xffffffffu, parts[w], static_cast<unsigned>(lanes));
  Acc result;
  memcpy(&result, parts, sizeof(Acc));
  return result;
}

// Lane 0 gets what all lanes have.
template <class Op>
__device__ __forceinline__ void merge_warp(const Op& op, typename Op::Acc& acc) {
  WEFT_UNROLL
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    const typename Op::Acc other = shuffle_down(acc, lanes);
    op.merge(acc, other);
  }
}

template <class Op>
__device__ __forceinline__ void finish_output(const ReduceLaunch<Op>& a, const typename Op::Acc& acc, int64_t k,
                                              int64_t c) {
  if (a.chunks > 1)
    a.partial[k * a.chunks + c] = acc;
  else
    a.op.emit(acc, a.count, a.out, k);
}

template <class From, class Op>
__device__ __forceinline__ typename Op::Value value_at(const void* x, int64_t i) {
  return load_typed<From, typename Op::Value>(x, i);
}

// The elements begin + lane, begin + lane + group … before `end` of the output that starts at `base`.
template <class From, class Op>
__device__ __forceinline__ void add_run(const ReduceLaunch<Op>& a, typename Op::Acc& acc, int64_t base, int64_t begin,
                                        int64_t end, int lane) {
  using Value = typename Op::Value;
  Value first = 0;
  if constexpr (Op::kNeedsFirst)
    if (a.count > 0) first = value_at<From, Op>(a.x, base);
  if (!a.contiguous) {
    for (int64_t i = begin + lane; i < end; i += a.group) {
      int64_t at[1];
      a.reduced.offsets(i, at);
      a.op.add(acc, value_at<From, Op>(a.x, base + at[0]), i, first);
    }
    return;
  }
  constexpr int pack = 16 / static_cast<int>(sizeof(From));
  const From* run = static_cast<const From*>(a.x) + base;
  // Elements before the first 16-byte boundary, whole packs, and the rest.
  const auto off = static_cast<int64_t>(reinterpret_cast<uintptr_t>(run + begin) % 16 / sizeof(From));
  const int64_t head = off == 0 ? 0 : pack - off;
  const int64_t packed = begin + head < end ? begin + head : end;
  const int64_t tail = packed + (end - packed) / pack * pack;
  for (int64_t i = begin + lane; i < packed; i += a.group) a.op.add(acc, convert_value<Value>(run[i]), i, first);
  for (int64_t i = packed + lane * pack; i < tail; i += a.group * pack) {
    const Pack<From, pack> items = load_pack<pack>(run + i);
    WEFT_UNROLL
    for (int e = 0; e < pack; ++e) a.op.add(acc, convert_value<Value>(items[e]), i + e, first);
  }
  for (int64_t i = tail + lane; i < end; i += a.group) a.op.add(acc, convert_value<Value>(run[i]), i, first);
}

// Calls f(TypeTag<From>{}) for the dtypes of a class of values.
template <class Value, class F>
__device__ __forceinline__ void visit_class(DType dtype, F&& f) {
  if constexpr (std::is_same_v<Value, double>) {
    if (dtype == DType::f32) return f(TypeTag<float>{});
    if (dtype == DType::bf16) return f(TypeTag<BFloat16>{});
    if (dtype == DType::f16) return f(TypeTag<Half>{});
    f(TypeTag<double>{});
  } else {
    if (dtype == DType::boolean) return f(TypeTag<bool>{});
    f(TypeTag<int64_t>{});
  }
}

template <class Op>
__global__ void __launch_bounds__(kReduceThreads) reduce_runs(const ReduceLaunch<Op> a) {
  using Acc = typename Op::Acc;
  __shared__ unsigned long long warps[kReduceThreads / 32][sizeof(Acc) / 8];
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t item = static_cast<int64_t>(blockIdx.x) * (kReduceThreads / a.group) + thread / a.group;
  if (item >= a.outputs * a.chunks) return;  // all threads of a group
  const int64_t k = item / a.chunks;
  const int64_t c = item % a.chunks;
  const int64_t begin = c * a.chunk;
  const int64_t end = begin + a.chunk < a.count ? begin + a.chunk : a.count;
  int64_t base[1];
  a.kept.offsets(k, base);
  Acc acc = a.op.identity();
  visit_class<typename Op::Value>(a.dtype, [&](auto type) {
    add_run<typename decltype(type)::type>(a, acc, base[0], begin, end, thread % a.group);
  });
  if (a.group >= 32) merge_warp(a.op, acc);
  if (a.group == kReduceThreads) {
    if (thread % 32 == 0) memcpy(warps[thread / 32], &acc, sizeof(Acc));
    __syncthreads();
    if (thread == 0) {
      for (int w = 1; w < kReduceThreads / 32; ++w) {
        Acc other;
        memcpy(&other, warps[w], sizeof(Acc));
        a.op.merge(acc, other);
      }
    }
  }
  if (thread % a.group == 0) finish_output(a, acc, k, c);
}

template <class From, class Op>
__device__ __forceinline__ void add_column(const ReduceLaunch<Op>& a, typename Op::Acc& acc, int64_t base,
                                           int64_t begin, int64_t end) {
  typename Op::Value first = 0;
  if constexpr (Op::kNeedsFirst)
    if (a.count > 0) first = value_at<From, Op>(a.x, base);
  if (a.reduced.ndim <= 1) {
    const int64_t stride = a.reduced.stride[0][0];
    for (int64_t i = begin + threadIdx.y; i < end; i += kColumnRows)
      a.op.add(acc, value_at<From, Op>(a.x, base + i * stride), i, first);
    return;
  }
  for (int64_t i = begin + threadIdx.y; i < end; i += kColumnRows) {
    int64_t at[1];
    a.reduced.offsets(i, at);
    a.op.add(acc, value_at<From, Op>(a.x, base + at[0]), i, first);
  }
}

template <class Op>
__global__ void __launch_bounds__(kReduceThreads) reduce_columns(const ReduceLaunch<Op> a) {
  using Acc = typename Op::Acc;
  __shared__ unsigned long long rows[kColumnRows][sizeof(Acc) / 8][kColumns];
  const int64_t tiles = (a.columns + kColumns - 1) / kColumns;
  const int64_t outer = blockIdx.x / tiles;
  const int64_t column = blockIdx.x % tiles * kColumns + threadIdx.x;
  const int64_t c = blockIdx.y;
  const int64_t begin = c * a.chunk;
  const int64_t end = begin + a.chunk < a.count ? begin + a.chunk : a.count;
  int64_t base[1];
  a.kept.offsets(outer, base);
  Acc acc = a.op.identity();
  if (column < a.columns)
    visit_class<typename Op::Value>(
        a.dtype, [&](auto type) { add_column<typename decltype(type)::type>(a, acc, base[0] + column, begin, end); });
  constexpr int words = sizeof(Acc) / 8;
  unsigned long long parts[words];
  memcpy(parts, &acc, sizeof(Acc));
  WEFT_UNROLL
  for (int w = 0; w < words; ++w) rows[threadIdx.y][w][threadIdx.x] = parts[w];
  __syncthreads();
  if (threadIdx.y != 0 || column >= a.columns) return;
  for (int r = 1; r < kColumnRows; ++r) {
    WEFT_UNROLL
    for (int w = 0; w < words; ++w) parts[w] = rows[r][w][threadIdx.x];
    Acc other;
    memcpy(&other, parts, sizeof(Acc));
    a.op.merge(acc, other);
  }
  finish_output(a, acc, outer * a.columns + column, c);
}

// A warp an output.
template <class Op>
__global__ void __launch_bounds__(kReduceThreads) merge_chunks(const ReduceLaunch<Op> a) {
  const int64_t k = static_cast<int64_t>(blockIdx.x) * (kReduceThreads / 32) + threadIdx.x / 32;
  if (k >= a.outputs) return;
  typename Op::Acc acc = a.op.identity();
  for (int64_t c = threadIdx.x % 32; c < a.chunks; c += 32) {
    const typename Op::Acc other = a.partial[k * a.chunks + c];
    a.op.merge(acc, other);
  }
  merge_warp(a.op, acc);
  if (threadIdx.x % 32 == 0) a.op.emit(acc, a.count, a.out, k);
}

inline StridedIndex<1> index_of(const ReduceLayout::Dims& dims, int skip = 0) {
  StridedIndex<1> index;
  for (int d = 0; d + skip < dims.count; ++d) index.push(dims.sizes[d], {dims.strides[d]});
  return index;
}

constexpr int64_t blocks_of(int64_t items, int64_t each) { return (items + each - 1) / each; }

template <class Op>
void reduce_with(Stream stream, const Op& op, DType dtype, const void* x, const ReduceLayout& layout,
                 const ReduceOutput& out) {
  constexpr int64_t few_blocks = 512;  // below, a large device has nothing to do for some of its parts
  constexpr int64_t max_chunks = 1024;
  const ReduceLayout::Dims& kept = layout.kept;
  const ReduceLayout::Dims& reduced = layout.reduced;
  ReduceLaunch<Op> a{};
  a.op = op;
  a.x = x;
  a.dtype = dtype;
  a.outputs = kept.numel();
  a.count = reduced.numel();
  a.out = out;
  a.reduced = index_of(reduced);
  a.contiguous = reduced.count == 0 || (reduced.count == 1 && reduced.strides[0] == 1);
  if (a.outputs == 0) return;
  a.columns = kept.count > 0 ? kept.sizes[kept.count - 1] : 1;
  const bool inner_run = reduced.count > 0 && reduced.strides[reduced.count - 1] == 1;
  const bool columns = kept.count > 0 && kept.strides[kept.count - 1] == 1 && !inner_run && a.columns >= 8;

  int64_t blocks = 0;  // of one chunk each
  if (columns) {
    a.kept = index_of(kept, 1);
    blocks = a.outputs / a.columns * blocks_of(a.columns, kColumns);
    if (blocks < few_blocks) a.chunks = std::min(few_blocks / blocks, blocks_of(a.count, 128));
  } else {
    a.kept = index_of(kept);
    a.group = a.count < 16 ? 1 : a.count < 2048 ? 32 : kReduceThreads;
    blocks = blocks_of(a.outputs, kReduceThreads / a.group);
    if (a.group == kReduceThreads && blocks < few_blocks)
      a.chunks = std::min(few_blocks / blocks, blocks_of(a.count, 8192));
  }
  a.chunks = std::clamp<int64_t>(a.chunks, 1, max_chunks);
  a.chunk = blocks_of(blocks_of(a.count, a.chunks), 64) * 64;  // packs of a chunk stay aligned
  a.chunks = std::max<int64_t>(1, blocks_of(a.count, std::max<int64_t>(a.chunk, 1)));

  const ScratchBuffer partial(stream,
                              a.chunks > 1 ? a.outputs * a.chunks * static_cast<int64_t>(sizeof(typename Op::Acc)) : 8);
  a.partial = partial.template as<typename Op::Acc>();
  if (columns)
    launch(reduce_columns<Op>, dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(a.chunks)),
           dim3(kColumns, kColumnRows), 0, stream, a);
  else
    launch(reduce_runs<Op>, dim3(static_cast<unsigned>(blocks_of(a.outputs * a.chunks, kReduceThreads / a.group))),
           dim3(kReduceThreads), 0, stream, a);
  if (a.chunks > 1)
    launch(merge_chunks<Op>, dim3(static_cast<unsigned>(blocks_of(a.outputs, kReduceThreads / 32))),
           dim3(kReduceThreads), 0, stream, a);
}

}  // namespace

// scan.cu
void scan(Stream stream, Scan op, DType dtype, const void* x, void* out, int64_t outer, int64_t size, int64_t inner);

}  // namespace weft::WEFT_DEVICE
