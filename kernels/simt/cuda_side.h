// simt.h under nvcc: the CUDA runtime has nearly everything, what is left are launches and single PTX instructions.
#pragma once
#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/base/error.h"
#include "kernels/base/half.h"
#include "kernels/base/stream.h"

#define WEFT_UNROLL _Pragma("unroll")

#define WEFT_DYNAMIC_SHARED(T, name)                                    \
  extern __shared__ __align__(128) unsigned char weft_dynamic_shared[]; \
  T* const name = reinterpret_cast<T*>(weft_dynamic_shared)

namespace weft::cuda {

namespace detail {  // what Packs move through
using Word1 = uint8_t;
using Word2 = uint16_t;
using Word4 = uint32_t;
using Word8 = uint2;
using Word16 = uint4;
}  // namespace detail

// A launch in the order of `stream`. Throws invalid_argument where CUDA refuses the configuration; what goes wrong
// while the kernel runs surfaces at a later synchronisation.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, Stream stream,
            Arguments&&... arguments) {
  cudaError_t status = cudaSetDevice(stream.device.index);
  // Beyond 48 KiB a kernel has to be told that it may.
  if (status == cudaSuccess && shared_bytes > 48 * 1024)
    status = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  static_cast<int>(shared_bytes));
  if (status == cudaSuccess) {
    kernel<<<grid, block, shared_bytes, static_cast<cudaStream_t>(stream.native)>>>(
        static_cast<Parameters>(arguments)...);
    status = cudaGetLastError();
  }
  if (status == cudaSuccess) return;
  const char* name = nullptr;
  if (cudaFuncGetName(&name, reinterpret_cast<const void*>(kernel)) != cudaSuccess) name = "a kernel";
  fail(ErrorCode::invalid_argument, "launch",
       "{} of {} × {} × {} blocks of {} × {} × {} threads with {} bytes of shared memory: {} ({})", name, grid.x,
       grid.y, grid.z, block.x, block.y, block.z, shared_bytes, cudaGetErrorString(status), cudaGetErrorName(status));
}

__device__ __forceinline__ uint32_t shared_address(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

__device__ __forceinline__ void cp_async16(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(shared)), "l"(global) : "memory");
}
__device__ __forceinline__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int groups>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}

__device__ __forceinline__ void ldmatrix_x4(uint32_t (&r)[4], const void* shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(shared))
               : "memory");
}
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&r)[4], const void* shared) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(shared))
               : "memory");
}

__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                             TypeTag<BFloat16>) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ __forceinline__ void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2],
                                             TypeTag<Half>) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// The instructions make every NaN the same one; half.h keeps sign and payload, and so do these.
__device__ __forceinline__ float to_float(Half value) {
  const uint32_t bits = value.bits;
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return (bits & 0x7fffu) > 0x7c00u ? __uint_as_float((bits & 0x8000u) << 16 | 0x7fc00000u | (bits & 0x3ffu) << 13)
                                    : result;
}
__device__ __forceinline__ float to_float(BFloat16 value) {
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
}
__device__ __forceinline__ float to_float(Float8E4M3 value) { return value; }
__device__ __forceinline__ float to_float(Float8E5M2 value) { return value; }
__device__ __forceinline__ float to_float(float value) { return value; }

template <class T>
__device__ __forceinline__ T from_float(float value) {
  return T(value);
}
template <>
__device__ __forceinline__ Half from_float<Half>(float value) {
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  const auto nan = static_cast<uint16_t>(__float_as_uint(value) >> 31 << 15 | 0x7e00u);
  return Half::from_bits(value == value ? bits : nan);
}
template <>
__device__ __forceinline__ BFloat16 from_float<BFloat16>(float value) {
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  const auto nan = static_cast<uint16_t>(__float_as_uint(value) >> 16 | 0x40u);
  return BFloat16::from_bits(value == value ? bits : nan);
}

}  // namespace weft::cuda
