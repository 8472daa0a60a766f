// What kernels over the rows of a matrix share: the type they compute in, who works on a row, and how a row is walked.
//
//   template <class T, class Group>
//   __global__ void total(const T* x, T* y, int64_t rows, int64_t size) {
//     const int64_t row = Group::row();
//     if (row >= rows) return;
//     const T* from = x + row * size;
//     ComputeType<T> sum = 0;
//     for_row<T, Group>(size, common_head(size, from), [&](auto width, int64_t i) {
//       const auto items = load_pack<width>(from + i);
//       for (int e = 0; e < width; ++e) sum += widen(items[e]);
//     });
//     sum = Group::sum(sum);
//     if (Group::thread() == 0) y[row] = narrow<T>(sum);
//   }
//   launch(total<float, WarpGroup>, WarpGroup::grid(rows), WarpGroup::block(), 0, stream, x, y, rows, size);
//
// bf16 and f16 are types of storage: arithmetic is in f32.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/base/dtype.h"
#include "kernels/base/error.h"
#include "kernels/simt/block_reduce.h"
#include "kernels/simt/simt.h"

namespace weft::WEFT_DEVICE {

// f64 for f64, else f32; also the type in which per-row statistics are stored.
template <class T>
using ComputeType = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
__device__ __forceinline__ ComputeType<T> widen(T value) {
  if constexpr (std::is_same_v<T, ComputeType<T>>)
    return value;
  else
    return to_float(value);
}
template <class T>
__device__ __forceinline__ T narrow(ComputeType<T> value) {
  if constexpr (std::is_same_v<T, ComputeType<T>>)
    return value;
  else
    return from_float<T>(value);
}

// exp for results that are stored as T: what bf16 and f16 keep of it, the fast instruction gives as well.
template <class T>
__device__ __forceinline__ ComputeType<T> exponential(ComputeType<T> x) {
  if constexpr (std::is_same_v<T, double>)
    return exp(x);
  else if constexpr (std::is_same_v<T, float>)
    return expf(x);
  else
    return __expf(x);
}

__device__ __forceinline__ float logarithm(float x) { return logf(x); }
__device__ __forceinline__ double logarithm(double x) { return log(x); }
__device__ __forceinline__ float square_root(float x) { return sqrtf(x); }
__device__ __forceinline__ double square_root(double x) { return sqrt(x); }
__device__ __forceinline__ float larger(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ double larger(double a, double b) { return fmax(a, b); }

template <class C>
inline constexpr C kNegativeInfinity = -std::numeric_limits<C>::infinity();

// Elements in 16 bytes.
template <class T>
inline constexpr int kPackWidth = 16 / static_cast<int>(sizeof(T));

// A warp a row, four rows a block.
struct WarpGroup {
  static constexpr int kRows = 4;
  static dim3 block(int = 32) { return dim3(32, kRows); }
  static dim3 grid(int64_t rows) { return dim3(static_cast<unsigned>((rows + kRows - 1) / kRows)); }
  static __device__ __forceinline__ int64_t row() { return static_cast<int64_t>(blockIdx.x) * kRows + threadIdx.y; }
  static __device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x); }
  static __device__ __forceinline__ int threads() { return 32; }
  template <class C>
  static __device__ __forceinline__ C sum(C value) {
    return warp_sum(value);
  }
  template <class C>
  static __device__ __forceinline__ C max(C value) {
    return warp_max(value);
  }
};

// A block a row.
struct BlockGroup {
  static constexpr int kRows = 1;
  static constexpr int kMaxThreads = 512;
  static dim3 block(int threads = kMaxThreads) { return dim3(static_cast<unsigned>(threads)); }
  static dim3 grid(int64_t rows) { return dim3(static_cast<unsigned>(rows)); }
  static __device__ __forceinline__ int64_t row() { return blockIdx.x; }
  static __device__ __forceinline__ int thread() { return static_cast<int>(threadIdx.x); }
  static __device__ __forceinline__ int threads() { return static_cast<int>(blockDim.x); }
  template <class C>
  static __device__ __forceinline__ C sum(C value) {
    return block_sum(value);
  }
  template <class C>
  static __device__ __forceinline__ C max(C value) {
    return block_max(value);
  }
};

// How many elements lie before the first 16-byte boundary of a row; all of them if the rows of several arrays do not
// reach one together.
template <class T, class... Others>
__device__ __forceinline__ int64_t common_head(int64_t size, const T* first, const Others*... others) {
  const auto phase = [](const void* pointer) { return reinterpret_cast<uintptr_t>(pointer) % 16; };
  const bool together = ((phase(others) == phase(first)) && ... && true);
  const auto head = static_cast<int64_t>((16 - phase(first)) % 16 / sizeof(T));
  return together && head < size ? head : size;
}

// Calls f(width, i) for all of a row's elements, shared among the threads of the group: packs of 16 bytes (f handles
// elements i to i + width) between a head and a tail of single ones. `width` is an integral_constant.
template <class T, class Group, class F>
__device__ __forceinline__ void for_row(int64_t size, int64_t head, F&& f) {
  constexpr int n = kPackWidth<T>;
  const std::integral_constant<int, 1> one;
  const std::integral_constant<int, n> many;
  const int thread = Group::thread(), threads = Group::threads();
  for (int64_t i = thread; i < head; i += threads) f(one, i);
  const int64_t packs = (size - head) / n;
  for (int64_t p = thread; p < packs; p += threads) f(many, head + p * n);
  for (int64_t i = head + packs * n + thread; i < size; i += threads) f(one, i);
}

// A row in the registers of its group: thread t holds the packs t, t + threads, …
template <class T, class Group, int width, int packs>
struct HeldRow {
  using C = ComputeType<T>;
  C values[packs * width];

  // Calls f(k, i) for each pack this thread holds: from number k of its own elements, number i of the row, on.
  template <class F>
  static __device__ __forceinline__ void for_each_pack(int size, F&& f) {
    WEFT_UNROLL
    for (int p = 0; p < packs; ++p) {
      const int at = (p * Group::threads() + Group::thread()) * width;
      if (at < size) f(p * width, at);
    }
  }
  // The same for each element.
  template <class F>
  static __device__ __forceinline__ void for_each(int size, F&& f) {
    for_each_pack(size, [&](int k, int i) {
      WEFT_UNROLL
      for (int e = 0; e < width; ++e) f(k + e, i + e);
    });
  }
  __device__ __forceinline__ void load(const T* row, int size) {
    for_each_pack(size, [&](int k, int i) {
      const auto items = load_pack<width>(row + i);
      WEFT_UNROLL
      for (int e = 0; e < width; ++e) values[k + e] = widen(items[e]);
    });
  }
  __device__ __forceinline__ void store(T* row, int size) const {
    for_each_pack(size, [&](int k, int i) {
      Pack<T, width> items;
      WEFT_UNROLL
      for (int e = 0; e < width; ++e) items[e] = narrow<T>(values[k + e]);
      store_pack(row + i, items);
    });
  }
};

// Chooses how to hold rows of `size` elements, in at most so many registers a thread of a warp or of a block, and calls
// f(Group, width, packs, threads a block) with the first three as types or integral_constants. False: the rows are
// longer than registers. `vectors`: every row begins at a 16-byte boundary.
template <class T, int warp_registers, int block_registers, class F>
bool visit_held(int64_t size, bool vectors, F&& f) {
  const auto choose = [&](auto width) {
    constexpr int w = decltype(width)::value;
    constexpr int registers = w * static_cast<int>(sizeof(ComputeType<T>) / sizeof(float));  // of a pack
    constexpr int warp_packs = std::min(8, warp_registers / registers);
    constexpr int block_packs = std::min(8, block_registers / registers);
    if (size <= 32 * w * 2) {
      f(WarpGroup{}, width, std::integral_constant<int, 2>{}, 32);
    } else if (size <= 32 * w * warp_packs) {
      f(WarpGroup{}, width, std::integral_constant<int, warp_packs>{}, 32);
    } else if (size <= static_cast<int64_t>(BlockGroup::kMaxThreads) * w * block_packs) {
      const auto share = static_cast<int>((size + w * block_packs - 1) / (w * block_packs));
      f(BlockGroup{}, width, std::integral_constant<int, block_packs>{}, (share + 31) / 32 * 32);
    } else {
      return false;
    }
    return true;
  };
  if (vectors && size % kPackWidth<T> == 0) return choose(std::integral_constant<int, kPackWidth<T>>{});
  return choose(std::integral_constant<int, 1>{});
}

// True if all begin at a 16-byte boundary; null pointers do not count.
template <class... P>
bool aligned_to_packs(const P*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

// Calls f(TypeTag<T>{}) for the dtypes of structured kernels on devices.
template <class F>
void visit_device_floating(DType dtype, std::string_view op, F&& f) {
  switch (dtype) {
    case DType::f64: return f(TypeTag<double>{});
    case DType::f32: return f(TypeTag<float>{});
    case DType::f16: return f(TypeTag<Half>{});
    case DType::bf16: return f(TypeTag<BFloat16>{});
    default: fail(ErrorCode::unsupported, op, "expected f64, f32, f16 or bf16, got {}", name(dtype));
  }
}

}  // namespace weft::WEFT_DEVICE
