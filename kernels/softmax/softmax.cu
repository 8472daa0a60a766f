// Softmax on a device. Rows that fit into the registers of a warp or a block are read once and written once; longer ones
// are read twice, the first time with the running maximum and sum of Milakov and Gimelshein 2018 (arXiv:1805.02867).
#include "kernels/softmax/softmax.h"

#include "kernels/device_table.h"
#include "kernels/simt/online_sum.h"
#include "kernels/simt/row.h"

namespace weft::WEFT_DEVICE {
namespace {

constexpr int kHeldRegisters = 32;  // of a thread, for its part of a row

template <class T, class Group, int width, int packs>
__global__ void __launch_bounds__(BlockGroup::kMaxThreads)
    forward_held(const T* __restrict__ x, T* y, int64_t rows, int size, bool log) {
  using C = ComputeType<T>;
  using Row = HeldRow<T, Group, width, packs>;
  const int64_t row = Group::row();
  if (row >= rows) return;
  Row held;
  held.load(x + row * size, size);
  C largest = kNegativeInfinity<C>;
  Row::for_each(size, [&](int k, int) { largest = larger(largest, held.values[k]); });
  largest = Group::max(largest);
  C sum = 0;
  if (log) {
    Row::for_each(size, [&](int k, int) {
      held.values[k] -= largest;
      sum += exponential<T>(held.values[k]);
    });
    const C log_sum = logarithm(Group::sum(sum));
    Row::for_each(size, [&](int k, int) { held.values[k] -= log_sum; });
  } else {
    Row::for_each(size, [&](int k, int) {
      held.values[k] = exponential<T>(held.values[k] - largest);
      sum += held.values[k];
    });
    const C factor = C(1) / Group::sum(sum);
    Row::for_each(size, [&](int k, int) { held.values[k] *= factor; });
  }
  held.store(y + row * size, size);
}

template <class T, class Group, int width, int packs>
__global__ void __launch_bounds__(BlockGroup::kMaxThreads)
    backward_held(const T* __restrict__ y, const T* dy, T* dx, int64_t rows, int size, bool log) {
  using C = ComputeType<T>;
  using Row = HeldRow<T, Group, width, packs>;
  const int64_t row = Group::row();
  if (row >= rows) return;
  Row out, grad;
  out.load(y + row * size, size);
  grad.load(dy + row * size, size);
  C sum = 0;
  Row::for_each(size, [&](int k, int) { sum += log ? grad.values[k] : out.values[k] * grad.values[k]; });
  sum = Group::sum(sum);
  Row::for_each(size, [&](int k, int) {
    const C g = grad.values[k], p = out.values[k];
    grad.values[k] = log ? g - exponential<T>(p) * sum : p * (g - sum);
  });
  grad.store(dx + row * size, size);
}

// A block a row of any length.
template <class T>
__global__ void __launch_bounds__(BlockGroup::kMaxThreads) forward_rows(const T* x, T* y, int64_t size, bool log) {
  using C = ComputeType<T>;
  const T* from = x + BlockGroup::row() * size;
  T* to = y + BlockGroup::row() * size;
  const int64_t head = common_head(size, from, to);
  OnlineSum<T> part;
  for_row<T, BlockGroup>(size, head, [&](auto width, int64_t i) { part.add(load_pack<width>(from + i)); });
  part.template combine<BlockGroup>();
  const C log_sum = logarithm(part.sum), factor = C(1) / part.sum;
  for_row<T, BlockGroup>(size, head, [&](auto width, int64_t i) {
    auto items = load_pack<width>(from + i);
    for (int e = 0; e < width; ++e) {
      const C shifted = widen(items[e]) - part.max;
      items[e] = narrow<T>(log ? shifted - log_sum : exponential<T>(shifted) * factor);
    }
    store_pack(to + i, items);
  });
}

template <class T>
__global__ void __launch_bounds__(BlockGroup::kMaxThreads)
    backward_rows(const T* y, const T* dy, T* dx, int64_t size, bool log) {
  using C = ComputeType<T>;
  const T* out = y + BlockGroup::row() * size;
  const T* grad = dy + BlockGroup::row() * size;
  T* to = dx + BlockGroup::row() * size;
  const int64_t head = common_head(size, out, grad, to);
  C sum = 0;
  for_row<T, BlockGroup>(size, head, [&](auto width, int64_t i) {
    const auto p = load_pack<width>(out + i), g = load_pack<width>(grad + i);
    for (int e = 0; e < width; ++e) sum += log ? widen(g[e]) : widen(p[e]) * widen(g[e]);
  });
  sum = BlockGroup::sum(sum);
  for_row<T, BlockGroup>(size, head, [&](auto width, int64_t i) {
    const auto p = load_pack<width>(out + i);
    auto g = load_pack<width>(grad + i);
    for (int e = 0; e < width; ++e)
      g[e] = narrow<T>(log ? widen(g[e]) - exponential<T>(widen(p[e])) * sum : widen(p[e]) * (widen(g[e]) - sum));
    store_pack(to + i, g);
  });
}

// The axis is not the last: neighbouring threads take neighbouring columns, and `kSlices` threads share a column.
constexpr int kColumns = 32, kSlices = 8;

// Where column number `column` of all begins in [outer, size, inner].
__device__ __forceinline__ int64_t column_begin(int64_t column, int64_t size, int64_t inner) {
  return column / inner * size * inner + column % inner;
}

template <class T>
__global__ void __launch_bounds__(kColumns* kSlices)
    forward_columns(const T* x, T* y, int64_t columns, int64_t size, int64_t inner, bool log) {
  using C = ComputeType<T>;
  __shared__ C maxima[kSlices][kColumns];
  __shared__ C sums[kSlices][kColumns];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const bool inside = column < columns;
  const int64_t begin = inside ? column_begin(column, size, inner) : 0;
  OnlineSum<T> part;
  if (inside)
    for (int64_t i = threadIdx.y; i < size; i += kSlices) part.add(load_pack<1>(x + begin + i * inner));
  maxima[threadIdx.y][threadIdx.x] = part.max;
  sums[threadIdx.y][threadIdx.x] = part.sum;
  __syncthreads();
  if (!inside) return;
  C largest = kNegativeInfinity<C>;
  for (int s = 0; s < kSlices; ++s) largest = larger(largest, maxima[s][threadIdx.x]);
  C sum = 0;
  for (int s = 0; s < kSlices; ++s)
    sum += OnlineSum<T>{maxima[s][threadIdx.x], sums[s][threadIdx.x]}.relative_to(largest);
  const C log_sum = logarithm(sum), factor = C(1) / sum;
  for (int64_t i = threadIdx.y; i < size; i += kSlices) {
    const C shifted = widen(x[begin + i * inner]) - largest;
    y[begin + i * inner] = narrow<T>(log ? shifted - log_sum : exponential<T>(shifted) * factor);
  }
}

template <class T>
__global__ void __launch_bounds__(kColumns* kSlices)
    backward_columns(const T* y, const T* dy, T* dx, int64_t columns, int64_t size, int64_t inner, bool log) {
  using C = ComputeType<T>;
  __shared__ C sums[kSlices][kColumns];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const bool inside = column < columns;
  const int64_t begin = inside ? column_begin(column, size, inner) : 0;
  C part = 0;
  if (inside) {
    for (int64_t i = threadIdx.y; i < size; i += kSlices) {
      const C g = widen(dy[begin + i * inner]);
      part += log ? g : widen(y[begin + i * inner]) * g;
    }
  }
  sums[threadIdx.y][threadIdx.x] = part;
  __syncthreads();
  if (!inside) return;
  C sum = 0;
  for (int s = 0; s < kSlices; ++s) sum += sums[s][threadIdx.x];
  for (int64_t i = threadIdx.y; i < size; i += kSlices) {
    const C p = widen(y[begin + i * inner]), g = widen(dy[begin + i * inner]);
    dx[begin + i * inner] = narrow<T>(log ? g - exponential<T>(p) * sum : p * (g - sum));
  }
}

dim3 column_grid(int64_t columns) { return dim3(static_cast<unsigned>((columns + kColumns - 1) / kColumns)); }

void forward(Stream stream, DType dtype, const void* x, void* y, int64_t outer, int64_t size, int64_t inner, bool log) {
  visit_device_floating(dtype, "softmax", [&](auto type) {
    using T = typename decltype(type)::type;
    if (outer == 0 || size == 0 || inner == 0) return;
    const auto* from = static_cast<const T*>(x);
    auto* to = static_cast<T*>(y);
    if (inner > 1) {
      launch(forward_columns<T>, column_grid(outer * inner), dim3(kColumns, kSlices), 0, stream, from, to,
             outer * inner, size, inner, log);
      return;
    }
    const bool held = visit_held<T, kHeldRegisters, kHeldRegisters>(
        size, aligned_to_packs(from, to), [&](auto group, auto width, auto packs, int threads) {
          using Group = decltype(group);
          launch(forward_held<T, Group, decltype(width)::value, decltype(packs)::value>, Group::grid(outer),
                 Group::block(threads), 0, stream, from, to, outer, static_cast<int>(size), log);
        });
    if (!held) launch(forward_rows<T>, BlockGroup::grid(outer), BlockGroup::block(), 0, stream, from, to, size, log);
  });
}

void backward(Stream stream, DType dtype, const void* y, const void* dy, void* dx, int64_t outer, int64_t size,
              int64_t inner, bool log) {
  visit_device_floating(dtype, "softmax", [&](auto type) {
    using T = typename decltype(type)::type;
    if (outer == 0 || size == 0 || inner == 0) return;
    const auto *out = static_cast<const T*>(y), *grad = static_cast<const T*>(dy);
    auto* to = static_cast<T*>(dx);
    if (inner > 1) {
      launch(backward_columns<T>, column_grid(outer * inner), dim3(kColumns, kSlices), 0, stream, out, grad, to,
             outer * inner, size, inner, log);
      return;
    }
    const bool held = visit_held<T, kHeldRegisters, kHeldRegisters>(
        size, aligned_to_packs(out, grad, to), [&](auto group, auto width, auto packs, int threads) {
          using Group = decltype(group);
          launch(backward_held<T, Group, decltype(width)::value, decltype(packs)::value>, Group::grid(outer),
                 Group::block(threads), 0, stream, out, grad, to, outer, static_cast<int>(size), log);
        });
    if (!held)
      launch(backward_rows<T>, BlockGroup::grid(outer), BlockGroup::block(), 0, stream, out, grad, to, size, log);
  });
}

}  // namespace

extern constinit const SoftmaxKernels softmax_kernels = {.forward = forward, .backward = backward};

}  // namespace weft::WEFT_DEVICE
