// Sums over lists of arrays, and scaling: one launch over all slices (slice_table.h), a second one to add up its tiles.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/optimizer/multi_tensor_device.h"
#include "kernels/optimizer/slice_kernel.h"
#include "kernels/simt/block_reduce.h"

namespace weft::WEFT_DEVICE {
namespace {

template <class T>
struct ArrayEntry {
  T* data;
  int64_t size;
  int64_t aligned;
};

// The table of slices that consist of one array.
template <class T, class Slice>
SliceTable<ArrayEntry<T>> array_table(Stream stream, const Slice* slices, int64_t count) {
  std::vector<ArrayEntry<T>> entries(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    entries[static_cast<size_t>(i)] = {static_cast<T*>(slices[i].data), slices[i].size, all_aligned(slices[i].data)};
  return SliceTable<ArrayEntry<T>>(stream, entries.data(), count);
}

// How magnitudes are turned into terms.
enum class Power { square, one, zero, infinity, any };
Power power_of(double p) {
  if (p == 2) return Power::square;
  if (p == 1) return Power::one;
  if (p == 0) return Power::zero;
  return std::isinf(p) ? Power::infinity : Power::any;
}

// What a thread has seen: a sum, or the largest; a NaN is kept beside it, as maxima lose it.
struct PowerSum {
  Power power;
  double sum = 0;
  double nan = 0;

  __device__ __forceinline__ void add(double x, double p) {
    switch (power) {
      case Power::square: sum += x * x; break;
      case Power::one: sum += fabs(x); break;
      case Power::zero: sum += x != 0 ? 1 : 0; break;
      case Power::infinity: sum = fmax(sum, fabs(x)); break;
      case Power::any: sum += pow(fabs(x), p); break;
    }
    if (x != x) nan = 1;
  }
  // Over the block.
  __device__ __forceinline__ double total() const {
    const double all = power == Power::infinity ? block_max(sum) : block_sum(sum);
    constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
    return block_max(nan) != 0 ? not_a_number : all;
  }
};

template <class T>
__global__ void __launch_bounds__(kSliceThreads)
    power_sum_kernel(SliceTableView<ArrayEntry<const T>> table, Power power, double p, double* partial) {
  using C = ComputeType<T>;
  const SliceTile<ArrayEntry<const T>> tile = table.tile(blockIdx.x);
  PowerSum part{power};
  for_tile<T>(tile.begin, tile.end, tile.entry.aligned != 0, [&](auto width, int64_t i) {
    constexpr int n = decltype(width)::value;
    C values[n]{};
    read(tile.entry.data, i, values);
    WEFT_UNROLL
    for (int e = 0; e < n; ++e) part.add(static_cast<double>(values[e]), p);
  });
  const double total = part.total();
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

// Adds up the partial sums [first[i], first[i + 1]), block i; all of them where first is null.
template <class = void>
__global__ void __launch_bounds__(kSliceThreads)
    add_partials(const double* partial, const int64_t* first, int64_t count, Power power, double* results) {
  const int64_t begin = first != nullptr ? first[blockIdx.x] : 0;
  const int64_t end = first != nullptr ? first[blockIdx.x + 1] : count;
  PowerSum part{power == Power::infinity ? Power::infinity : Power::one};
  for (int64_t i = begin + threadIdx.x; i < end; i += kSliceThreads) part.add(partial[i], 1);
  const double total = part.total();
  if (threadIdx.x == 0) results[blockIdx.x] = total;
}

}  // namespace

void power_sum(Stream stream, DType dtype, double p, const ConstSlice* slices, int64_t count, double* result) {
  visit_device_floating(dtype, "norm", [&](auto type) {
    using T = typename decltype(type)::type;
    const Power power = power_of(p);
    const auto table = array_table<const T>(stream, slices, count);
    const ScratchBuffer partial(stream, std::max<int64_t>(1, table.tiles()) * static_cast<int64_t>(sizeof(double)));
    if (table.tiles() > 0)
      launch(power_sum_kernel<T>, table.grid(), dim3(kSliceThreads), 0, stream, table.device(), power, p,
             partial.template as<double>());
    launch(add_partials<>, dim3(1), dim3(kSliceThreads), 0, stream, partial.template as<const double>(),
           static_cast<const int64_t*>(nullptr), table.tiles(), power, result);
  });
}

void squares(Stream stream, DType dtype, const ConstSlice* slices, int64_t count, double* results) {
  if (count == 0) return;
  visit_device_floating(dtype, "norm", [&](auto type) {
    using T = typename decltype(type)::type;
    const auto table = array_table<const T>(stream, slices, count);
    // The table leaves empty slices out, the results do not.
    std::vector<int64_t> first(static_cast<size_t>(count) + 1);
    for (int64_t i = 0; i < count; ++i)
      first[static_cast<size_t>(i) + 1] =
          first[static_cast<size_t>(i)] + (slices[i].size + kSliceTile - 1) / kSliceTile;
    const auto bytes = static_cast<int64_t>(first.size() * sizeof(int64_t));
    const ScratchBuffer ranges(stream, bytes);
    upload(stream, ranges.template as<void>(), first.data(), bytes);
    const ScratchBuffer partial(stream, std::max<int64_t>(1, table.tiles()) * static_cast<int64_t>(sizeof(double)));
    if (table.tiles() > 0)
      launch(power_sum_kernel<T>, table.grid(), dim3(kSliceThreads), 0, stream, table.device(), Power::square, 2.0,
             partial.template as<double>());
    launch(add_partials<>, dim3(static_cast<unsigned>(count)), dim3(kSliceThreads), 0, stream,
           partial.template as<const double>(), ranges.template as<const int64_t>(), table.tiles(), Power::square,
           results);
  });
}

namespace {

template <class T, bool check>
__global__ void __launch_bounds__(kSliceThreads)
    scale_kernel(SliceTableView<ArrayEntry<T>> table, ComputeType<T> factor, float* found_inf) {
  const SliceTile<ArrayEntry<T>> tile = table.tile(blockIdx.x);
  constexpr auto largest = std::numeric_limits<ComputeType<T>>::max();
  bool finite = true;
  for_tile<T>(tile.begin, tile.end, tile.entry.aligned != 0, [&](auto width, int64_t i) {
    constexpr int n = decltype(width)::value;
    ComputeType<T> values[n]{};
    read(tile.entry.data, i, values);
    WEFT_UNROLL
    for (int e = 0; e < n; ++e) {
      values[e] *= factor;
      if (check && !(fabs(values[e]) <= largest)) finite = false;
    }
    write(tile.entry.data, i, values);
  });
  if (check && !finite) atomicExch(found_inf, 1.0f);
}

template <bool check>
void scale_slices(Stream stream, DType dtype, const MutableSlice* slices, int64_t count, double factor,
                  float* found_inf) {
  visit_device_floating(dtype, "scale", [&](auto type) {
    using T = typename decltype(type)::type;
    const auto table = array_table<T>(stream, slices, count);
    if (table.tiles() == 0) return;
    launch(scale_kernel<T, check>, table.grid(), dim3(kSliceThreads), 0, stream, table.device(),
           static_cast<ComputeType<T>>(factor), found_inf);
  });
}

}  // namespace

void scale(Stream stream, DType dtype, const MutableSlice* slices, int64_t count, double factor) {
  scale_slices<false>(stream, dtype, slices, count, factor, nullptr);
}

void unscale(Stream stream, DType dtype, const MutableSlice* slices, int64_t count, double factor, float* found_inf) {
  scale_slices<true>(stream, dtype, slices, count, factor, found_inf);
}

}  // namespace weft::WEFT_DEVICE
