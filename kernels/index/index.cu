// Gather, scatter and their relatives on a device.
#include "kernels/index/index.h"

#include <type_traits>

#include "kernels/base/device.h"
#include "kernels/device_table.h"
#include "kernels/index/add_rows.h"
#include "kernels/index/index_device.h"
#include "kernels/index/visit_size.h"
#include "kernels/simt/fault.h"
#include "kernels/simt/simt.h"

namespace weft::WEFT_DEVICE {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kShortSequence = 32;  // positions that one thread goes through without sorting them

dim3 grid(int64_t count) { return dim3(static_cast<unsigned>((count + kThreads - 1) / kThreads)); }
__device__ __forceinline__ int64_t own_element() { return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; }

// The dtypes that sums are made in.
template <class F>
void visit_sum(DType dtype, const char* op, F&& f) {
  if (dtype == DType::i64) return f(TypeTag<uint64_t>{});  // wraps around
  visit_device_floating(dtype, op, f);
}

// Where element number `element` of the layout lies in each operand.
struct Offsets {
  int64_t first, index, last;
};
__device__ __forceinline__ Offsets offsets_of(const Layout<3>& layout, int64_t element) {
  Offsets offset{0, 0, 0};
  for (int d = layout.ndim - 1; d >= 0; --d) {
    const auto at = static_cast<size_t>(d);
    const int64_t i = element % layout.sizes[at];
    element /= layout.sizes[at];
    offset.first += i * layout.strides[0][at];
    offset.index += i * layout.strides[1][at];
    offset.last += i * layout.strides[2][at];
  }
  return offset;
}

__global__ void __launch_bounds__(kThreads)
    check_range(const int64_t* index, int64_t n, int64_t low, int64_t high, FaultReport report) {
  const int64_t i = own_element();
  if (i < n && (index[i] < low || index[i] >= high)) report.raise(i, index[i], low, high);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    gather_elements(Layout<3> layout, int64_t count, const T* x, int64_t x_step, const int64_t* index, T* out) {
  const int64_t element = own_element();
  if (element >= count) return;
  const Offsets at = offsets_of(layout, element);
  out[at.last] = x[at.first + index[at.index] * x_step];
}

// What a scatter walks: `rows` whose elements never meet, each of a sequence of positions that may repeat.
struct ScatterWalk {
  Layout<3> row_layout;
  Layout<3> sequence_layout;
  int64_t rows;
  int64_t length;
  int64_t out_step;
};

// Elements meet only where the output stands still, that is along the indexed dimension.
ScatterWalk scatter_walk(const Layout<3>& layout, int64_t out_step) {
  ScatterWalk walk{{}, {}, 1, 1, out_step};
  for (int d = 0; d < layout.ndim; ++d) {
    const auto at = static_cast<size_t>(d);
    const bool repeats = layout.strides[2][at] == 0;
    (repeats ? walk.sequence_layout : walk.row_layout)
        .push(layout.sizes[at], {layout.strides[0][at], layout.strides[1][at], layout.strides[2][at]});
    (repeats ? walk.length : walk.rows) *= layout.sizes[at];
  }
  return walk;
}

struct Assign {
  template <class T>
  __device__ __forceinline__ void operator()(T* out, T value) const {
    *out = value;
  }
};
struct Add {
  template <class T>
  __device__ __forceinline__ void operator()(T* out, T value) const {
    *out = from_sum<T>(to_sum(*out) + to_sum(value));
  }
};

// A thread a row, through its positions in order.
template <class T, class Write>
__global__ void __launch_bounds__(kThreads)
    scatter_rows(ScatterWalk walk, const T* source, const int64_t* index, T* out, Write write) {
  const int64_t row = own_element();
  if (row >= walk.rows) return;
  const Offsets base = offsets_of(walk.row_layout, row);
  for (int64_t i = 0; i < walk.length; ++i) {
    const Offsets at = offsets_of(walk.sequence_layout, i);
    write(out + base.last + index[base.index + at.index] * walk.out_step, source[base.first + at.first]);
  }
}

struct ScatterKeys {
  ScatterWalk walk;
  const int64_t* index;
  __device__ __forceinline__ uint64_t operator()(int64_t row, int64_t i) const {
    return static_cast<uint64_t>(
        index[offsets_of(walk.row_layout, row).index + offsets_of(walk.sequence_layout, i).index]);
  }
};

// A thread a sorted entry; that which is the first at its position takes all of the position's.
template <class T, class Write>
__global__ void __launch_bounds__(kThreads) scatter_sorted(ScatterWalk walk, const T* source, const uint64_t* keys,
                                                           const uint32_t* positions, T* out, Write write) {
  const int64_t entry = own_element();
  if (entry >= walk.rows * walk.length) return;
  const int64_t row = entry / walk.length, end = (row + 1) * walk.length;
  const uint64_t key = keys[entry];
  if (entry > row * walk.length && keys[entry - 1] == key) return;
  const Offsets base = offsets_of(walk.row_layout, row);
  T* to = out + base.last + static_cast<int64_t>(key) * walk.out_step;
  for (int64_t next = entry; next < end && keys[next] == key; ++next)
    write(to, source[base.first + offsets_of(walk.sequence_layout, positions[next]).first]);
}

template <class T, class Write>
void run_scatter(Stream stream, const Layout<3>& layout, const T* source, const int64_t* index, T* out,
                 int64_t out_step, Write write) {
  const ScatterWalk walk = scatter_walk(layout, out_step);
  if (walk.rows * walk.length == 0) return;
  if (walk.length <= kShortSequence) {
    launch(scatter_rows<T, Write>, grid(walk.rows), dim3(kThreads), 0, stream, walk, source, index, out, write);
    return;
  }
  const SortedRows<uint64_t> sorted(stream, walk.rows, walk.length, ScatterKeys{walk, index});
  launch(scatter_sorted<T, Write>, grid(walk.rows * walk.length), dim3(kThreads), 0, stream, walk, source,
         sorted.keys(), sorted.positions(), out, write);
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    select_rows(const T* x, int64_t outer, int64_t size, int64_t inner, const int64_t* index, int64_t n, T* out) {
  const int64_t element = own_element();
  if (element >= outer * n * inner) return;
  const int64_t row = element / inner, column = element % inner;
  out[element] = x[(row / n * size + index[row % n]) * inner + column];
}

// Waits for the answer: the kernels that follow trust the indices. Inside a graph capture nothing can be waited for, so
// there the fault surfaces after a replay.
void check(Stream stream, const char* op, const int64_t* index, int64_t n, int64_t low, int64_t high) {
  if (n == 0) return;
  launch(check_range, grid(n), dim3(kThreads), 0, stream, index, n, low, high, FaultReport(stream, op));
  const DeviceRuntime& runtime = device_runtime(stream.device.type, op);
  if (!runtime.is_capturing(stream)) runtime.synchronize(stream);
}

void gather(Stream stream, int64_t element_bytes, const Layout<3>& layout, const void* x, int64_t x_step,
            const int64_t* index, void* out) {
  visit_size(element_bytes, [&](auto type) {
    using T = typename decltype(type)::type;
    const int64_t count = layout.rows() * layout.row_size();
    if (count > 0)
      launch(gather_elements<T>, grid(count), dim3(kThreads), 0, stream, layout, count, static_cast<const T*>(x),
             x_step, index, static_cast<T*>(out));
  });
}

void scatter(Stream stream, int64_t element_bytes, const Layout<3>& layout, const void* source, const int64_t* index,
             void* out, int64_t out_step) {
  visit_size(element_bytes, [&](auto type) {
    using T = typename decltype(type)::type;
    run_scatter(stream, layout, static_cast<const T*>(source), index, static_cast<T*>(out), out_step, Assign{});
  });
}

void scatter_add(Stream stream, DType dtype, const Layout<3>& layout, const void* source, const int64_t* index,
                 void* out, int64_t out_step) {
  visit_sum(dtype, "scatter_add", [&](auto type) {
    using T = typename decltype(type)::type;
    run_scatter(stream, layout, static_cast<const T*>(source), index, static_cast<T*>(out), out_step, Add{});
  });
}

void select(Stream stream, int64_t element_bytes, const void* x, int64_t outer, int64_t size, int64_t inner,
            const int64_t* index, int64_t n, void* out) {
  const int64_t row_bytes = inner * element_bytes;
  const auto run = [&](auto type, int64_t row_elements) {
    using T = typename decltype(type)::type;
    const int64_t count = outer * n * row_elements;
    if (count > 0)
      launch(select_rows<T>, grid(count), dim3(kThreads), 0, stream, static_cast<const T*>(x), outer, size,
             row_elements, index, n, static_cast<T*>(out));
  };
  if (row_bytes % 16 == 0 && aligned_to_packs(x, out)) return run(TypeTag<uint4>{}, row_bytes / 16);
  visit_size(element_bytes, [&](auto type) { run(type, inner); });
}

void add(Stream stream, DType dtype, void* out, int64_t outer, int64_t size, int64_t inner, const int64_t* index,
         int64_t n, const void* source, double alpha) {
  visit_sum(dtype, "index_add", [&](auto type) {
    using T = typename decltype(type)::type;
    using Sum = typename SumType<T>::type;
    const auto factor = static_cast<Sum>(static_cast<std::conditional_t<std::is_integral_v<T>, int64_t, Sum>>(alpha));
    add_rows<T>(stream, "index_add", static_cast<const T*>(source), index, n, {outer, size, inner}, factor,
                static_cast<T*>(out));
  });
}

}  // namespace

extern constinit const IndexKernels index_kernels = {
    .check = check,
    .gather = gather,
    .scatter = scatter,
    .scatter_add = scatter_add,
    .select = select,
    .add = add,
    .nonzero = nonzero,
    .sort = sort,
};

}  // namespace weft::WEFT_DEVICE
