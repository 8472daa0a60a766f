// The emulator (kernels/simt) primitive by primitive: each against what CUDA's guide or the PTX manual says it does, in
// both orders of threads; then what it has to notice.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/base/parallel.h"
#include "kernels/simt/block_reduce.h"
#include "kernels/simt/emulator/config.h"
#include "kernels/simt/simt.h"

namespace weft::WEFT_DEVICE {
namespace {

const Stream stream{Device::simt()};
constexpr unsigned kAll = 0xffffffffu;

// Every test runs with threads in ascending and in descending order.
class Emulator : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { emulator::config().reversed = GetParam(); }
  void TearDown() override { emulator::config() = {}; }
};
INSTANTIATE_TEST_SUITE_P(Order, Emulator, testing::Bool(),
                         [](const auto& info) { return info.param ? "reversed" : "ascending"; });

// The text of the error that f throws.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}
void expect_error(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "expected \"" << part << "\" in: " << text;
}

// --- launches -----------------------------------------------------------------------------------------------------

__global__ void write_index(int* out, int width) {
  const unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  const unsigned z = blockIdx.z * blockDim.z + threadIdx.z;
  const unsigned height = gridDim.y * blockDim.y;
  out[(z * height + y) * static_cast<unsigned>(width) + x] += static_cast<int>(x + 100 * y + 10000 * z);
}

TEST_P(Emulator, EveryThreadRunsOnce) {
  const dim3 grid(3, 5, 2), block(8, 4, 3);
  std::vector<int> out(24 * 20 * 6);
  launch(write_index, grid, block, 0, stream, out.data(), 24u);  // converted to the parameter's type
  for (int z = 0; z < 6; ++z)
    for (int y = 0; y < 20; ++y)
      for (int x = 0; x < 24; ++x) ASSERT_EQ(out[static_cast<size_t>((z * 20 + y) * 24 + x)], x + 100 * y + 10000 * z);
}

__global__ void nothing() {}

TEST(EmulatorLaunch, RefusesWhatCudaRefuses) {
  expect_error(error_of([] { launch(nothing, dim3(1), dim3(1025), 0, stream); }), "at most 1024 threads");
  expect_error(error_of([] { launch(nothing, dim3(1), dim3(1, 1, 65), 0, stream); }), "64 along z");
  expect_error(error_of([] { launch(nothing, dim3(1, 65536), dim3(1), 0, stream); }), "65535");
  expect_error(error_of([] { launch(nothing, dim3(0), dim3(1), 0, stream); }), "nothing to run");
  expect_error(error_of([] { launch(nothing, dim3(1), dim3(1), 228 * 1024, stream); }), "232448");
  expect_error(error_of([] { launch(nothing, dim3(0), dim3(1), 0, stream); }), "simt_emulator_test.cpp:");
  launch(nothing, dim3(1), dim3(1024), 227 * 1024, stream);
}

__global__ void launches_another() { launch(nothing, dim3(1), dim3(1), 0, stream); }

TEST_P(Emulator, KernelsCannotLaunch) {
  expect_error(error_of([] { launch(launches_another, dim3(1), dim3(1), 0, stream); }), "a kernel cannot launch");
}

__global__ void throws_in_thread(int number) {
  __syncthreads();
  if (static_cast<int>(threadIdx.x) == number) throw std::range_error("from a kernel");
  __syncthreads();
}

TEST_P(Emulator, ExceptionsOfAKernelReachTheCaller) {
  for (int i = 0; i < 3; ++i)
    EXPECT_THROW(launch(throws_in_thread, dim3(20), dim3(96), 0, stream, 40), std::range_error);
  launch(throws_in_thread, dim3(20), dim3(96), 0, stream, -1);
}

// --- barriers and shared memory -------------------------------------------------------------------------------------

__global__ void reverse_block(const int* in, int* out) {
  __shared__ int tile[256];
  const unsigned at = blockIdx.x * blockDim.x;
  tile[threadIdx.x] = in[at + threadIdx.x];
  __syncthreads();
  out[at + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

TEST_P(Emulator, SharedMemoryAndBarrier) {
  std::vector<int> in(64 * 200), out(in.size());
  std::iota(in.begin(), in.end(), 0);
  launch(reverse_block, dim3(64), dim3(200), 0, stream, in.data(), out.data());
  for (size_t i = 0; i < in.size(); ++i) ASSERT_EQ(out[i], static_cast<int>(i / 200 * 200 + 199 - i % 200));
}

__global__ void dynamic_prefix(int* out, int n) {
  WEFT_DYNAMIC_SHARED(int, values);
  const int i = static_cast<int>(threadIdx.x);
  values[i] = 1;
  __syncthreads();
  for (int step = 1; step < n; step *= 2) {
    const int left = i >= step ? values[i - step] : 0;
    __syncthreads();
    values[i] += left;
    __syncthreads();
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = values[i];
}

TEST_P(Emulator, DynamicSharedMemory) {
  std::vector<int> out(4 * 1024);
  launch(dynamic_prefix, dim3(4), dim3(1024), 1024 * sizeof(int), stream, out.data(), 1024);
  for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], static_cast<int>(i % 1024) + 1);
}

__global__ void read_unwritten(float* out) {
  WEFT_DYNAMIC_SHARED(float, values);
  out[threadIdx.x] = values[threadIdx.x];
  values[threadIdx.x] = 1.0f;
}

TEST_P(Emulator, DynamicSharedMemoryBeginsAsNaN) {
  std::vector<float> out(64);
  for (int i = 0; i < 2; ++i) {
    launch(read_unwritten, dim3(1), dim3(64), 64 * sizeof(float), stream, out.data());
    for (float value : out) ASSERT_TRUE(std::isnan(value));
  }
}

__global__ void vote_block(int* out) {
  const unsigned i = threadIdx.x;
  int* mine = out + 5 * i;
  mine[0] = __syncthreads_count(i % 3 == 0);
  mine[1] = __syncthreads_and(i < 100);
  mine[2] = __syncthreads_and(i < 99);
  mine[3] = __syncthreads_or(i == 99);
  mine[4] = __syncthreads_or(i == 100);
}

TEST_P(Emulator, BarriersThatCount) {
  std::vector<int> out(500);
  launch(vote_block, dim3(1), dim3(100), 0, stream, out.data());
  for (size_t i = 0; i < 100; ++i)
    ASSERT_EQ(std::vector<int>(out.begin() + 5 * i, out.begin() + 5 * i + 5), (std::vector<int>{34, 1, 0, 1, 0}));
}

// A barrier counts the threads that are left.
__global__ void early_return(int* out) {
  if (threadIdx.x >= 40) return;
  out[threadIdx.x] = __syncthreads_count(1);
}

TEST_P(Emulator, ThreadsThatReturnedAreNotWaitedFor) {
  std::vector<int> out(40);
  launch(early_return, dim3(1), dim3(128), 0, stream, out.data());
  EXPECT_EQ(out, std::vector<int>(40, 40));
}

// --- warps ---------------------------------------------------------------------------------------------------------

template <class T>
__global__ void shuffles(T* out, int width) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const T value = static_cast<T>(threadIdx.x);
  T* mine = out + 4 * threadIdx.x;
  mine[0] = __shfl_sync(kAll, value, lane + 1, width);
  mine[1] = __shfl_xor_sync(kAll, value, 5, width);
  mine[2] = __shfl_up_sync(kAll, value, 3, width);
  mine[3] = __shfl_down_sync(kAll, value, 3, width);
}

template <class T>
void check_shuffles(int width) {
  std::vector<T> out(4 * 64);
  launch(shuffles<T>, dim3(1), dim3(64), 0, stream, out.data(), width);
  for (int i = 0; i < 64; ++i) {
    const int lane = i % 32, warp = i - lane, begin = lane / width * width, end = begin + width;
    const auto at = [&](int k) { return out[static_cast<size_t>(4 * i + k)]; };
    ASSERT_EQ(at(0), T(warp + begin + (lane + 1) % width)) << i << " " << width;
    ASSERT_EQ(at(1), T(warp + ((lane ^ 5) < end ? lane ^ 5 : lane))) << i << " " << width;
    ASSERT_EQ(at(2), T(warp + (lane - 3 >= begin ? lane - 3 : lane))) << i << " " << width;
    ASSERT_EQ(at(3), T(warp + (lane + 3 < end ? lane + 3 : lane))) << i << " " << width;
  }
}

TEST_P(Emulator, ShufflesOfEveryWidthAndType) {
  for (int width : {1, 2, 4, 8, 16, 32}) {
    check_shuffles<int>(width);
    check_shuffles<float>(width);
    check_shuffles<double>(width);
    check_shuffles<unsigned long long>(width);
  }
}

__global__ void shuffle_beyond(float* out) { out[threadIdx.x] = __shfl_down_sync(kAll, 1.0f, 4); }

TEST_P(Emulator, ALaneThatTakesNoPartGivesNaN) {
  std::vector<float> out(20);
  launch(shuffle_beyond, dim3(1), dim3(20), 0, stream, out.data());
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(std::isnan(out[i]), i >= 16) << i;
}

__global__ void votes(unsigned* out) {
  const unsigned lane = threadIdx.x % 32;
  unsigned* mine = out + 14 * threadIdx.x;
  mine[0] = __ballot_sync(kAll, lane % 3 == 0);
  mine[1] = static_cast<unsigned>(__any_sync(kAll, lane == 31));
  mine[2] = static_cast<unsigned>(__any_sync(kAll, lane == 32));
  mine[3] = static_cast<unsigned>(__all_sync(kAll, lane < 32));
  mine[4] = static_cast<unsigned>(__all_sync(kAll, lane < 31));
  mine[5] = __match_any_sync(kAll, lane / 8);
  mine[6] = __reduce_add_sync(kAll, lane);
  mine[7] = __reduce_max_sync(kAll, lane);
  mine[8] = static_cast<unsigned>(__reduce_min_sync(kAll, static_cast<int>(lane) - 40));
  mine[9] = __reduce_and_sync(kAll, lane | 64u);
  mine[10] = __reduce_or_sync(kAll, lane);
  mine[11] = __reduce_xor_sync(kAll, 1u << lane);
  mine[12] = static_cast<unsigned>(__reduce_add_sync(kAll, -1));
  mine[13] = static_cast<unsigned>(__reduce_max_sync(kAll, static_cast<int>(lane) - 40));
}

TEST_P(Emulator, VotesAndReductions) {
  std::vector<unsigned> out(14 * 64);
  launch(votes, dim3(1), dim3(64), 0, stream, out.data());
  for (size_t i = 0; i < 64; ++i) {
    const std::vector<unsigned> mine(out.begin() + 14 * i, out.begin() + 14 * i + 14);
    const std::vector<unsigned> expected = {
        0x49249249u, 1, 0, 1, 0, 0xffu << (i % 32 / 8 * 8), 496, 31, 0u - 40, 64, 31, kAll, 0u - 32, 0u - 9};
    ASSERT_EQ(mine, expected) << i;
  }
}

// Halves of a warp go different ways, each with its own mask, and meet again.
__global__ void half_warps(unsigned* out) {
  const unsigned lane = threadIdx.x % 32;
  unsigned sum;
  if (lane < 16) {
    sum = __reduce_add_sync(0x0000ffffu, lane);
    for (int i = 0; i < 3; ++i) __syncwarp(0x0000ffffu);
  } else {
    sum = __reduce_add_sync(0xffff0000u, lane);
  }
  __syncwarp();
  out[threadIdx.x] = sum + (__popc(__activemask()) << 16);
}

TEST_P(Emulator, HalvesOfAWarp) {
  std::vector<unsigned> out(96);
  launch(half_warps, dim3(1), dim3(96), 0, stream, out.data());
  for (size_t i = 0; i < 96; ++i) ASSERT_EQ(out[i], (i % 32 < 16 ? 120u : 376u) + 65536u);
}

// What one lane writes, the others read after __syncwarp.
__global__ void through_shared(int* out) {
  __shared__ int values[64];
  const unsigned i = threadIdx.x;
  values[i] = static_cast<int>(i);
  for (unsigned step = 1; step < 32; step *= 2) {
    __syncwarp();
    const int other = values[i ^ step];
    __syncwarp();
    values[i] += other;
  }
  out[i] = values[i];
}

TEST_P(Emulator, SyncwarpOrdersSharedMemory) {
  std::vector<int> out(64);
  launch(through_shared, dim3(1), dim3(64), 0, stream, out.data());
  for (size_t i = 0; i < 64; ++i) ASSERT_EQ(out[i], i < 32 ? 496 : 496 + 32 * 32);
}

// --- block_reduce.h ---------------------------------------------------------------------------------------------------

template <class T>
__global__ void reductions(const T* in, T* out) {
  const unsigned i = threadIdx.x + blockDim.x * threadIdx.y;
  const T value = in[i];
  T* mine = out + 4 * i;
  mine[0] = warp_sum(value);
  mine[1] = warp_max(value);
  mine[2] = block_sum(value);
  mine[3] = block_max(value);
  mine[2] += block_sum(value);
}

template <class T>
void check_reductions(dim3 block) {
  const size_t n = size_t{block.x} * block.y;
  std::vector<T> in(n), out(4 * n);
  std::mt19937 random(7);
  for (T& value : in) value = static_cast<T>(random() % 1000) - T(300);
  launch(reductions<T>, dim3(1), block, 0, stream, in.data(), out.data());
  const T sum = std::accumulate(in.begin(), in.end(), T(0)), largest = *std::max_element(in.begin(), in.end());
  for (size_t i = 0; i < n; ++i) {
    const auto warp = in.begin() + static_cast<ptrdiff_t>(i / 32 * 32);
    ASSERT_EQ(out[4 * i], std::accumulate(warp, warp + 32, T(0)));
    ASSERT_EQ(out[4 * i + 1], *std::max_element(warp, warp + 32));
    ASSERT_EQ(out[4 * i + 2], 2 * sum);
    ASSERT_EQ(out[4 * i + 3], largest);
  }
}

TEST_P(Emulator, SumsAndMaximaOfWarpsAndBlocks) {
  for (const dim3 block : {dim3(32), dim3(96), dim3(1024), dim3(32, 4)}) {
    check_reductions<float>(block);
    check_reductions<double>(block);
    check_reductions<int>(block);
  }
}

// The order of the additions is fixed: any order of threads gives the same bits.
TEST(EmulatorReduction, SameBitsInEveryOrder) {
  std::vector<float> in(512);
  std::mt19937 random(3);
  for (float& value : in) value = std::ldexp(static_cast<float>(random()), static_cast<int>(random() % 40) - 60);
  std::vector<float> out[2];
  for (size_t reversed : {0, 1}) {
    emulator::config().reversed = reversed != 0;
    out[reversed].resize(4 * in.size());
    launch(reductions<float>, dim3(1), dim3(512), 0, stream, in.data(), out[reversed].data());
  }
  emulator::config() = {};
  EXPECT_EQ(std::memcmp(out[0].data(), out[1].data(), out[0].size() * sizeof(float)), 0);
}

// --- atomics ------------------------------------------------------------------------------------------------------------

struct Counters {
  int i, largest, smallest;
  unsigned u, exchanged, locked, bits_and, bits_or, bits_xor;
  unsigned long long l;
  float f;
  double d;
};

__global__ void count(Counters* all, unsigned* before) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  before[i] = atomicAdd(&all->u, 1u);
  atomicAdd(&all->i, -2);
  atomicAdd(&all->l, 1ull << 33);
  atomicAdd(&all->f, 0.5f);
  atomicAdd(&all->d, 0.25);
  atomicMax(&all->largest, static_cast<int>(i));
  atomicMin(&all->smallest, -static_cast<int>(i));
  atomicExch(&all->exchanged, 77u);
  while (atomicCAS(&all->locked, i, i + 1) < i && gridDim.x == 1 && blockDim.x == 1) {
  }
  atomicAnd(&all->bits_and, ~(1u << (i % 8)));
  atomicOr(&all->bits_or, 1u << (i % 8));
  atomicXor(&all->bits_xor, 1u << (i % 8));
}

TEST_P(Emulator, AtomicsFromManyBlocks) {
  Counters all{};
  all.bits_and = 0xfffu;
  std::vector<unsigned> before(256 * 64);
  launch(count, dim3(256), dim3(64), 0, stream, &all, before.data());
  const auto n = static_cast<unsigned>(before.size());
  EXPECT_EQ(all.u, n);
  EXPECT_EQ(all.i, -2 * static_cast<int>(n));
  EXPECT_EQ(all.l, static_cast<unsigned long long>(n) << 33);
  EXPECT_EQ(all.f, 0.5f * static_cast<float>(n));
  EXPECT_EQ(all.d, 0.25 * n);
  EXPECT_EQ(all.largest, static_cast<int>(n) - 1);
  EXPECT_EQ(all.smallest, 1 - static_cast<int>(n));
  EXPECT_EQ(all.exchanged, 77u);
  EXPECT_GE(all.locked, 1u);
  EXPECT_EQ(all.bits_and, 0xf00u);
  EXPECT_EQ(all.bits_or, 0xffu);
  EXPECT_EQ(all.bits_xor, 0u);
  std::sort(before.begin(), before.end());
  for (unsigned i = 0; i < n; ++i) ASSERT_EQ(before[i], i);
}

// The last block to finish sees what all others wrote.
__global__ void last_block(const int* in, int* partial, unsigned* finished, int* out) {
  __shared__ bool last;
  const int sum = block_sum(in[blockIdx.x * blockDim.x + threadIdx.x]);
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sum;
    __threadfence();
    last = atomicAdd(finished, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last || threadIdx.x != 0) return;
  __threadfence();
  int all = 0;
  for (unsigned b = 0; b < gridDim.x; ++b) all += partial[b];
  *out = all;
}

TEST_P(Emulator, TheLastBlockSeesTheOthers) {
  std::vector<int> in(500 * 64, 3), partial(500);
  for (int i = 0; i < 5; ++i) {
    unsigned finished = 0;
    int out = 0;
    launch(last_block, dim3(500), dim3(64), 0, stream, in.data(), partial.data(), &finished, &out);
    ASSERT_EQ(out, 3 * 500 * 64);
  }
}

// --- packs and conversions -------------------------------------------------------------------------------------------------

template <class T, int n>
__global__ void double_packs(const T* in, T* out) {
  const unsigned at = threadIdx.x * n;
  auto pack = load_pack<n>(in + at);
  for (int e = 0; e < n; ++e) pack[e] = from_float<T>(2 * to_float(pack[e]));
  store_pack(out + at, pack);
}

template <class T, int n>
void check_packs() {
  static_assert(sizeof(Pack<T, n>) == sizeof(T) * n &&
                alignof(Pack<T, n>) == (sizeof(T) * n < 16 ? sizeof(T) * n : 16));
  alignas(16) T in[32 * n], out[32 * n];
  for (int i = 0; i < 32 * n; ++i) in[i] = T(static_cast<float>(i % 9));
  launch(double_packs<T, n>, dim3(1), dim3(32), 0, stream, in, out);
  for (int i = 0; i < 32 * n; ++i) ASSERT_EQ(static_cast<float>(out[i]), 2.0f * static_cast<float>(i % 9));
}

TEST_P(Emulator, Packs) {
  check_packs<float, 1>();
  check_packs<float, 2>();
  check_packs<float, 4>();
  check_packs<float, 8>();
  check_packs<Half, 8>();
  check_packs<BFloat16, 2>();
  check_packs<BFloat16, 16>();
  check_packs<Float8E5M2, 16>();
}

// --- asynchronous copies -----------------------------------------------------------------------------------------------------

// A pipeline of two stages: while one is used the next one is on its way.
template <bool wait>
__global__ void pipeline(const float* in, float* out, int stages) {
  WEFT_DYNAMIC_SHARED(float, buffers);  // [2][128]
  const unsigned i = threadIdx.x;
  const auto start = [&](int stage) {
    if (stage < stages) cp_async16(buffers + stage % 2 * 128 + i * 4, in + stage * 128 + i * 4);
    cp_async_commit();
  };
  start(0);
  for (int stage = 0; stage < stages; ++stage) {
    start(stage + 1);
    if (wait) cp_async_wait<1>();
    __syncthreads();
    for (int e = 0; e < 4; ++e) out[stage * 128 + i * 4 + e] = buffers[stage % 2 * 128 + (31 - i) * 4 + e];
    __syncthreads();
  }
}

TEST_P(Emulator, AsynchronousCopies) {
  alignas(16) float in[8 * 128], out[8 * 128];
  for (int i = 0; i < 8 * 128; ++i) in[i] = static_cast<float>(i);
  launch(pipeline<true>, dim3(1), dim3(32), 1024, stream, in, out, 8);
  for (int i = 0; i < 8 * 128; ++i)
    ASSERT_EQ(out[i], static_cast<float>(i / 128 * 128 + (31 - i % 128 / 4) * 4 + i % 4)) << i;
}

TEST_P(Emulator, WithoutTheWaitTheTargetIsNaN) {
  alignas(16) float in[8 * 128] = {}, out[8 * 128];
  launch(pipeline<false>, dim3(1), dim3(32), 1024, stream, in, out, 8);
  for (float value : out) ASSERT_TRUE(std::isnan(value));
}

__global__ void misaligned_copy(const float* in) {
  WEFT_DYNAMIC_SHARED(float, buffer);
  cp_async16(buffer + 1, in);
}

TEST_P(Emulator, AsynchronousCopiesNeedAlignment) {
  alignas(16) float in[4] = {};
  expect_error(error_of([&] { launch(misaligned_copy, dim3(1), dim3(1), 64, stream, in); }), "misaligned address");
}

// --- matrices -------------------------------------------------------------------------------------------------------------

// d = a · b + c with the operands placed as PTX's tables say.
template <class T>
__global__ void multiply(const T* a, const T* b, const float* c, float* d) {
  const unsigned g = threadIdx.x / 4, t = threadIdx.x % 4 * 2;
  const auto pair = [](T low, T high) { return low.bits | static_cast<uint32_t>(high.bits) << 16; };
  uint32_t left[4], right[2];
  for (unsigned r = 0; r < 4; ++r) {
    const T* from = a + (g + r % 2 * 8) * 16 + t + r / 2 * 8;
    left[r] = pair(from[0], from[1]);
  }
  for (unsigned r = 0; r < 2; ++r) right[r] = pair(b[(t + r * 8) * 8 + g], b[(t + r * 8 + 1) * 8 + g]);
  float sums[4];
  for (unsigned i = 0; i < 4; ++i) sums[i] = c[(g + i / 2 * 8) * 8 + t + i % 2];
  mma_m16n8k16(sums, left, right, TypeTag<T>{});
  for (unsigned i = 0; i < 4; ++i) d[(g + i / 2 * 8) * 8 + t + i % 2] = sums[i];
}

template <class T>
void check_multiply(float scale) {
  std::vector<T> a(16 * 16), b(16 * 8);
  std::vector<float> c(16 * 8), d(16 * 8);
  std::mt19937 random(11);
  std::uniform_real_distribution<float> values(-scale, scale);
  for (T& value : a) value = T(values(random));
  for (T& value : b) value = T(values(random));
  for (float& value : c) value = values(random);
  launch(multiply<T>, dim3(1), dim3(32), 0, stream, a.data(), b.data(), c.data(), d.data());
  for (size_t i = 0; i < 16; ++i) {
    for (size_t j = 0; j < 8; ++j) {
      double sum = c[i * 8 + j], size = std::abs(c[i * 8 + j]);
      for (size_t k = 0; k < 16; ++k) {
        const double product =
            static_cast<double>(static_cast<float>(a[i * 16 + k])) * static_cast<float>(b[k * 8 + j]);
        sum += product;
        size += std::abs(product);
      }
      ASSERT_NEAR(d[i * 8 + j], sum, 1e-6 * size) << i << " " << j;
    }
  }
}

TEST_P(Emulator, TensorCoreProducts) {
  check_multiply<BFloat16>(3);
  check_multiply<Half>(3);
  check_multiply<Half>(1e-5f);  // subnormal
}

TEST_P(Emulator, TensorCoresKeepEveryHalf) {
  // Row 0 of b is the identity's: d[i][0] = a[i][0].
  for (uint32_t bits = 0; bits < 65536; bits += 16) {
    std::vector<Half> a(16 * 16), b(16 * 8);
    std::vector<float> c(16 * 8), d(16 * 8);
    for (uint32_t i = 0; i < 16; ++i) a[i * 16] = Half::from_bits(static_cast<uint16_t>(bits + i));
    b[0] = Half(1.0f);
    launch(multiply<Half>, dim3(1), dim3(32), 0, stream, a.data(), b.data(), c.data(), d.data());
    for (uint32_t i = 0; i < 16; ++i) {
      const float expected = a[i * 16];
      if (std::isnan(expected))
        ASSERT_TRUE(std::isnan(d[i * 8]));
      else
        ASSERT_EQ(d[i * 8], expected);
    }
  }
}

template <bool transposed>
__global__ void load_matrices(const uint16_t* in, uint32_t* out) {
  WEFT_DYNAMIC_SHARED(uint16_t, tile);  // four matrices below each other, rows 16 elements apart
  for (unsigned e = 0; e < 8; ++e) tile[threadIdx.x * 16 + e] = in[threadIdx.x * 8 + e];
  __syncwarp();
  uint32_t r[4];
  if (transposed)
    ldmatrix_x4_trans(r, tile + threadIdx.x * 16);
  else
    ldmatrix_x4(r, tile + threadIdx.x * 16);
  for (unsigned m = 0; m < 4; ++m) out[threadIdx.x * 4 + m] = r[m];
}

TEST_P(Emulator, MatrixLoads) {
  std::vector<uint16_t> in(4 * 64);
  std::iota(in.begin(), in.end(), uint16_t{0});
  std::vector<uint32_t> plain(128), transposed(128);
  launch(load_matrices<false>, dim3(1), dim3(32), 1024, stream, in.data(), plain.data());
  launch(load_matrices<true>, dim3(1), dim3(32), 1024, stream, in.data(), transposed.data());
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t m = 0; m < 4; ++m) {
      const uint32_t i = lane / 4, j = lane % 4 * 2;
      const auto element = [&](uint32_t row, uint32_t column) { return 64 * m + 8 * row + column; };
      ASSERT_EQ(plain[lane * 4 + m], element(i, j) | element(i, j + 1) << 16);
      ASSERT_EQ(transposed[lane * 4 + m], element(j, i) | element(j + 1, i) << 16);
    }
  }
}

__global__ void multiply_in_part() {
  float d[4] = {};
  const uint32_t a[4] = {}, b[2] = {};
  mma_m16n8k16(d, a, b, TypeTag<Half>{});
}

TEST_P(Emulator, MatrixOperationsNeedAWholeWarp) {
  expect_error(error_of([] { launch(multiply_in_part, dim3(1), dim3(40), 0, stream); }), "needs all 32 lanes");
}

// --- arithmetic -----------------------------------------------------------------------------------------------------------------

__global__ void arithmetic(unsigned long long* out) {
  out[0] = static_cast<unsigned long long>(__popc(0xf0f0u) + __ffs(8) * 100 + __clz(1) * 10000);
  out[1] = __brev(1u) + __umulhi(0x80000000u, 6u);
  out[2] = __umul64hi(1ull << 63, 10);
  out[3] = __float_as_uint(-2.0f);
  out[4] = static_cast<unsigned long long>(1000 * (rsqrtf(16.0f) + __expf(0.0f) + __fdividef(3.0f, 2.0f)));
  out[5] = static_cast<unsigned long long>(__float2int_rn(2.5f) + min(3, 4) + max(5, 6));
}

TEST_P(Emulator, Arithmetic) {
  std::vector<unsigned long long> out(6);
  launch(arithmetic, dim3(1), dim3(1), 0, stream, out.data());
  EXPECT_EQ(out, (std::vector<unsigned long long>{310408, 0x80000003u, 5, 0xc0000000u, 2750, 11}));
}

// --- errors ----------------------------------------------------------------------------------------------------------------------

__global__ void wait_for_half(int* out) {
  if (threadIdx.x % 2 == 0) __shfl_sync(kAll, 1, 0);
  __syncthreads();
  out[threadIdx.x] = 1;
}

TEST_P(Emulator, Deadlock) {
  std::vector<int> out(64);
  for (int i = 0; i < 3; ++i) {
    const std::string text = error_of([&] { launch(wait_for_half, dim3(8), dim3(64), 0, stream, out.data()); });
    expect_error(text, "deadlock");
    expect_error(text, "a shuffle at");
    expect_error(text, "__syncthreads at");
    expect_error(text, "simt_emulator_test.cpp:");
  }
  // The emulator is as good as new.
  launch(reverse_block, dim3(1), dim3(64), 0, stream, std::vector<int>(64).data(), out.data());
}

__global__ void two_barriers(int* line) {
  if (threadIdx.x < 32) {
    line[0] = __LINE__ + 1;
    __syncthreads();
  } else {
    line[1] = __LINE__ + 1;
    __syncthreads();
  }
}

TEST_P(Emulator, DivergentBarrierNamesBothLines) {
  int line[2];
  const std::string text = error_of([&] { launch(two_barriers, dim3(1), dim3(64), 0, stream, line); });
  expect_error(text, "divergent barrier");
  expect_error(text, fmt::format("simt_emulator_test.cpp:{}", line[0]));
  expect_error(text, fmt::format("simt_emulator_test.cpp:{}", line[1]));
}

__global__ void different_masks() {
  if (threadIdx.x < 8)
    __syncwarp(0x0000ffffu);
  else
    __syncwarp(0xffffffffu);
}
__global__ void different_operations() {
  if (threadIdx.x < 16)
    __syncwarp();
  else
    __any_sync(kAll, 1);
}
__global__ void left_out() { __syncwarp(0xfffffffeu); }

TEST_P(Emulator, MasksThatDoNotFit) {
  expect_error(error_of([] { launch(different_masks, dim3(1), dim3(32), 0, stream); }), "mask mismatch");
  const std::string text = error_of([] { launch(different_operations, dim3(1), dim3(32), 0, stream); });
  expect_error(text, "__syncwarp");
  expect_error(text, "a vote");
  expect_error(error_of([] { launch(left_out, dim3(1), dim3(32), 0, stream); }), "leaves out its lane 0");
}

// In either order of threads some lane is waited for that has gone.
__global__ void return_early() {
  if (threadIdx.x == 0 || threadIdx.x == 31) return;
  __shfl_xor_sync(kAll, 1, 1);
}

TEST_P(Emulator, ExitedLane) {
  const std::string text = error_of([] { launch(return_early, dim3(1), dim3(32), 0, stream); });
  expect_error(text, "exited lane");
  expect_error(text, "whose thread has returned");
}

__global__ void fail_in(unsigned block) {
  if (blockIdx.x == block) {
    if (threadIdx.x == 0) __syncwarp(2u);
  }
}

TEST_P(Emulator, AnErrorNamesItsBlock) {
  expect_error(error_of([] { launch(fail_in, dim3(100), dim3(32), 0, stream, 37u); }), "in block (37, 0, 0)");
}

// --- host threads -------------------------------------------------------------------------------------------------------------------

TEST_P(Emulator, SeveralHostThreadsLaunchAtOnce) {
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&wrong, t] {
      for (int i = 0; i < 20; ++i) {
        std::vector<int> in(16 * 128, t + i), partial(16);
        unsigned finished = 0;
        int out = 0;
        launch(last_block, dim3(16), dim3(128), 0, stream, in.data(), partial.data(), &finished, &out);
        wrong += out != (t + i) * 16 * 128;
        wrong += error_of([] { launch(left_out, dim3(9), dim3(96), 0, stream); }) == "no error";
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(Emulator, LaunchesInsideTheTilesOfAnotherLoop) {
  std::vector<int> sums(16);
  parallel_for(16, 1, [&](int64_t begin, int64_t) {
    std::vector<int> in(64, static_cast<int>(begin)), partial(1);
    unsigned finished = 0;
    launch(last_block, dim3(1), dim3(64), 0, stream, in.data(), partial.data(), &finished,
           &sums[static_cast<size_t>(begin)]);
  });
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(sums[i], static_cast<int>(64 * i));
}

// Frames of kernels need room, and every thread's stack keeps its own.
__global__ void deep_frames(int* out) {
  volatile int frame[4096];
  for (int i = 0; i < 4096; ++i) frame[i] = static_cast<int>(threadIdx.x);
  __syncthreads();
  int wrong = 0;
  for (int i = 0; i < 4096; ++i) wrong += frame[i] != static_cast<int>(threadIdx.x);
  out[threadIdx.x] = wrong;
}

TEST_P(Emulator, EveryThreadHasItsStack) {
  std::vector<int> out(256, -1);
  launch(deep_frames, dim3(1), dim3(256), 0, stream, out.data());
  EXPECT_EQ(out, std::vector<int>(256, 0));
}

}  // namespace
}  // namespace weft::WEFT_DEVICE
