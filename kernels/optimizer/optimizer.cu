// Device kernels of the optimizers: one launch over all slices (slice_table.h). A thread takes packs of 16 bytes where
// all arrays of a slice are aligned, else single elements. The arithmetic is the CPU's, with its fused multiply-adds in
// the same places: f32 results have the bits of the AVX2 kernels.
#include "kernels/optimizer/optimizer.h"

#include <algorithm>
#include <vector>

#include "kernels/device_table.h"
#include "kernels/optimizer/adam_factors.h"
#include "kernels/optimizer/slice_table.h"
#include "kernels/simt/block_reduce.h"
#include "kernels/simt/row.h"
#include "kernels/simt/simt.h"

namespace weft::WEFT_DEVICE {
namespace {

__device__ __forceinline__ float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double multiply_add(double a, double b, double c) { return a * b + c; }

// Calls f(width, i) for the elements [begin, end) of a slice that this thread has: `width` neighbours from i on.
template <class T, class F>
__device__ __forceinline__ void for_tile(int64_t begin, int64_t end, bool aligned, F&& f) {
  constexpr int pack = 16 / static_cast<int>(sizeof(T));
  int64_t whole = begin;
  if (aligned) {
    whole = begin + (end - begin) / pack * pack;
    for (int64_t i = begin + threadIdx.x * pack; i < whole; i += kSliceThreads * pack)
      f(std::integral_constant<int, pack>{}, i);
  }
  for (int64_t i = whole + threadIdx.x; i < end; i += kSliceThreads) f(std::integral_constant<int, 1>{}, i);
}

// `width` elements as numbers to compute with, and back. Nothing happens with arrays that are absent.
template <int width, class T>
__device__ __forceinline__ void read(const T* from, int64_t i, ComputeType<T> (&values)[width]) {
  if (from == nullptr) return;
  const Pack<T, width> pack = load_pack<width>(from + i);
  WEFT_UNROLL
  for (int e = 0; e < width; ++e) values[e] = widen(pack[e]);
}
template <int width, class T>
__device__ __forceinline__ void write(T* to, int64_t i, const ComputeType<T> (&values)[width]) {
  if (to == nullptr) return;
  Pack<T, width> pack;
  WEFT_UNROLL
  for (int e = 0; e < width; ++e) pack[e] = narrow<T>(values[e]);
  store_pack(to + i, pack);
}

// Tiles begin at multiples of 16 bytes of a slice, so its address decides.
template <class... Pointers>
bool all_aligned(const Pointers*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

// --- Adam ----------------------------------------------------------------------------------------------------------

template <class T>
struct AdamEntry {
  T* param;
  const T* grad;
  T* mean;
  T* square;
  T* square_max;  // null without AMSGrad
  int64_t size;
  ComputeType<T> step_size, inverse_root;
  int64_t aligned;
};

template <class T>
__global__ void __launch_bounds__(kSliceThreads)
    adam_kernel(SliceTableView<AdamEntry<T>> table, AdamFactors<ComputeType<T>> f) {
  using C = ComputeType<T>;
  const SliceTile<AdamEntry<T>> tile = table.tile(blockIdx.x);
  const AdamEntry<T>& s = tile.entry;
  for_tile<T>(tile.begin, tile.end, s.aligned != 0, [&](auto width, int64_t i) {
    constexpr int n = decltype(width)::value;
    C param[n]{}, grad[n]{}, mean[n]{}, square[n]{}, largest[n]{};
    read(s.param, i, param);
    read(s.grad, i, grad);
    read(s.mean, i, mean);
    read(s.square, i, square);
    read(s.square_max, i, largest);
    WEFT_UNROLL
    for (int e = 0; e < n; ++e) {
      const C g = multiply_add(grad[e], f.sign, f.coupled * param[e]);
      mean[e] = multiply_add(f.one_less_beta1, g - mean[e], mean[e]);
      square[e] = multiply_add(f.one_less_beta2 * g, g, f.beta2 * square[e]);
      C second = square[e];
      if (s.square_max != nullptr) {
        second = largest[e] > second ? largest[e] : second;
        largest[e] = second;
      }
      const C denominator = multiply_add(std::sqrt(second), s.inverse_root, f.eps);
      const C update = mean[e] == 0 ? C(0) : s.step_size * (mean[e] / denominator);
      param[e] = param[e] * f.keep - update;
    }
    write(s.mean, i, mean);
    write(s.square, i, square);
    write(s.square_max, i, largest);
    write(s.param, i, param);
  });
}

void adam(Stream stream, DType dtype, const AdamOptions& options, const AdamSlice* slices, int64_t count) {
  visit_device_floating(dtype, "adam", [&](auto type) {
    using T = typename decltype(type)::type;
    using Factors = AdamFactors<ComputeType<T>>;
    if (count == 0) return;
    std::vector<AdamEntry<T>> entries(static_cast<size_t>(count));
    Factors factors(options, slices[0].step);
    int64_t step = slices[0].step;
    for (int64_t i = 0; i < count; ++i) {
      const AdamSlice& s = slices[i];
      if (s.step != step) {
        factors = Factors(options, s.step);
        step = s.step;
      }
      entries[static_cast<size_t>(i)] = {
          .param = static_cast<T*>(s.param),
          .grad = static_cast<const T*>(s.grad),
          .mean = static_cast<T*>(s.exp_avg),
          .square = static_cast<T*>(s.exp_avg_sq),
          .square_max = static_cast<T*>(s.max_exp_avg_sq),
          .size = s.size,
          .step_size = factors.step_size,
          .inverse_root = factors.inverse_root,
          .aligned = all_aligned(s.param, s.grad, s.exp_avg, s.exp_avg_sq, s.max_exp_avg_sq),
      };
    }
    const SliceTable<AdamEntry<T>> table(stream, entries.data(), count);
    if (table.tiles() == 0) return;
    launch(adam_kernel<T>, table.grid(), dim3(kSliceThreads), 0, stream, table.device(), factors);
  });
}

// --- SGD -----------------------------------------------------------------------------------------------------------

template <class T>
struct SgdEntry {
  T* param;
  const T* grad;
  T* buffer;  // null without momentum
  int64_t size;
  int32_t first;
  int32_t aligned;
};

template <class C>
struct SgdFactors {
  C sign, decay, momentum, fresh, lr;
  bool nesterov;
};

template <class T>
__global__ void __launch_bounds__(kSliceThreads)
    sgd_kernel(SliceTableView<SgdEntry<T>> table, SgdFactors<ComputeType<T>> f) {
  using C = ComputeType<T>;
  const SliceTile<SgdEntry<T>> tile = table.tile(blockIdx.x);
  const SgdEntry<T>& s = tile.entry;
  for_tile<T>(tile.begin, tile.end, s.aligned != 0, [&](auto width, int64_t i) {
    constexpr int n = decltype(width)::value;
    C param[n]{}, grad[n]{}, average[n]{};
    read(s.param, i, param);
    read(s.grad, i, grad);
    if (s.first == 0) read(s.buffer, i, average);
    WEFT_UNROLL
    for (int e = 0; e < n; ++e) {
      C step = multiply_add(grad[e], f.sign, f.decay * param[e]);
      if (s.buffer != nullptr) {
        average[e] = s.first != 0 ? step : multiply_add(f.momentum, average[e], f.fresh * step);
        step = f.nesterov ? multiply_add(f.momentum, average[e], step) : average[e];
      }
      param[e] = multiply_add(-f.lr, step, param[e]);
    }
    write(s.buffer, i, average);
    write(s.param, i, param);
  });
}

void sgd(Stream stream, DType dtype, const SgdOptions& o, const SgdSlice* slices, int64_t count) {
  visit_device_floating(dtype, "sgd", [&](auto type) {
    using T = typename decltype(type)::type;
    using C = ComputeType<T>;
    std::vector<SgdEntry<T>> entries(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      const SgdSlice& s = slices[i];
      void* buffer = o.momentum != 0 ? s.momentum_buffer : nullptr;
      entries[static_cast<size_t>(i)] = {
          .param = static_cast<T*>(s.param),
          .grad = static_cast<const T*>(s.grad),
          .buffer = static_cast<T*>(buffer),
          .size = s.size,
          .first = s.first,
          .aligned = all_aligned(s.param, s.grad, buffer),
      };
    }
    const SliceTable<SgdEntry<T>> table(stream, entries.data(), count);
    if (table.tiles() == 0) return;
    const SgdFactors<C> factors = {
        .sign = o.maximize ? C(-1) : C(1),
        .decay = static_cast<C>(o.weight_decay),
        .momentum = static_cast<C>(o.momentum),
        .fresh = static_cast<C>(1 - o.dampening),
        .lr = static_cast<C>(o.lr),
        .nesterov = o.nesterov,
    };
    launch(sgd_kernel<T>, table.grid(), dim3(kSliceThreads), 0, stream, table.device(), factors);
  });
}

// --- the sum of squares, and scaling -------------------------------------------------------------------------------

template <class T>
struct ArrayEntry {
  T* data;
  int64_t size;
  int64_t aligned;
};

template <class T>
__global__ void __launch_bounds__(kSliceThreads)
    squares_kernel(SliceTableView<ArrayEntry<const T>> table, double* partial) {
  using C = ComputeType<T>;
  const SliceTile<ArrayEntry<const T>> tile = table.tile(blockIdx.x);
  double sum = 0;
  for_tile<T>(tile.begin, tile.end, tile.entry.aligned != 0, [&](auto width, int64_t i) {
    constexpr int n = decltype(width)::value;
    C values[n]{};
    read(tile.entry.data, i, values);
    WEFT_UNROLL
    for (int e = 0; e < n; ++e) sum += static_cast<double>(values[e]) * static_cast<double>(values[e]);
  });
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kSliceThreads) add_partials(const double* partial, int64_t count, double* result) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += kSliceThreads) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *result = sum;
}

// The table of slices that consist of one array.
template <class T, class Slice>
SliceTable<ArrayEntry<T>> array_table(Stream stream, const Slice* slices, int64_t count) {
  std::vector<ArrayEntry<T>> entries(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    entries[static_cast<size_t>(i)] = {static_cast<T*>(slices[i].data), slices[i].size, all_aligned(slices[i].data)};
  return SliceTable<ArrayEntry<T>>(stream, entries.data(), count);
}

void sum_of_squares(Stream stream, DType dtype, const ConstSlice* slices, int64_t count, double* result) {
  visit_device_floating(dtype, "sum_of_squares", [&](auto type) {
    using T = typename decltype(type)::type;
    const auto table = array_table<const T>(stream, slices, count);
    const ScratchBuffer partial(stream, std::max<int64_t>(1, table.tiles()) * static_cast<int64_t>(sizeof(double)));
    if (table.tiles() > 0)
      launch(squares_kernel<T>, table.grid(), dim3(kSliceThreads), 0, stream, table.device(),
             partial.template as<double>());
    launch(add_partials, dim3(1), dim3(kSliceThreads), 0, stream, partial.template as<double>(), table.tiles(), result);
  });
}

template <class T>
__global__ void __launch_bounds__(kSliceThreads)
    scale_kernel(SliceTableView<ArrayEntry<T>> table, ComputeType<T> factor) {
  const SliceTile<ArrayEntry<T>> tile = table.tile(blockIdx.x);
  for_tile<T>(tile.begin, tile.end, tile.entry.aligned != 0, [&](auto width, int64_t i) {
    constexpr int n = decltype(width)::value;
    ComputeType<T> values[n]{};
    read(tile.entry.data, i, values);
    WEFT_UNROLL
    for (int e = 0; e < n; ++e) values[e] *= factor;
    write(tile.entry.data, i, values);
  });
}

void scale(Stream stream, DType dtype, const MutableSlice* slices, int64_t count, double factor) {
  visit_device_floating(dtype, "scale", [&](auto type) {
    using T = typename decltype(type)::type;
    const auto table = array_table<T>(stream, slices, count);
    if (table.tiles() == 0) return;
    launch(scale_kernel<T>, table.grid(), dim3(kSliceThreads), 0, stream, table.device(),
           static_cast<ComputeType<T>>(factor));
  });
}

}  // namespace

extern constinit const OptimizerKernels optimizer_kernels = {
    .adam = adam,
    .sgd = sgd,
    .sum_of_squares = sum_of_squares,
    .scale = scale,
};

}  // namespace weft::WEFT_DEVICE
