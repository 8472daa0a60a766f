#include "tensor/device.h"

#include <chrono>

#include "kernels/base/device_memory.h"
#include "tensor/factory.h"

namespace weft {
namespace {

bool has_runtime(Device device) { return device.type == DeviceType::cuda || device.type == DeviceType::simt; }
const DeviceRuntime& runtime_of(Device device, std::string_view op) { return device_runtime(device.type, op); }

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

DeviceStream::DeviceStream(Device device) : stream_{device} {
  if (has_runtime(device)) stream_.native = runtime_of(device, "stream").create_stream(device);
}
DeviceStream::~DeviceStream() {
  if (stream_.native) runtime_of(stream_.device, "stream").destroy_stream(stream_);
}

Event::Event(Device device, bool timing) : device_(device) {
  if (has_runtime(device)) event_ = runtime_of(device, "event").create_event(device, timing);
}
Event::~Event() {
  if (event_) runtime_of(device_, "event").destroy_event(device_, event_);
}
void Event::record(Stream stream) {
  WEFT_CHECK(stream.device == device_, "event", "a stream of {} cannot record an event of {}", name(stream.device),
             name(device_));
  if (event_)
    runtime_of(device_, "event").record_event(stream, event_);
  else
    recorded_ns_ = now_ns();
}
void Event::wait(Stream stream) const {
  if (!event_) return;
  if (stream.device.type == device_.type)
    runtime_of(device_, "event").wait_event(stream, event_);
  else
    synchronize();
}
bool Event::done() const { return !event_ || runtime_of(device_, "event").query_event(device_, event_); }
void Event::synchronize() const {
  if (event_) runtime_of(device_, "event").synchronize_event(device_, event_);
}
double Event::elapsed_ms(const Event& earlier) const {
  WEFT_CHECK(earlier.device_ == device_, "event", "events of {} and {} have no time in common", name(earlier.device_),
             name(device_));
  if (event_) return runtime_of(device_, "event").elapsed_ms(device_, earlier.event_, event_);
  return static_cast<double>(recorded_ns_ - earlier.recorded_ns_) * 1e-6;
}

void synchronize(Stream stream) {
  if (has_runtime(stream.device)) runtime_of(stream.device, "synchronize").synchronize(stream);
}
void synchronize(Device device) { synchronize(current_stream(device)); }

Tensor empty_pinned(const Shape& shape, DType dtype, Device device) {
  const int64_t bytes = shape.numel() * size_of(dtype);
  if (!has_runtime(device) || bytes == 0) return empty(shape, {.dtype = dtype});
  const DeviceRuntime& runtime = runtime_of(device, "empty_pinned");
  void* memory = runtime.allocate_pinned(bytes);
  if (!memory) fail(ErrorCode::out_of_memory, "empty_pinned", "{} bytes of pinned memory refused", bytes);
  return from_blob(memory, shape, dtype, [&runtime, memory] { runtime.free_pinned(memory); });
}

void copy_async(const Tensor& from, const Tensor& to) {
  WEFT_CHECK(from.shape() == to.shape() && from.dtype() == to.dtype(), "copy_async",
             "expected tensors of one shape and dtype, got {} and {}", describe(from), describe(to));
  WEFT_CHECK(from.is_contiguous() && to.is_contiguous(), "copy_async", "expected contiguous tensors");
  if (from.numel() == 0 || from.is_meta() || to.is_meta()) return;
  const Device device = has_runtime(to.device()) ? to.device() : from.device();
  if (!has_runtime(device)) {
    detail::copy_elements(from, to);
    return;
  }
  runtime_of(device, "copy_async")
      .copy(current_stream(device), to.data(), to.device(), from.data(), from.device(), from.nbytes());
  to.storage()->bump_version();
}

void record_stream(const Tensor& tensor, Stream stream) {
  if (has_runtime(tensor.device()) && tensor.numel() > 0)
    detail::record_device_stream(tensor.device(), tensor.storage()->data(), stream);
}

DeviceGraph::DeviceGraph(Device device) : device_(device) {
  if (!has_runtime(device))
    fail(ErrorCode::unsupported, "graph", "work on {} runs at once and cannot be captured; use cuda or simt",
         name(device));
}

DeviceGraph::~DeviceGraph() {
  if (graph_) runtime_of(device_, "graph").destroy_graph(device_, graph_);
  if (pool_) detail::release_graph_pool(device_, pool_);
}

void DeviceGraph::capture(const std::function<void()>& work) {
  WEFT_CHECK(!graph_ && !pool_, "graph", "this graph is captured already; make another");
  const DeviceRuntime& runtime = runtime_of(device_, "graph");
  synchronize(device_);
  const DeviceStream stream(device_);  // the default stream cannot be captured
  const StreamGuard guard(stream);
  pool_ = detail::begin_graph_pool(device_);
  runtime.begin_capture(stream);
  try {
    work();
  } catch (...) {
    try {
      runtime.destroy_graph(device_, runtime.end_capture(stream));
    } catch (const Error&) {
      // The capture broke with the work; the work's own error says why.
    }
    detail::end_graph_pool();
    throw;
  }
  detail::end_graph_pool();
  graph_ = runtime.end_capture(stream);
}

void DeviceGraph::replay() const {
  WEFT_CHECK(graph_, "graph", "nothing is captured yet");
  runtime_of(device_, "graph").launch_graph(current_stream(device_), graph_);
}

namespace detail {

void transfer(const Tensor& from, const Tensor& to) {
  if (from.numel() == 0 || from.is_meta() || to.is_meta()) return;
  const bool between_runtimes =
      has_runtime(from.device()) && has_runtime(to.device()) && from.device().type != to.device().type;
  if (between_runtimes) {
    transfer(on_host(from), to);
    return;
  }
  // In the order of the source's stream, where the data is made; a peer waits for it.
  const Device device = has_runtime(from.device()) ? from.device() : to.device();
  const DeviceRuntime& runtime = runtime_of(device, "to");
  const Stream stream = current_stream(device);
  runtime.copy(stream, to.data(), to.device(), from.data(), from.device(), from.nbytes());
  if (has_runtime(from.device()) && has_runtime(to.device())) {
    Event copied(device);
    copied.record(stream);
    copied.wait(current_stream(to.device()));
  } else {
    runtime.synchronize(stream);
  }
}

Tensor on_host(const Tensor& tensor) {
  const Tensor dense = dense_copy(tensor);
  if (!has_runtime(dense.device())) return dense;
  const Tensor host = empty(dense.shape(), {.dtype = dense.dtype()});
  transfer(dense, host);
  return host;
}

}  // namespace detail
}  // namespace weft
