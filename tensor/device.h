// Devices as programs use them: streams and events to own, waiting, pinned memory, and captured graphs of work.
//
//   DeviceStream side(Device::cuda());
//   {
//     StreamGuard guard(side);            // work of this scope queues on `side`
//     y = model(x);
//   }
//   Event done(Device::cuda());
//   done.record(side);
//   done.wait(current_stream(Device::cuda()));   // what comes next on the default stream waits for it
//   synchronize(Device::cuda());                 // the host waits; faults that kernels found are thrown here
//
// On the CPU work is done when the call returns, so these objects exist there too and do nothing.
#pragma once
#include <functional>

#include "kernels/base/device.h"
#include "tensor/tensor.h"

namespace weft {

// A queue of its own on a device. Work of two streams may overlap.
class DeviceStream {
 public:
  explicit DeviceStream(Device device);
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;
  operator Stream() const { return stream_; }

 private:
  Stream stream_;
};

// A point in the work of a stream.
class Event {
 public:
  // `timing`: elapsed_ms may be asked; costs a little.
  explicit Event(Device device, bool timing = false);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  // The point after everything queued on `stream` so far.
  void record(Stream stream);
  // Work queued on `stream` from now on starts after the recorded point.
  void wait(Stream stream) const;
  bool done() const;
  void synchronize() const;
  // Milliseconds from `earlier` to this one; both done and made with `timing`.
  double elapsed_ms(const Event& earlier) const;

 private:
  Device device_;
  void* event_ = nullptr;
  int64_t recorded_ns_ = 0;  // the CPU's
};

// Waits for the work on the current stream (of all there are: one by one). Throws the first fault found by a kernel.
void synchronize(Stream stream);
void synchronize(Device device);

// An uninitialised CPU tensor in memory that `device` reads and writes directly, so that copy_async overlaps with work.
Tensor empty_pinned(const Shape& shape, DType dtype, Device device);
// to[…] = from[…] in the order of the current stream, without waiting. Same shape and dtype, both contiguous; one or
// both on a device. A CPU side must be pinned, and must live and stay as it is until the stream got there.
void copy_async(const Tensor& from, const Tensor& to);
// Says that `tensor` is also used on `stream`: its memory is not handed out again before the work there is done.
void record_stream(const Tensor& tensor, Stream stream);

// Work captured once and replayed as a whole: one launch instead of thousands.
//
//   DeviceGraph graph(Device::cuda());
//   train_step();                                  // once for real: optimizer state, workspaces
//   graph.capture([&] { loss = train_step(); });   // records; runs nothing
//   for (…) { input.copy_(batch); graph.replay(); }
//
// A replay reads and writes the very same memory: feed inputs by copy_ into tensors made before the capture, and read
// results from tensors made in it. What is captured must not wait for the device or read its values on the host.
class DeviceGraph {
 public:
  explicit DeviceGraph(Device device);
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;
  // Once an object. Throws what `work` throws, and unsupported for work that cannot be captured.
  void capture(const std::function<void()>& work);
  // Queues the captured work on the current stream.
  void replay() const;

 private:
  Device device_;
  void* graph_ = nullptr;
  int64_t pool_ = 0;
};

namespace detail {
// The elements as a contiguous CPU tensor without history; `tensor` itself where it is one.
Tensor on_host(const Tensor& tensor);
// Copies between devices; both contiguous, of one dtype and shape.
void transfer(const Tensor& from, const Tensor& to);
}  // namespace detail

}  // namespace weft
