#include "distributed/profiler/limits.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "kernels/base/parallel.h"
#include "kernels/table.h"
#include "tensor/device.h"
#include "tensor/factory.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// The best rate that `work`, worth `amount`, reaches in the given time.
template <class F>
double best_rate(double amount, double seconds, F&& work) {
  work();
  double best = 0;
  for (const auto start = Clock::now(); seconds_since(start) < seconds;) {
    const auto begin = Clock::now();
    work();
    best = std::max(best, amount / seconds_since(begin));
  }
  return best;
}

}  // namespace

double gemm_limit_flops(double seconds) {
  constexpr int64_t n = 1024;
  const Tensor a = ones({n, n}), b = ones({n, n}), c = zeros({n, n});
  const GemmKernels& gemm = kernel_table(DeviceType::cpu, "gemm_limit").gemm;
  return best_rate(2.0 * n * n * n, seconds, [&] {
    gemm.gemm(Stream{}, DType::f32, false, false, n, n, n, 1, a.data(), n, b.data(), n, 0, c.data(), n);
  });
}

double gemm_limit_flops(Device device, DType dtype, double seconds) {
  if (device.type == DeviceType::cpu) return gemm_limit_flops(seconds);
  const int64_t n = device.type == DeviceType::cuda ? 8192 : 512;
  // Not zeros: a GPU multiplies those at a lower power and thus faster.
  const Tensor a = rand({n, n}).to(dtype).to(device), b = rand({n, n}).to(dtype).to(device);
  const Tensor c = zeros({n, n}, {.dtype = dtype, .device = device});
  const GemmKernels& gemm = kernel_table(device.type, "gemm_limit").gemm;
  const Stream stream = current_stream(device);
  return best_rate(2.0 * n * n * n, seconds, [&] {
    gemm.gemm(stream, dtype, false, false, n, n, n, 1, a.data(), n, b.data(), n, 0, c.data(), n);
    synchronize(stream);
  });
}

double memcpy_limit_bytes(double seconds) {
  constexpr int64_t bytes = int64_t{64} << 20;
  const Tensor from = zeros({bytes}, DType::u8), to = zeros({bytes}, DType::u8);
  return best_rate(static_cast<double>(bytes), seconds,
                   [&] { std::memcpy(to.data(), from.data(), static_cast<size_t>(bytes)); });
}

double transformer_step_flops(int64_t layers, int64_t width, int64_t inner, int64_t vocabulary, int64_t context,
                              int64_t tokens) {
  const double weights = static_cast<double>(layers * (4 * width * width + 2 * width * inner) + width * vocabulary);
  const double attention = static_cast<double>(layers * width * context);  // 2 products · context / 2 keys · width
  return 6 * static_cast<double>(tokens) * (weights + attention);
}

}  // namespace weft
