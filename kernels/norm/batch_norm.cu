// Batch norm on a device. One kernel takes the statistics of the channels, a second one, with a thread an element or pack,
// makes the result; backward likewise, with the sums in between in workspace.
//
// Sums: a block a channel, its threads spread over runs and over the elements of a run, which are neighbours in memory.
// Where channels are columns (inner = 1) neighbouring threads take neighbouring columns instead.
#include "kernels/norm/batch_norm.h"

#include "kernels/base/device_memory.h"
#include "kernels/device_table.h"
#include "kernels/simt/row.h"

namespace weft::WEFT_DEVICE {
namespace {

constexpr int kThreads = 512;               // of a block that sums a channel
constexpr int kColumns = 32, kSlices = 16;  // of a block that sums columns
constexpr int kElementThreads = 256;

// What every kernel of a launch sees; forward has no dy, backward no y.
template <class T>
struct BatchNorm {
  using C = ComputeType<T>;
  BatchNormShape shape;
  const T* x;
  const T* dy;
  const C* weight;
  const C* bias;
  T* result;  // y or dx
  C* mean;
  C* rstd;
  C* running_mean;
  C* running_var;
  C* dweight;
  C* dbias;
  C* shift;  // [channels] of workspace: mean(dy), and rstd · mean(dy · h)
  C* slope;
  C momentum;
  C eps;
  bool training;
  int run_threads;  // threads of a block along a run; a power of two

  __device__ __forceinline__ C scale(int64_t channel) const {
    return weight ? rstd[channel] * weight[channel] : rstd[channel];
  }
  __device__ __forceinline__ C count() const { return static_cast<C>(shape.outer * shape.inner); }
  __device__ __forceinline__ void store_mean(int64_t channel, C value) const {
    mean[channel] = value;
    if (running_mean) running_mean[channel] = (C(1) - momentum) * running_mean[channel] + momentum * value;
  }
  __device__ __forceinline__ void store_variance(int64_t channel, C squares) const {
    rstd[channel] = C(1) / square_root(squares / count() + eps);
    if (running_var)
      running_var[channel] = (C(1) - momentum) * running_var[channel] + momentum * (squares / (count() - C(1)));
  }
  __device__ __forceinline__ void store_sums(int64_t channel, C sum, C sum_centred) const {
    const C factor = rstd[channel];
    if (dweight) dweight[channel] = sum_centred * factor;
    if (dbias) dbias[channel] = sum;
    shift[channel] = training ? sum / count() : C(0);
    slope[channel] = training ? factor * (factor * (sum_centred / count())) : C(0);
  }
};

// Calls f(i) for this thread's share of the elements of the block's channel.
template <class F>
__device__ __forceinline__ void for_channel(const BatchNormShape& s, int run_threads, F&& f) {
  const int lane = static_cast<int>(threadIdx.x) & (run_threads - 1);
  const int first = static_cast<int>(threadIdx.x) / run_threads, step = kThreads / run_threads;
  for (int64_t n = first; n < s.outer; n += step) {
    const int64_t run = (n * s.channels + blockIdx.x) * s.inner;
    for (int64_t k = lane; k < s.inner; k += run_threads) f(run + k);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads) channel_statistics(BatchNorm<T> p) {
  using C = ComputeType<T>;
  C sum = 0, squares = 0;
  for_channel(p.shape, p.run_threads, [&](int64_t i) { sum += widen(p.x[i]); });
  const C mean = block_sum(sum) / p.count();
  for_channel(p.shape, p.run_threads, [&](int64_t i) { squares += (widen(p.x[i]) - mean) * (widen(p.x[i]) - mean); });
  squares = block_sum(squares);
  if (threadIdx.x > 0) return;
  p.store_mean(blockIdx.x, mean);
  p.store_variance(blockIdx.x, squares);
}

template <class T>
__global__ void __launch_bounds__(kThreads) channel_sums(BatchNorm<T> p) {
  using C = ComputeType<T>;
  const C mean = p.mean[blockIdx.x];
  C sum = 0, sum_centred = 0;
  for_channel(p.shape, p.run_threads, [&](int64_t i) {
    const C grad = widen(p.dy[i]);
    sum += grad;
    sum_centred += grad * (widen(p.x[i]) - mean);
  });
  sum = block_sum(sum);
  sum_centred = block_sum(sum_centred);
  if (threadIdx.x == 0) p.store_sums(blockIdx.x, sum, sum_centred);
}

// The sum of what the threads of one column hold, in the order of the slices; every thread gets it.
template <class C>
__device__ __forceinline__ C sum_of_slices(C value, C (&shared)[kSlices][kColumns]) {
  shared[threadIdx.y][threadIdx.x] = value;
  __syncthreads();
  C sum = 0;
  for (int s = 0; s < kSlices; ++s) sum += shared[s][threadIdx.x];
  __syncthreads();
  return sum;
}

// Calls f(i) for this thread's share of the elements of its column; nothing behind the last column.
template <class F>
__device__ __forceinline__ void for_column(const BatchNormShape& s, int64_t column, F&& f) {
  if (column >= s.channels) return;
  for (int64_t row = threadIdx.y; row < s.outer; row += kSlices) f(row * s.channels + column);
}

template <class T>
__global__ void __launch_bounds__(kColumns* kSlices) column_statistics(BatchNorm<T> p) {
  using C = ComputeType<T>;
  __shared__ C shared[kSlices][kColumns];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  C sum = 0, squares = 0;
  for_column(p.shape, column, [&](int64_t i) { sum += widen(p.x[i]); });
  const C mean = sum_of_slices(sum, shared) / p.count();
  for_column(p.shape, column, [&](int64_t i) { squares += (widen(p.x[i]) - mean) * (widen(p.x[i]) - mean); });
  squares = sum_of_slices(squares, shared);
  if (threadIdx.y > 0 || column >= p.shape.channels) return;
  p.store_mean(column, mean);
  p.store_variance(column, squares);
}

template <class T>
__global__ void __launch_bounds__(kColumns* kSlices) column_sums(BatchNorm<T> p) {
  using C = ComputeType<T>;
  __shared__ C shared[kSlices][kColumns];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const C mean = column < p.shape.channels ? p.mean[column] : C(0);
  C sum = 0, sum_centred = 0;
  for_column(p.shape, column, [&](int64_t i) {
    const C grad = widen(p.dy[i]);
    sum += grad;
    sum_centred += grad * (widen(p.x[i]) - mean);
  });
  sum = sum_of_slices(sum, shared);
  sum_centred = sum_of_slices(sum_centred, shared);
  if (threadIdx.y == 0 && column < p.shape.channels) p.store_sums(column, sum, sum_centred);
}

// The channel of element i: a 64-bit division costs several times a 32-bit one.
__device__ __forceinline__ int64_t channel_of(const BatchNormShape& s, int64_t i, int64_t elements) {
  if (elements <= std::numeric_limits<int>::max()) {
    const auto run = static_cast<unsigned>(i) / static_cast<unsigned>(s.inner);
    return run % static_cast<unsigned>(s.channels);
  }
  return i / s.inner % s.channels;
}

// `width` neighbours, all of one channel.
template <class T, int width>
__global__ void __launch_bounds__(kElementThreads) normalize(BatchNorm<T> p, int64_t elements) {
  using C = ComputeType<T>;
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kElementThreads + threadIdx.x) * width;
  if (i >= elements) return;
  const int64_t channel = channel_of(p.shape, i, elements);
  const C mean = p.mean[channel], scale = p.scale(channel), bias = p.bias ? p.bias[channel] : C(0);
  auto items = load_pack<width>(p.x + i);
  for (int e = 0; e < width; ++e) items[e] = narrow<T>((widen(items[e]) - mean) * scale + bias);
  store_pack(p.result + i, items);
}

template <class T, int width>
__global__ void __launch_bounds__(kElementThreads) backward_elements(BatchNorm<T> p, int64_t elements) {
  using C = ComputeType<T>;
  const int64_t i = (static_cast<int64_t>(blockIdx.x) * kElementThreads + threadIdx.x) * width;
  if (i >= elements) return;
  const int64_t channel = channel_of(p.shape, i, elements);
  const C scale = p.scale(channel);
  auto grad = load_pack<width>(p.dy + i);
  if (p.training) {
    const C mean = p.mean[channel], shift = p.shift[channel], slope = p.slope[channel];
    const auto x = load_pack<width>(p.x + i);
    for (int e = 0; e < width; ++e)
      grad[e] = narrow<T>(scale * (widen(grad[e]) - shift - slope * (widen(x[e]) - mean)));
  } else {
    for (int e = 0; e < width; ++e) grad[e] = narrow<T>(scale * widen(grad[e]));
  }
  store_pack(p.result + i, grad);
}

int threads_of_a_run(int64_t inner) {
  int threads = 1;
  while (threads < kThreads && threads < inner) threads *= 2;
  return threads;
}

template <class T>
void launch_sums(Stream stream, BatchNorm<T> p, bool forward) {
  const int64_t channels = p.shape.channels;
  if (p.shape.inner == 1) {
    const dim3 grid(static_cast<unsigned>((channels + kColumns - 1) / kColumns)), block(kColumns, kSlices);
    launch(forward ? column_statistics<T> : column_sums<T>, grid, block, 0, stream, p);
  } else {
    p.run_threads = threads_of_a_run(p.shape.inner);
    launch(forward ? channel_statistics<T> : channel_sums<T>, dim3(static_cast<unsigned>(channels)), dim3(kThreads), 0,
           stream, p);
  }
}

template <class T>
void launch_elements(Stream stream, const BatchNorm<T>& p, bool forward) {
  const int64_t elements = p.shape.outer * p.shape.channels * p.shape.inner;
  const auto run = [&](auto width) {
    constexpr int w = decltype(width)::value;
    const int64_t threads = elements / w;
    const dim3 grid(static_cast<unsigned>((threads + kElementThreads - 1) / kElementThreads));
    launch(forward ? normalize<T, w> : backward_elements<T, w>, grid, dim3(kElementThreads), 0, stream, p, elements);
  };
  if (p.shape.inner % kPackWidth<T> == 0 && aligned_to_packs(p.x, p.dy, p.result))
    run(std::integral_constant<int, kPackWidth<T>>{});
  else
    run(std::integral_constant<int, 1>{});
}

void batch_norm_forward(Stream stream, DType dtype, const BatchNormShape& shape, const void* x, const void* weight,
                        const void* bias, void* y, void* mean, void* rstd, void* running_mean, void* running_var,
                        double momentum, double eps) {
  visit_device_floating(dtype, "batch_norm", [&](auto type) {
    using T = typename decltype(type)::type;
    using C = ComputeType<T>;
    BatchNorm<T> p{};
    p.shape = shape;
    p.x = static_cast<const T*>(x);
    p.weight = static_cast<const C*>(weight);
    p.bias = static_cast<const C*>(bias);
    p.result = static_cast<T*>(y);
    p.mean = static_cast<C*>(mean);
    p.rstd = static_cast<C*>(rstd);
    p.running_mean = static_cast<C*>(running_mean);
    p.running_var = static_cast<C*>(running_var);
    p.momentum = static_cast<C>(momentum);
    p.eps = static_cast<C>(eps);
    launch_sums(stream, p, true);
    launch_elements(stream, p, true);
  });
}

void batch_norm_apply(Stream stream, DType dtype, const BatchNormShape& shape, const void* x, const void* mean,
                      const void* rstd, const void* weight, const void* bias, void* y) {
  visit_device_floating(dtype, "batch_norm", [&](auto type) {
    using T = typename decltype(type)::type;
    using C = ComputeType<T>;
    BatchNorm<T> p{};
    p.shape = shape;
    p.x = static_cast<const T*>(x);
    p.weight = static_cast<const C*>(weight);
    p.bias = static_cast<const C*>(bias);
    p.result = static_cast<T*>(y);
    p.mean = const_cast<C*>(static_cast<const C*>(mean));  // only read
    p.rstd = const_cast<C*>(static_cast<const C*>(rstd));
    launch_elements(stream, p, true);
  });
}

void batch_norm_backward(Stream stream, DType dtype, const BatchNormShape& shape, const void* dy, const void* x,
                         const void* mean, const void* rstd, const void* weight, bool training, void* dx, void* dweight,
                         void* dbias) {
  visit_device_floating(dtype, "batch_norm", [&](auto type) {
    using T = typename decltype(type)::type;
    using C = ComputeType<T>;
    BatchNorm<T> p{};
    p.shape = shape;
    p.x = static_cast<const T*>(x);
    p.dy = static_cast<const T*>(dy);
    p.weight = static_cast<const C*>(weight);
    p.result = static_cast<T*>(dx);
    p.mean = const_cast<C*>(static_cast<const C*>(mean));  // only read
    p.rstd = const_cast<C*>(static_cast<const C*>(rstd));
    p.dweight = static_cast<C*>(dweight);
    p.dbias = static_cast<C*>(dbias);
    p.training = training;
    const ScratchBuffer scratch(stream, 2 * shape.channels * static_cast<int64_t>(sizeof(C)));
    p.shift = scratch.as<C>();
    p.slope = scratch.as<C>() + shape.channels;
    if (dweight || dbias || (dx && training)) launch_sums(stream, p, false);
    if (dx) launch_elements(stream, p, false);
  });
}

}  // namespace

extern constinit const BatchNormKernels batch_norm_kernels = {
    .forward = batch_norm_forward, .apply = batch_norm_apply, .backward = batch_norm_backward};

}  // namespace weft::WEFT_DEVICE
