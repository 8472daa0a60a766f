// Sums and maxima over a warp or a block. Every thread gets the result.
//
//   float total = block_sum(partial);     // all threads of the block call it, which has any number of full warps
//
// The order of the additions is fixed by the numbers of the threads, so a result never depends on scheduling: lanes
// combine in a butterfly (xor 16, 8, 4, 2, 1), warps in ascending order. A maximum with a NaN in it is the other value,
// as fmaxf has it. T is float, double, int or unsigned.
#pragma once
#include "kernels/simt/simt.h"

namespace weft::WEFT_DEVICE {

namespace detail {

__device__ __forceinline__ float larger_of(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ double larger_of(double a, double b) { return fmax(a, b); }
__device__ __forceinline__ int larger_of(int a, int b) { return a < b ? b : a; }
__device__ __forceinline__ unsigned larger_of(unsigned a, unsigned b) { return a < b ? b : a; }

// The warp's number and the lane in it, for blocks of any shape.
__device__ __forceinline__ unsigned thread_in_block() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

}  // namespace detail

// All 32 lanes call these.
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
  WEFT_UNROLL
  for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(0xffffffffu, value, lanes);
  return value;
}
template <class T>
__device__ __forceinline__ T warp_max(T value) {
  WEFT_UNROLL
  for (int lanes = 16; lanes > 0; lanes /= 2)
    value = detail::larger_of(value, __shfl_xor_sync(0xffffffffu, value, lanes));
  return value;
}

namespace detail {

// A warp's result goes to shared memory, then every thread combines all of them: two barriers, the second so that the
// next call may write again.
template <class T, class Combine>
__device__ __forceinline__ T combine_warps(T value, Combine combine) {
  __shared__ T results[32];
  const unsigned thread = thread_in_block();
  const unsigned warps = (blockDim.x * blockDim.y * blockDim.z + 31) / 32;
  if (warps == 1) return value;
  if (thread % 32 == 0) results[thread / 32] = value;
  __syncthreads();
  T all = results[0];
  for (unsigned w = 1; w < warps; ++w) all = combine(all, results[w]);
  __syncthreads();
  return all;
}

}  // namespace detail

template <class T>
__device__ __forceinline__ T block_sum(T value) {
  return detail::combine_warps(warp_sum(value), [](T a, T b) { return a + b; });
}
template <class T>
__device__ __forceinline__ T block_max(T value) {
  return detail::combine_warps(warp_max(value), [](T a, T b) { return detail::larger_of(a, b); });
}

}  // namespace weft::WEFT_DEVICE
