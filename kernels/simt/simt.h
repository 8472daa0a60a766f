// The language of a .cu file. One source, two compilers: nvcc makes GPU code of it (WEFT_DEVICE is `cuda`), the host
// compiler makes code that runs on the CPU in our emulator (WEFT_DEVICE is `simt`).
//
//   #include "kernels/simt/simt.h"
//   namespace weft::WEFT_DEVICE {
//   __global__ void scale(const float* __restrict__ x, float* y, int64_t n, float factor) {
//     const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
//     if (i < n) y[i] = x[i] * factor;
//   }
//   void run(Stream stream, const float* x, float* y, int64_t n) {
//     launch(scale, dim3((n + 255) / 256), dim3(256), 0, stream, x, y, n, 2.0f);
//   }
//   }
//
// What a kernel may use, the same on both sides:
//
//   CUDA's own          __global__ __device__ __host__ __shared__ __constant__ __launch_bounds__ __forceinline__
//                       __restrict__, threadIdx blockIdx blockDim gridDim warpSize, dim3, float2 float4 int2 int4 uint2
//                       uint4 … with make_float4 …, __syncthreads _count _and _or, __syncwarp, __shfl_sync _xor _up
//                       _down, __ballot_sync __any_sync __all_sync __match_any_sync __reduce_add_sync _max _min _and _or
//                       _xor, __activemask, atomicAdd Sub Max Min Exch CAS And Or Xor, __threadfence, __ldg, __expf
//                       __logf __powf __sinf __cosf __fdividef rsqrtf, __popc __ffs __clz __brev (and ll), __umulhi
//                       __umul64hi, __float_as_uint and its kin, min max, and the C functions of <cmath>
//   launch(kernel, grid, block, shared_bytes, stream, arguments…)
//                       the arguments are converted to the kernel's parameters; throws weft::Error where the launch is
//                       impossible and, in the emulator, where the kernel did something wrong
//   WEFT_DYNAMIC_SHARED(T, name);
//                       T* name: the launch's `shared_bytes` of shared memory, 128-byte aligned
//   WEFT_UNROLL         before a loop that must be unrolled, so that its arrays stay in registers
//   cp_async16(shared, global), cp_async_commit(), cp_async_wait<n>()
//                       copy 16 bytes to shared memory in the background; close a group of such copies; wait until
//                       all of this thread's groups but the last n have landed
//   ldmatrix_x4(r, shared), ldmatrix_x4_trans(r, shared)
//                       four 8×8 matrices of 16-bit elements into a warp's registers (PTX ldmatrix)
//   mma_m16n8k16(d, a, b, TypeTag<BFloat16>{} or TypeTag<Half>{})
//                       d += a · b on tensor cores: [16, 16] · [16, 8] in f32, spread over a warp as PTX's mma has it
//   to_float(x), from_float<T>(f)
//                       between float and Half, BFloat16, Float8E4M3, Float8E5M2: the bits of kernels/base/half.h
//   load_pack<n>(pointer), store_pack(pointer, pack)
//                       n neighbours in one access (kernels/simt/pack.h)
//
// kernels/simt/block_reduce.h has sums and maxima over warps and blocks, kernels/simt/row.h loops over rows. Include
// this header in .cu files and the headers that only they use: on the host side it brings macros.
#pragma once
#include <cmath>
#include <cstddef>
#include <cstdint>

#if defined(__CUDACC__)
#ifndef WEFT_DEVICE
#define WEFT_DEVICE cuda
#endif
#include "kernels/simt/cuda_side.h"
#else
#ifndef WEFT_DEVICE
#define WEFT_DEVICE simt
#endif
#include "kernels/simt/emulator_side.h"
#endif

#include "kernels/simt/pack.h"
