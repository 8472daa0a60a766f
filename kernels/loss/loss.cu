// Cross entropy on a device. The forward pass reads the logits once (a second time with label smoothing) and keeps two
// numbers a row; the backward pass makes the probabilities anew from them.
#include "kernels/loss/loss.h"

#include "kernels/base/device_memory.h"
#include "kernels/device_table.h"
#include "kernels/simt/fault.h"
#include "kernels/simt/online_sum.h"
#include "kernels/simt/row.h"

namespace weft::WEFT_DEVICE {
namespace {

constexpr int64_t kWarpClasses = 1024;  // a warp a row up to here
constexpr int kTotalThreads = 256;

// One launch. The dtype of results a row, and of `scale`, is f32 for bf16 and f16.
template <class T>
struct CrossEntropy {
  using C = ComputeType<T>;
  const T* logits;
  const int64_t* targets;
  const T* weight;       // or null
  const C* all_weights;  // their sum; null without weights or smoothing
  int64_t rows;
  int64_t classes;
  int64_t ignore_index;
  C hard;  // the share of the target's class, and of every class
  C even;
  bool smoothing;

  __device__ __forceinline__ bool is_class(int64_t target) const { return target >= 0 && target < classes; }
  __device__ __forceinline__ C weight_of(int64_t c) const { return weight ? widen(weight[c]) : C(1); }
  __device__ __forceinline__ C weights() const { return all_weights ? *all_weights : static_cast<C>(classes); }
};

template <class T>
__global__ void __launch_bounds__(kTotalThreads) total_weight(const T* weight, int64_t classes, ComputeType<T>* total) {
  ComputeType<T> sum = 0;
  for (int64_t c = threadIdx.x; c < classes; c += kTotalThreads) sum += widen(weight[c]);
  sum = block_sum(sum);
  if (threadIdx.x == 0) *total = sum;
}

template <class T, class Group>
__global__ void __launch_bounds__(BlockGroup::kMaxThreads)
    forward_rows(CrossEntropy<T> p, ComputeType<T>* loss, ComputeType<T>* row_max, ComputeType<T>* log_sum,
                 ComputeType<T>* row_weight, FaultReport report) {
  using C = ComputeType<T>;
  const int64_t row = Group::row();
  if (row >= p.rows) return;
  const int64_t target = p.targets[row];
  const bool first = Group::thread() == 0;
  if (target == p.ignore_index || !p.is_class(target)) {
    if (!first) return;
    if (target != p.ignore_index) report.raise(row, target, 0, p.classes);
    loss[row] = row_max[row] = log_sum[row] = row_weight[row] = C(0);
    return;
  }
  const T* x = p.logits + row * p.classes;
  const int64_t head = common_head(p.classes, x);
  OnlineSum<T> part;
  for_row<T, Group>(p.classes, head, [&](auto width, int64_t i) { part.add(load_pack<width>(x + i)); });
  part.template combine<Group>();
  C smooth = 0;  // sum(w[c] · (max - x[c]))
  if (p.smoothing) {
    for_row<T, Group>(p.classes, head, [&](auto width, int64_t i) {
      const auto items = load_pack<width>(x + i);
      for (int e = 0; e < width; ++e) smooth += p.weight_of(i + e) * (part.max - widen(items[e]));
    });
    smooth = Group::sum(smooth);
  }
  if (!first) return;
  const C weight = p.weight_of(target), log = logarithm(part.sum);
  C value = p.hard * weight * ((part.max - widen(x[target])) + log);
  if (p.smoothing) value += p.even * (smooth + p.weights() * log);
  loss[row] = value;
  row_max[row] = part.max;
  log_sum[row] = log;
  row_weight[row] = weight;
}

template <class T, class Group>
__global__ void __launch_bounds__(BlockGroup::kMaxThreads)
    backward_rows(CrossEntropy<T> p, const ComputeType<T>* row_max, const ComputeType<T>* log_sum,
                  const ComputeType<T>* scale, int64_t scale_stride, T* dlogits, FaultReport report) {
  using C = ComputeType<T>;
  const int64_t row = Group::row();
  if (row >= p.rows) return;
  const int64_t target = p.targets[row];
  const T* x = p.logits + row * p.classes;
  T* dx = dlogits + row * p.classes;
  const int64_t head = common_head(p.classes, x, dx);
  if (target == p.ignore_index || !p.is_class(target)) {
    if (target != p.ignore_index && Group::thread() == 0) report.raise(row, target, 0, p.classes);
    for_row<T, Group>(p.classes, head, [&](auto width, int64_t i) {
      Pack<T, width> zeros;
      for (int e = 0; e < width; ++e) zeros[e] = narrow<T>(C(0));
      store_pack(dx + i, zeros);
    });
    return;
  }
  const C largest = row_max[row], log = log_sum[row], factor = scale[row * scale_stride];
  const C target_part = factor * p.hard * p.weight_of(target);
  const C spread = factor * p.even;
  const C probability_factor = target_part + (p.smoothing ? spread * p.weights() : C(0));
  for_row<T, Group>(p.classes, head, [&](auto width, int64_t i) {
    auto items = load_pack<width>(x + i);
    for (int e = 0; e < width; ++e) {
      C value = exponential<T>((widen(items[e]) - largest) - log) * probability_factor;
      if (p.smoothing) value -= spread * p.weight_of(i + e);
      if (i + e == target) value -= target_part;
      items[e] = narrow<T>(value);
    }
    store_pack(dx + i, items);
  });
}

template <class T>
CrossEntropy<T> describe(const CrossEntropyOptions& options, const void* logits, const int64_t* targets, int64_t rows) {
  using C = ComputeType<T>;
  const auto classes = static_cast<double>(options.classes);
  return {.logits = static_cast<const T*>(logits),
          .targets = targets,
          .weight = static_cast<const T*>(options.weight),
          .all_weights = nullptr,
          .rows = rows,
          .classes = options.classes,
          .ignore_index = options.ignore_index,
          .hard = static_cast<C>(1 - options.label_smoothing),
          .even = static_cast<C>(options.classes > 0 ? options.label_smoothing / classes : 0),
          .smoothing = options.label_smoothing != 0};
}

// Calls f(p) with the sum of the weights where p needs it.
template <class T, class F>
void with_total_weight(Stream stream, CrossEntropy<T> p, F&& f) {
  if (!p.weight || !p.smoothing) return f(p);
  const ScratchBuffer total(stream, sizeof(ComputeType<T>));
  launch(total_weight<T>, dim3(1), dim3(kTotalThreads), 0, stream, p.weight, p.classes, total.as<ComputeType<T>>());
  p.all_weights = total.as<ComputeType<T>>();
  f(p);
}

void forward(Stream stream, DType dtype, const CrossEntropyOptions& options, const void* logits, const int64_t* targets,
             int64_t rows, void* loss, void* row_max, void* log_sum, void* row_weight) {
  visit_device_floating(dtype, "cross_entropy", [&](auto type) {
    using T = typename decltype(type)::type;
    using C = ComputeType<T>;
    if (rows == 0) return;
    const FaultReport report(stream, "cross_entropy");
    with_total_weight(stream, describe<T>(options, logits, targets, rows), [&](const CrossEntropy<T>& p) {
      const auto run = [&](auto group) {
        using Group = decltype(group);
        launch(forward_rows<T, Group>, Group::grid(rows), Group::block(), 0, stream, p, static_cast<C*>(loss),
               static_cast<C*>(row_max), static_cast<C*>(log_sum), static_cast<C*>(row_weight), report);
      };
      if (p.classes <= kWarpClasses)
        run(WarpGroup{});
      else
        run(BlockGroup{});
    });
  });
}

void backward(Stream stream, DType dtype, const CrossEntropyOptions& options, const void* logits,
              const int64_t* targets, int64_t rows, const void* row_max, const void* log_sum, const void* scale,
              int64_t scale_stride, void* dlogits) {
  visit_device_floating(dtype, "cross_entropy", [&](auto type) {
    using T = typename decltype(type)::type;
    using C = ComputeType<T>;
    if (rows == 0) return;
    const FaultReport report(stream, "cross_entropy");
    with_total_weight(stream, describe<T>(options, logits, targets, rows), [&](const CrossEntropy<T>& p) {
      const auto run = [&](auto group) {
        using Group = decltype(group);
        launch(backward_rows<T, Group>, Group::grid(rows), Group::block(), 0, stream, p, static_cast<const C*>(row_max),
               static_cast<const C*>(log_sum), static_cast<const C*>(scale), scale_stride, static_cast<T*>(dlogits),
               report);
      };
      if (p.classes <= kWarpClasses)
        run(WarpGroup{});
      else
        run(BlockGroup{});
    });
  });
}

}  // namespace

extern constinit const LossKernels loss_kernels = {.cross_entropy_forward = forward,
                                                   .cross_entropy_backward = backward};

}  // namespace weft::WEFT_DEVICE
