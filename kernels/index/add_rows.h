// Adding rows to a table at positions that may repeat, on a device, in the order of the positions.
//
//   add_rows<float>(stream, "index_add", source, index, n, {.outer = 1, .size = vocabulary, .inner = width}, 1.0f, out);
//
// out[o, index[i], c] += factor · source[o, i, c]. The positions are sorted; the thread that meets a position first adds
// up all of its rows. So each element gets the additions of the CPU's loop in the same order, bit for bit in f32 and
// f64; bf16 and f16 are added up in f32 and rounded once.
#pragma once
#include "kernels/index/sort_device.h"
#include "kernels/simt/fault.h"
#include "kernels/simt/row.h"

namespace weft::WEFT_DEVICE {

struct AddRowsShape {
  int64_t outer;
  int64_t size;  // of the table, in rows
  int64_t inner;
  int64_t skip = -1;  // rows with this index add nothing
};

// The type in which T is summed: integers wrap around.
template <class T>
struct SumType {
  using type = ComputeType<T>;
};
template <>
struct SumType<uint64_t> {
  using type = uint64_t;
};

// A type with the values of T in which arithmetic is defined.
template <class T>
__device__ __forceinline__ typename SumType<T>::type to_sum(T value) {
  if constexpr (std::is_integral_v<T>)
    return value;
  else
    return widen(value);
}
template <class T>
__device__ __forceinline__ T from_sum(typename SumType<T>::type value) {
  if constexpr (std::is_integral_v<T>)
    return value;
  else
    return narrow<T>(value);
}

struct IndexKeys {
  const int64_t* index;
  int64_t n;
  __device__ __forceinline__ uint64_t operator()(int64_t row, int64_t i) const {
    return static_cast<uint64_t>(index[row * n + i]);
  }
};

// threadIdx.y and blockIdx.x choose a sorted entry, threadIdx.x and blockIdx.y columns of [outer, inner].
template <class T>
__global__ void __launch_bounds__(256)
    add_sorted_rows(const T* source, const uint64_t* keys, const uint32_t* positions, int64_t n, AddRowsShape shape,
                    typename SumType<T>::type factor, T* out, FaultReport report) {
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (first >= n) return;
  const uint64_t key = keys[first];
  const auto index = static_cast<int64_t>(key);
  if ((first > 0 && keys[first - 1] == key) || index == shape.skip) return;
  if (index < 0 || index >= shape.size) {
    if (threadIdx.x == 0 && blockIdx.y == 0) report.raise(positions[first], index, 0, shape.size);
    return;
  }
  const int64_t columns = shape.outer * shape.inner;
  for (int64_t column = static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x; column < columns;
       column += static_cast<int64_t>(gridDim.y) * blockDim.x) {
    const int64_t o = column / shape.inner, c = column % shape.inner;
    T* target = out + (o * shape.size + index) * shape.inner + c;
    auto sum = to_sum(*target);
    for (int64_t entry = first; entry < n && keys[entry] == key; ++entry)
      sum += factor * to_sum(source[(o * n + positions[entry]) * shape.inner + c]);
    *target = from_sum<T>(sum);
  }
}

template <class T>
void add_rows(Stream stream, const char* op, const T* source, const int64_t* index, int64_t n,
              const AddRowsShape& shape, typename SumType<T>::type factor, T* out) {
  const int64_t columns = shape.outer * shape.inner;
  if (n == 0 || columns == 0) return;
  const SortedRows<uint64_t> sorted(stream, 1, n, IndexKeys{index, n});
  unsigned width = 1;
  while (width < 64 && width < columns) width *= 2;
  const dim3 block(width, 256 / width);
  const dim3 grid(static_cast<unsigned>((n + block.y - 1) / block.y),
                  static_cast<unsigned>(std::min<int64_t>((columns + width - 1) / width, 1024)));
  launch(add_sorted_rows<T>, grid, block, 0, stream, source, sorted.keys(), sorted.positions(), n, shape, factor, out,
         FaultReport(stream, op));
}

}  // namespace weft::WEFT_DEVICE
