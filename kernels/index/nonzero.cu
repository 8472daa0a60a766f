// The positions of `true` on a device: count in each warp's piece, sum the counts up, write.
#include "kernels/base/device.h"
#include "kernels/base/device_memory.h"
#include "kernels/index/index_device.h"
#include "kernels/simt/simt.h"

namespace weft::WEFT_DEVICE {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int64_t kPiece = 512;  // flags of a warp

__device__ __forceinline__ int64_t own_piece() { return static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.y; }

__global__ void __launch_bounds__(kThreads) count_flags(const bool* flags, int64_t n, int64_t* counts) {
  const int64_t begin = own_piece() * kPiece;
  if (begin >= n) return;
  int64_t count = 0;
  for (int64_t i = begin; i < begin + kPiece && i < n; i += 32) {
    const bool flag = i + threadIdx.x < n && flags[i + threadIdx.x];
    count += __popc(__ballot_sync(0xffffffffu, flag));
  }
  if (threadIdx.x == 0) counts[own_piece()] = count;
}

// counts[i] becomes the sum of those before it, counts[pieces] that of all. One block.
__global__ void __launch_bounds__(kThreads) sum_counts(int64_t* counts, int64_t pieces) {
  __shared__ int64_t warp_sums[kWarps];
  int64_t before = 0;
  for (int64_t begin = 0; begin < pieces; begin += kThreads) {
    const int64_t at = begin + threadIdx.y * 32 + threadIdx.x;
    const int64_t own = at < pieces ? counts[at] : 0;
    int64_t sum = own;  // of the lanes up to this one
    for (int distance = 1; distance < 32; distance *= 2) {
      const int64_t other = __shfl_up_sync(0xffffffffu, sum, static_cast<unsigned>(distance));
      if (static_cast<int>(threadIdx.x) >= distance) sum += other;
    }
    if (threadIdx.x == 31) warp_sums[threadIdx.y] = sum;
    __syncthreads();
    int64_t total = 0;
    for (int warp = 0; warp < kWarps; ++warp) {
      if (warp < static_cast<int>(threadIdx.y)) sum += warp_sums[warp];
      total += warp_sums[warp];
    }
    if (at < pieces) counts[at] = before + sum - own;
    before += total;
    __syncthreads();
  }
  if (threadIdx.x == 0 && threadIdx.y == 0) counts[pieces] = before;
}

__global__ void __launch_bounds__(kThreads)
    write_positions(const bool* flags, int64_t n, const int64_t* offsets, int64_t* out) {
  const int64_t begin = own_piece() * kPiece;
  if (begin >= n) return;
  int64_t* to = out + offsets[own_piece()];
  for (int64_t i = begin; i < begin + kPiece && i < n; i += 32) {
    const bool flag = i + threadIdx.x < n && flags[i + threadIdx.x];
    const unsigned mask = __ballot_sync(0xffffffffu, flag);
    if (flag) to[__popc(mask & ((1u << threadIdx.x) - 1))] = i + threadIdx.x;
    to += __popc(mask);
  }
}

}  // namespace

int64_t nonzero(Stream stream, const bool* flags, int64_t n, int64_t* out) {
  if (n == 0) return 0;
  const int64_t pieces = (n + kPiece - 1) / kPiece;
  const ScratchBuffer counts(stream, (pieces + 1) * static_cast<int64_t>(sizeof(int64_t)));
  const dim3 grid(static_cast<unsigned>((pieces + kWarps - 1) / kWarps)), block(32, kWarps);
  launch(count_flags, grid, block, 0, stream, flags, n, counts.as<int64_t>());
  launch(sum_counts, dim3(1), block, 0, stream, counts.as<int64_t>(), pieces);
  if (out) launch(write_positions, grid, block, 0, stream, flags, n, counts.as<int64_t>(), out);
  int64_t total = 0;
  device_runtime(stream.device.type, "nonzero")
      .copy(stream, &total, Device::cpu(), counts.as<int64_t>() + pieces, stream.device, sizeof(total));
  return total;
}

}  // namespace weft::WEFT_DEVICE
