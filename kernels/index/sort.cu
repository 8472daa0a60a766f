// Sorting the rows of a matrix on a device (sort_device.h).
#include "kernels/index/sort_device.h"

#include "kernels/index/index_device.h"
#include "kernels/simt/row.h"

namespace weft::WEFT_DEVICE {
namespace {

constexpr int kThreads = 256;

// The elements of x as unsigned integers in their order: NaN largest, both zeros equal, all bits flipped to descend.
template <class T>
struct OrderedKeys {
  using Key = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  const T* x;
  int64_t n;
  bool descending;

  __device__ __forceinline__ Key operator()(int64_t row, int64_t i) const {
    const Key key = rising(x[row * n + i]);
    return descending ? ~key : key;
  }

 private:
  static constexpr Key kSign = Key(1) << (sizeof(Key) * 8 - 1);

  static __device__ __forceinline__ Key rising(T element) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<Key>(element) ^ kSign;
    } else {
      const auto value = widen(element);
      if (value != value) return std::numeric_limits<Key>::max();
      // Adding 0 makes -0 the other zero.
      const Key bits = std::bit_cast<Key>(value + 0);
      return bits & kSign ? ~bits : bits | kSign;
    }
  }
};

template <class T>
__global__ void __launch_bounds__(kThreads) take_sorted(const T* x, const uint32_t* positions, int64_t rows, int64_t n,
                                                        int64_t k, T* values, int64_t* indices) {
  const int64_t element = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (element >= rows * k) return;
  const int64_t row = element / k;
  const uint32_t position = positions[row * n + element % k];
  values[element] = x[row * n + position];
  indices[element] = position;
}

template <class T>
void sort_rows(Stream stream, const T* x, int64_t rows, int64_t n, int64_t k, bool descending, T* values,
               int64_t* indices) {
  if (rows == 0 || n == 0 || k == 0) return;
  const SortedRows<typename OrderedKeys<T>::Key> sorted(stream, rows, n, OrderedKeys<T>{x, n, descending});
  launch(take_sorted<T>, dim3(static_cast<unsigned>((rows * k + kThreads - 1) / kThreads)), dim3(kThreads), 0, stream,
         x, sorted.positions(), rows, n, k, values, indices);
}

}  // namespace

void sort(Stream stream, DType dtype, const void* x, int64_t rows, int64_t n, int64_t k, bool descending, void* values,
          int64_t* indices) {
  if (dtype == DType::i64)
    return sort_rows(stream, static_cast<const int64_t*>(x), rows, n, k, descending, static_cast<int64_t*>(values),
                     indices);
  visit_device_floating(dtype, "sort", [&](auto type) {
    using T = typename decltype(type)::type;
    sort_rows(stream, static_cast<const T*>(x), rows, n, k, descending, static_cast<T*>(values), indices);
  });
}

}  // namespace weft::WEFT_DEVICE
