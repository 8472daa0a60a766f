// The emulator's device: memory, streams, events, captured graphs, and the calls that the CPU's libraries serve.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "autograd/ops/ops.h"
#include "kernels/base/device.h"
#include "kernels/base/error.h"
#include "kernels/table.h"
#include "tensor/device.h"
#include "tensor/factory.h"
#include "tests/kernels/device_test.h"

namespace weft {
namespace {

const DeviceRuntime& runtime() { return device_runtime(DeviceType::simt, "test"); }
const KernelTable& kernels() { return kernel_table(DeviceType::simt, "test"); }

std::string error_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

// Memory of the device that goes with the scope.
struct Floats {
  explicit Floats(int64_t count) : data(static_cast<float*>(runtime().allocate(Device::simt(), count * 4))) {}
  ~Floats() { runtime().free(Device::simt(), data); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  float* data;
};

void fill(Stream stream, float* data, int64_t count, double value) {
  kernels().copy.fill(stream, f32, data, count, value);
}

TEST(SimtRuntime, OneDeviceThatSaysWhatItIs) {
  EXPECT_EQ(device_count(DeviceType::simt), 1);
  const DeviceInfo info = runtime().info(Device::simt());
  EXPECT_GT(info.memory_bytes, 0);
  EXPECT_GE(info.multiprocessors, 1);
  EXPECT_EQ(info.compute_major, 9);
}

TEST(SimtRuntime, MemoryIsAlignedAndCopiesGoBothWays) {
  const Floats memory(1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data) % 256, 0u);
  std::vector<float> from(1000), to(1000);
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<float>(i);
  const Stream stream{Device::simt()};
  runtime().copy(stream, memory.data, Device::simt(), from.data(), cpu_device, 4000);
  runtime().copy(stream, to.data(), cpu_device, memory.data, Device::simt(), 4000);
  runtime().synchronize(stream);
  EXPECT_EQ(to, from);
}

TEST(SimtRuntime, EventsKeepTimeAndOrder) {
  const Device device = Device::simt();
  DeviceStream one(device), two(device);
  Event begin(device, true), end(device, true), untimed(device);
  EXPECT_NE(error_of([&] { end.elapsed_ms(begin); }).find("not been recorded"), std::string::npos);
  begin.record(one);
  const Floats memory(1 << 16);
  for (int i = 0; i < 10; ++i) fill(one, memory.data, 1 << 16, i);
  end.record(one);
  end.wait(two);
  EXPECT_TRUE(end.done());
  end.synchronize();
  EXPECT_GT(end.elapsed_ms(begin), 0);
  untimed.record(two);
  EXPECT_NE(error_of([&] { untimed.elapsed_ms(begin); }).find("without timing"), std::string::npos);
}

TEST(SimtRuntime, GraphReplaysLaunchesLibraryCallsAndCopies) {
  const Stream stream{Device::simt(), runtime().create_stream(Device::simt())};
  const Floats x(4), square(4);
  auto* host = static_cast<float*>(runtime().allocate_pinned(16));
  fill(stream, x.data, 4, 1);
  fill(stream, square.data, 4, -1);
  runtime().begin_capture(stream);
  EXPECT_TRUE(runtime().is_capturing(stream));
  kernels().gemm.gemm(stream, f32, false, false, 2, 2, 2, 1, x.data, 2, x.data, 2, 0, square.data, 2);
  runtime().copy(stream, host, cpu_device, square.data, Device::simt(), 16);
  fill(stream, x.data, 4, 3);
  void* graph = runtime().end_capture(stream);
  EXPECT_FALSE(runtime().is_capturing(stream));
  EXPECT_EQ(square.data[0], -1) << "a capture runs nothing";
  EXPECT_EQ(x.data[0], 1);

  runtime().launch_graph(stream, graph);
  EXPECT_EQ(host[3], 2);
  runtime().launch_graph(stream, graph);
  EXPECT_EQ(host[3], 18) << "the second replay reads what the first one left";
  fill(stream, x.data, 4, 5);
  runtime().launch_graph(stream, graph);
  EXPECT_EQ(host[0], 50) << "a replay reads the memory as it is then";
  runtime().destroy_graph(Device::simt(), graph);
  runtime().free_pinned(host);
  runtime().destroy_stream(stream);
}

TEST(SimtRuntime, AGraphMayLaunchAnother) {
  const Stream stream{Device::simt(), runtime().create_stream(Device::simt())};
  const Floats x(1), y(1);
  runtime().begin_capture(stream);
  fill(stream, x.data, 1, 7);
  void* inner = runtime().end_capture(stream);
  fill(stream, x.data, 1, 0);
  runtime().begin_capture(stream);
  runtime().launch_graph(stream, inner);
  runtime().copy(stream, y.data, Device::simt(), x.data, Device::simt(), 4);
  void* outer = runtime().end_capture(stream);
  EXPECT_EQ(x.data[0], 0);
  runtime().launch_graph(stream, outer);
  EXPECT_EQ(y.data[0], 7);
  runtime().destroy_graph(Device::simt(), outer);
  runtime().destroy_graph(Device::simt(), inner);
  runtime().destroy_stream(stream);
}

TEST(SimtRuntime, AStreamJoinsACaptureByAnEvent) {
  const Device device = Device::simt();
  const Stream main{device, runtime().create_stream(device)}, side{device, runtime().create_stream(device)};
  void* fork = runtime().create_event(device, false);
  void* join = runtime().create_event(device, false);
  const Floats x(1), y(1);
  x.data[0] = y.data[0] = 0;
  runtime().begin_capture(main);
  fill(main, x.data, 1, 2);
  runtime().record_event(main, fork);
  runtime().wait_event(side, fork);
  EXPECT_TRUE(runtime().is_capturing(side));
  runtime().copy(side, y.data, device, x.data, device, 4);
  runtime().record_event(side, join);
  EXPECT_FALSE(runtime().query_event(device, join));
  runtime().wait_event(main, join);
  void* graph = runtime().end_capture(main);
  EXPECT_FALSE(runtime().is_capturing(side));
  EXPECT_TRUE(runtime().query_event(device, join));
  EXPECT_EQ(y.data[0], 0);
  runtime().launch_graph(main, graph);
  EXPECT_EQ(y.data[0], 2);
  runtime().destroy_graph(device, graph);

  // The same without the join.
  runtime().begin_capture(main);
  runtime().record_event(main, fork);
  runtime().wait_event(side, fork);
  fill(side, y.data, 1, 9);
  EXPECT_NE(error_of([&] { runtime().end_capture(main); }).find("nobody waits for"), std::string::npos);
  EXPECT_FALSE(runtime().is_capturing(side)) << "a failed capture lets its streams go";
  runtime().destroy_event(device, fork);
  runtime().destroy_event(device, join);
  runtime().destroy_stream(side);
  runtime().destroy_stream(main);
}

// What a GPU refuses while it captures, the emulator refuses too, so that a program that works here works there.
TEST(SimtRuntime, ForbiddenInACapture) {
  const Device device = Device::simt();
  const Stream stream{device, runtime().create_stream(device)}, other{device, runtime().create_stream(device)};
  const Floats x(4);
  float host[4] = {};
  void* event = runtime().create_event(device, false);
  runtime().record_event(other, event);
  const auto fails = [&](const std::function<void()>& call, const std::string& text) {
    runtime().begin_capture(stream);
    EXPECT_NE(error_of(call).find(text), std::string::npos) << error_of(call);
    EXPECT_NE(error_of([&] { runtime().end_capture(stream); }).find("could not be captured"), std::string::npos);
  };
  fails([&] { runtime().synchronize(stream); }, "cannot be waited for");
  fails([&] { runtime().copy(stream, host, cpu_device, x.data, device, 16); }, "use empty_pinned");
  fails([&] { runtime().copy(stream, x.data, device, host, cpu_device, 16); }, "use empty_pinned");
  fails([&] { runtime().wait_event(stream, event); }, "outside the capture");
  EXPECT_NE(error_of([&] { runtime().end_capture(stream); }).find("not being captured"), std::string::npos);
  runtime().destroy_event(device, event);
  runtime().destroy_stream(other);
  runtime().destroy_stream(stream);
}

TEST(SimtRuntime, TensorsGraphAndPinnedMemory) {
  const Device device = Device::simt();
  const Tensor x = full({3}, 2, {.device = device});
  DeviceGraph graph(device);
  Tensor y;
  graph.capture([&] { y = x * x + 1; });
  graph.replay();
  synchronize(device);
  EXPECT_EQ(y.to(cpu_device).to_vector(), (std::vector<double>{5, 5, 5}));
  const Tensor host = empty_pinned({3}, f32, device);
  copy_async(full({3}, 4, {.device = device}), x);
  graph.replay();
  copy_async(y, host);
  synchronize(device);
  EXPECT_EQ(host.to_vector(), (std::vector<double>{17, 17, 17}));
}

TEST(SimtLibraries, HalfProductsAreF32ProductsRoundedOnce) {
  const int64_t m = 5, n = 7, k = 33, batch = 3;
  for (const DType dtype : {bf16, f16}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        const Tensor a = randn({batch, m, k}).to(dtype), b = randn({k, n}).to(dtype),
                     c = randn({batch, m, n}).to(dtype);
        const Tensor x = a.to(f32), y = b.to(f32), sum = c.to(f32).clone(), got = c.clone();
        const int64_t lda = transpose_a ? m : k, ldb = transpose_b ? k : n;
        cpu::gemm_kernels.gemm_batched({}, f32, transpose_a, transpose_b, m, n, k, 0.5, x.data(), lda, m * k, y.data(),
                                       ldb, 0, 2.0, sum.data(), n, m * n, batch);
        kernels().gemm.gemm_batched({Device::simt()}, dtype, transpose_a, transpose_b, m, n, k, 0.5, a.data(), lda,
                                    m * k, b.data(), ldb, 0, 2.0, got.data(), n, m * n, batch);
        EXPECT_EQ(got.to_vector(), sum.to(dtype).to_vector());
      }
    }
  }
}

TEST(SimtLibraries, ProductsOfNoDepth) {
  for (const DType dtype : {f32, bf16}) {
    const Tensor c = full({2, 3}, 4, dtype), bias = arange(3).to(dtype);
    const Stream stream{Device::simt()};
    kernels().gemm.gemm(stream, dtype, false, false, 2, 3, 0, 1, nullptr, 1, nullptr, 3, 0.5, c.data(), 3);
    EXPECT_EQ(c.to_vector(), std::vector<double>(6, 2));
    kernels().gemm.gemm_bias(stream, dtype, false, false, 2, 3, 0, 1, nullptr, 1, nullptr, 3, bias.data(), c.data(), 3);
    EXPECT_EQ(c.to_vector(), (std::vector<double>{0, 1, 2, 0, 1, 2}));
    kernels().gemm.gemm(stream, dtype, false, false, 2, 3, 0, 1, nullptr, 1, nullptr, 3, 0, c.data(), 3);
    EXPECT_EQ(c.to_vector(), std::vector<double>(6, 0));
  }
}

TEST(SimtLibraries, HalfConvolution) {
  Conv2dShape shape;
  shape.batch = 2;
  shape.in_channels = 4;
  shape.in_height = shape.in_width = 6;
  shape.out_channels = 6;
  shape.kernel_height = shape.kernel_width = 3;
  shape.padding_height = shape.padding_width = 1;
  shape.groups = 2;
  const Tensor x = randn({2, 4, 6, 6}).to(bf16), w = randn({6, 2, 3, 3}).to(bf16), b = randn({6}).to(bf16);
  const Tensor xf = x.to(f32), wf = w.to(f32), bf = b.to(f32), yf = empty({2, 6, 6, 6}), y = empty({2, 6, 6, 6}, bf16);
  const Stream stream{Device::simt()};
  cpu::conv_kernels.conv2d_forward({}, f32, shape, xf.data(), wf.data(), bf.data(), yf.data());
  kernels().conv.conv2d_forward(stream, bf16, shape, x.data(), w.data(), b.data(), y.data());
  EXPECT_EQ(y.to_vector(), yf.to(bf16).to_vector());

  const Tensor yr = y.to(f32), dwf = empty({6, 2, 3, 3}), dbf = empty({6}), dw = empty({6, 2, 3, 3}, bf16);
  const Tensor db = empty({6}, bf16), dxf = empty({2, 4, 6, 6}), dx = empty({2, 4, 6, 6}, bf16);
  cpu::conv_kernels.conv2d_backward_weight({}, f32, shape, xf.data(), yr.data(), dwf.data(), dbf.data());
  kernels().conv.conv2d_backward_weight(stream, bf16, shape, x.data(), y.data(), dw.data(), db.data());
  EXPECT_EQ(dw.to_vector(), dwf.to(bf16).to_vector());
  EXPECT_EQ(db.to_vector(), dbf.to(bf16).to_vector());
  cpu::conv_kernels.conv2d_backward_input({}, f32, shape, yr.data(), wf.data(), dxf.data());
  kernels().conv.conv2d_backward_input(stream, bf16, shape, y.data(), w.data(), dx.data());
  EXPECT_EQ(dx.to_vector(), dxf.to(bf16).to_vector());
}

}  // namespace
}  // namespace weft
