// Layer norm and RMS norm on a device, forward. The backward pass is norm_backward.cu.
//
// A row that fits into the registers of a warp or a block is read once; a longer one is read again for the variance and
// for the result, mostly from the cache.
#include "kernels/norm/norm.h"

#include "kernels/device_table.h"
#include "kernels/norm/norm_device.h"
#include "kernels/simt/row.h"

namespace weft::WEFT_DEVICE {
namespace {

constexpr int kHeldRegisters = 32;  // of a thread, for its part of a row

// One launch; layer norm has a mean, RMS norm none.
template <class T>
struct Forward {
  using C = ComputeType<T>;
  const T* x;
  const T* weight;
  const T* bias;
  T* y;
  C* mean;
  C* rstd;
  int64_t rows;
  int64_t columns;
  C eps;

  __device__ __forceinline__ C apply(C x, C center, C factor, int64_t i) const {
    C value = (x - center) * factor;
    if (weight) value *= widen(weight[i]);
    if (bias) value += widen(bias[i]);
    return value;
  }
};

template <class T, class Group, int width, int packs>
__global__ void __launch_bounds__(BlockGroup::kMaxThreads) forward_held(Forward<T> p) {
  using C = ComputeType<T>;
  using Row = HeldRow<T, Group, width, packs>;
  const int64_t row = Group::row();
  if (row >= p.rows) return;
  const auto size = static_cast<int>(p.columns);
  Row held;
  held.load(p.x + row * size, size);
  C mean = 0;
  if (p.mean) {
    C sum = 0;
    Row::for_each(size, [&](int k, int) { sum += held.values[k]; });
    mean = Group::sum(sum) / static_cast<C>(size);
  }
  C squares = 0;
  Row::for_each(size, [&](int k, int) {
    held.values[k] -= mean;
    squares += held.values[k] * held.values[k];
  });
  const C rstd = C(1) / square_root(Group::sum(squares) / static_cast<C>(size) + p.eps);
  if (Group::thread() == 0) {
    if (p.mean) p.mean[row] = mean;
    p.rstd[row] = rstd;
  }
  Row::for_each(size, [&](int k, int) { held.values[k] *= rstd; });
  if (p.weight) {
    Row::for_each_pack(size, [&](int k, int i) {
      const auto weight = load_pack<width>(p.weight + i);
      for (int e = 0; e < width; ++e) held.values[k + e] *= widen(weight[e]);
    });
  }
  if (p.bias) {
    Row::for_each_pack(size, [&](int k, int i) {
      const auto bias = load_pack<width>(p.bias + i);
      for (int e = 0; e < width; ++e) held.values[k + e] += widen(bias[e]);
    });
  }
  held.store(p.y + row * size, size);
}

// A block a row of any length.
template <class T>
__global__ void __launch_bounds__(BlockGroup::kMaxThreads) forward_rows(Forward<T> p) {
  using C = ComputeType<T>;
  const int64_t row = BlockGroup::row();
  const T* x = p.x + row * p.columns;
  T* y = p.y + row * p.columns;
  const int64_t head = common_head(p.columns, x, y);
  C mean = 0;
  if (p.mean) {
    C sum = 0;
    for_row<T, BlockGroup>(p.columns, head, [&](auto width, int64_t i) {
      const auto items = load_pack<width>(x + i);
      for (int e = 0; e < width; ++e) sum += widen(items[e]);
    });
    mean = BlockGroup::sum(sum) / static_cast<C>(p.columns);
  }
  C squares = 0;
  for_row<T, BlockGroup>(p.columns, head, [&](auto width, int64_t i) {
    const auto items = load_pack<width>(x + i);
    for (int e = 0; e < width; ++e) squares += (widen(items[e]) - mean) * (widen(items[e]) - mean);
  });
  const C rstd = C(1) / square_root(BlockGroup::sum(squares) / static_cast<C>(p.columns) + p.eps);
  if (BlockGroup::thread() == 0) {
    if (p.mean) p.mean[row] = mean;
    p.rstd[row] = rstd;
  }
  for_row<T, BlockGroup>(p.columns, head, [&](auto width, int64_t i) {
    auto items = load_pack<width>(x + i);
    for (int e = 0; e < width; ++e) items[e] = narrow<T>(p.apply(widen(items[e]), mean, rstd, i + e));
    store_pack(y + i, items);
  });
}

template <class T>
void run_forward(Stream stream, const Forward<T>& p) {
  if (p.rows == 0 || p.columns == 0) return;
  const bool held = visit_held<T, kHeldRegisters, kHeldRegisters>(
      p.columns, aligned_to_packs(p.x, p.y, p.weight, p.bias), [&](auto group, auto width, auto packs, int threads) {
        using Group = decltype(group);
        launch(forward_held<T, Group, decltype(width)::value, decltype(packs)::value>, Group::grid(p.rows),
               Group::block(threads), 0, stream, p);
      });
  if (!held) launch(forward_rows<T>, BlockGroup::grid(p.rows), BlockGroup::block(), 0, stream, p);
}

void layer_norm_forward(Stream stream, DType dtype, const void* x, const void* weight, const void* bias, void* y,
                        void* mean, void* rstd, int64_t rows, int64_t columns, double eps) {
  visit_device_floating(dtype, "layer_norm", [&](auto type) {
    using T = typename decltype(type)::type;
    using C = ComputeType<T>;
    run_forward(stream, Forward<T>{static_cast<const T*>(x), static_cast<const T*>(weight), static_cast<const T*>(bias),
                                   static_cast<T*>(y), static_cast<C*>(mean), static_cast<C*>(rstd), rows, columns,
                                   static_cast<C>(eps)});
  });
}

void rms_norm_forward(Stream stream, DType dtype, const void* x, const void* weight, void* y, void* rstd, int64_t rows,
                      int64_t columns, double eps) {
  visit_device_floating(dtype, "rms_norm", [&](auto type) {
    using T = typename decltype(type)::type;
    using C = ComputeType<T>;
    run_forward(stream, Forward<T>{static_cast<const T*>(x), static_cast<const T*>(weight), nullptr, static_cast<T*>(y),
                                   nullptr, static_cast<C*>(rstd), rows, columns, static_cast<C>(eps)});
  });
}

}  // namespace

extern constinit const NormKernels norm_kernels = {.layer_norm_forward = layer_norm_forward,
                                                   .layer_norm_backward = layer_norm_backward,
                                                   .rms_norm_forward = rms_norm_forward,
                                                   .rms_norm_backward = rms_norm_backward};

}  // namespace weft::WEFT_DEVICE
