// Running sums and products on devices. Along a contiguous dimension a block goes through a row 1024 elements at a time:
// each thread adds up four, each warp scans these sums by shuffles, then all add what is before them (Hillis & Steele
// 1986, "Data parallel algorithms"). Otherwise a thread has a column, and neighbouring threads read neighbouring
// addresses.
#include <algorithm>

#include "kernels/reduce/device_walk.h"

namespace weft::WEFT_DEVICE {
namespace {

constexpr int kThreads = 256;
constexpr int kEach = 4;          // neighbours a thread has
constexpr int64_t kLongRow = 64;  // shorter ones are not worth a block

// f64 for floats; i64 wraps around, as unsigned numbers may.
template <class T>
using Running = std::conditional_t<std::is_same_v<T, int64_t>, unsigned long long, double>;

template <class T>
__device__ __forceinline__ Running<T> running(T value) {
  return static_cast<Running<T>>(convert_value<std::conditional_t<std::is_same_v<T, int64_t>, int64_t, double>>(value));
}
template <class T>
__device__ __forceinline__ T result(Running<T> value) {
  return convert_value<T>(static_cast<std::conditional_t<std::is_same_v<T, int64_t>, int64_t, double>>(value));
}

template <class R>
__device__ __forceinline__ R combine(Scan op, R a, R b) {
  return op == Scan::sum ? a + b : a * b;
}

template <class T>
__global__ void __launch_bounds__(kThreads) scan_rows(Scan op, const T* x, T* out, int64_t size) {
  using R = Running<T>;
  __shared__ R totals[kThreads / 32];
  const T* from = x + static_cast<int64_t>(blockIdx.x) * size;
  T* to = out + static_cast<int64_t>(blockIdx.x) * size;
  const bool aligned = reinterpret_cast<uintptr_t>(from) % 16 == 0 && reinterpret_cast<uintptr_t>(to) % 16 == 0;
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const R nothing = op == Scan::sum ? R(0) : R(1);
  R before = nothing;  // of the rounds before
  for (int64_t at = 0; at < size; at += kThreads * kEach) {
    const int64_t i = at + threadIdx.x * kEach;
    const bool whole = aligned && i + kEach <= size;
    R values[kEach];
    if (whole) {
      const Pack<T, kEach> items = load_pack<kEach>(from + i);
      WEFT_UNROLL
      for (int e = 0; e < kEach; ++e) values[e] = running(items[e]);
    } else {
      WEFT_UNROLL
      for (int e = 0; e < kEach; ++e) values[e] = i + e < size ? running(from[i + e]) : nothing;
    }
    WEFT_UNROLL
    for (int e = 1; e < kEach; ++e) values[e] = combine(op, values[e - 1], values[e]);
    R sum = values[kEach - 1];  // up to this thread, in the warp
    WEFT_UNROLL
    for (unsigned step = 1; step < 32; step *= 2) {
      const R other = __shfl_up_sync(0xffffffffu, sum, step);
      if (lane >= step) sum = combine(op, other, sum);
    }
    R earlier = __shfl_up_sync(0xffffffffu, sum, 1);  // of the lanes before
    if (lane == 0) earlier = nothing;
    if (lane == 31) totals[warp] = sum;
    __syncthreads();
    for (unsigned w = 0; w < kThreads / 32; ++w) {
      if (w == warp) earlier = combine(op, before, earlier);
      before = combine(op, before, totals[w]);
    }
    Pack<T, kEach> results;
    WEFT_UNROLL
    for (int e = 0; e < kEach; ++e) results[e] = result<T>(combine(op, earlier, values[e]));
    if (whole) {
      store_pack(to + i, results);
    } else {
      WEFT_UNROLL
      for (int e = 0; e < kEach; ++e)
        if (i + e < size) to[i + e] = results[e];
    }
    __syncthreads();  // the totals are read before they are written again
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    scan_columns(Scan op, const T* x, T* out, int64_t outer, int64_t size, int64_t inner) {
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (column >= outer * inner) return;
  const int64_t base = column / inner * size * inner + column % inner;
  Running<T> total = op == Scan::sum ? 0 : 1;
  for (int64_t i = 0; i < size; ++i) {
    total = combine(op, total, running(x[base + i * inner]));
    out[base + i * inner] = result<T>(total);
  }
}

template <class T>
void scan_typed(Stream stream, Scan op, const void* input, void* output, int64_t outer, int64_t size, int64_t inner) {
  const T* x = static_cast<const T*>(input);
  T* out = static_cast<T*>(output);
  if (inner == 1 && size >= kLongRow)
    launch(scan_rows<T>, dim3(static_cast<unsigned>(outer)), dim3(kThreads), 0, stream, op, x, out, size);
  else
    launch(scan_columns<T>, dim3(static_cast<unsigned>(blocks_of(outer * inner, kThreads))), dim3(kThreads), 0, stream,
           op, x, out, outer, size, inner);
}

}  // namespace

void scan(Stream stream, Scan op, DType dtype, const void* x, void* out, int64_t outer, int64_t size, int64_t inner) {
  if (outer * size * inner == 0) return;
  switch (dtype) {
    case DType::f64: return scan_typed<double>(stream, op, x, out, outer, size, inner);
    case DType::f32: return scan_typed<float>(stream, op, x, out, outer, size, inner);
    case DType::bf16: return scan_typed<BFloat16>(stream, op, x, out, outer, size, inner);
    case DType::f16: return scan_typed<Half>(stream, op, x, out, outer, size, inner);
    case DType::i64: return scan_typed<int64_t>(stream, op, x, out, outer, size, inner);
    default:
      fail(ErrorCode::unsupported, op == Scan::sum ? "cumsum" : "cumprod",
           "expected f64, f32, bf16, f16 or i64, got {}", name(dtype));
  }
}

}  // namespace weft::WEFT_DEVICE
