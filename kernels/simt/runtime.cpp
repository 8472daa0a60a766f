// The emulator's device: its memory is the host's, and work is done by the thread that submits it, so that a stream is
// empty whenever anybody looks. What is left to do is to keep the rules of a GPU: captured work runs only in replays,
// a stream joins a capture by waiting for one of its events, and nobody may wait for work that is only recorded.
#include <sys/sysinfo.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/device_table.h"
#include "kernels/simt/emulator/memory.h"
#include "kernels/simt/submit.h"

namespace weft::simt {
namespace {

using Clock = std::chrono::steady_clock;

struct Graph {
  std::vector<std::function<void()>> work;
};

struct Queue;

// A capture in progress: the streams that belong to it, the one that it began on first.
struct Capture {
  Graph graph;
  std::vector<Queue*> members;
  std::string failure;  // why it cannot become a graph

  bool has(const Queue* queue) const { return std::find(members.begin(), members.end(), queue) != members.end(); }
};

// What a Stream's `native` points at.
struct Queue {
  std::atomic<bool> capturing{false};
  std::shared_ptr<Capture> capture;
  // Positions in the capture's work: the last thing submitted here, and how far others have waited for it.
  size_t last = 0;
  size_t joined = 0;

  void join(std::shared_ptr<Capture> to) {
    to->members.push_back(this);
    capture = std::move(to);
    last = joined = 0;
    capturing.store(true, std::memory_order_release);
  }
};

struct Event {
  bool timing = false;
  int64_t time = 0;  // nanoseconds; 0: never recorded
  // Recorded in a capture, which others join by waiting for it. A capture that is over has let go of this.
  std::weak_ptr<Capture> capture;
  Queue* source = nullptr;
  size_t position = 0;
};

// Guards every Capture, and what Queues and Events know of them.
std::mutex capture_mutex;

Queue& queue_of(Stream stream) {
  static Queue default_queue;
  return stream.native ? *static_cast<Queue*>(stream.native) : default_queue;
}

int64_t now_ns() {
  return std::max<int64_t>(
      1, std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count());
}

// Fails the call, and with it the capture of `queue`.
template <class... Args>
[[noreturn]] void fail_capture(Queue& queue, std::string_view op, fmt::format_string<Args...> text, Args&&... args) {
  const std::string why = fmt::format(text, std::forward<Args>(args)...);
  {
    const std::lock_guard lock(capture_mutex);
    if (queue.capture && queue.capture->failure.empty()) queue.capture->failure = why;
  }
  fail(ErrorCode::unsupported, op, "{}", why);
}

// --- memory -----------------------------------------------------------------------------------------------------

void* allocate(Device, int64_t bytes) { return emulator::allocate_memory(static_cast<size_t>(bytes)); }
void free_memory(Device, void* memory) noexcept { emulator::free_memory(memory); }
void note_use(Device, const void* block, int64_t bytes) noexcept {
  emulator::note_use(block, static_cast<size_t>(bytes));
}

// Pinned blocks: a copy from or to anything else cannot be captured, as on a GPU.
struct PinnedBlocks {
  std::mutex mutex;
  std::map<const std::byte*, int64_t> sizes;

  bool contains(const void* memory, int64_t bytes) {
    const std::lock_guard lock(mutex);
    const auto* begin = static_cast<const std::byte*>(memory);
    auto after = sizes.upper_bound(begin);
    if (after == sizes.begin()) return false;
    const auto& [block, size] = *--after;
    return begin + bytes <= block + size;
  }
};
PinnedBlocks& pinned_blocks() {
  static auto* const blocks = new PinnedBlocks;  // tensors in static storage are freed after any static of ours
  return *blocks;
}

void* allocate_pinned(int64_t bytes) {
  void* memory = allocate(Device::simt(), std::max<int64_t>(bytes, 1));
  if (!memory) fail(ErrorCode::out_of_memory, "allocate_pinned", "{} bytes of pinned memory refused", bytes);
  const std::lock_guard lock(pinned_blocks().mutex);
  pinned_blocks().sizes[static_cast<const std::byte*>(memory)] = bytes;
  return memory;
}
void free_pinned(void* memory) noexcept {
  {
    const std::lock_guard lock(pinned_blocks().mutex);
    pinned_blocks().sizes.erase(static_cast<const std::byte*>(memory));
  }
  emulator::free_memory(memory);
}

void copy(Stream stream, void* to, Device to_device, const void* from, Device from_device, int64_t bytes) {
  if (bytes <= 0) return;
  if (is_capturing(stream)) {
    const auto check = [&](Device device, const void* memory) {
      if (device.type == DeviceType::cpu && !pinned_blocks().contains(memory, bytes))
        fail_capture(queue_of(stream), "copy",
                     "{} bytes of pageable host memory cannot be part of a graph; use empty_pinned", bytes);
    };
    check(to_device, to);
    check(from_device, from);
  }
  submit(stream, [to, from, bytes] { std::memmove(to, from, static_cast<size_t>(bytes)); });
}

// --- streams and events -----------------------------------------------------------------------------------------

void* create_stream(Device) { return new Queue; }
void destroy_stream(Stream stream) noexcept {
  auto* queue = static_cast<Queue*>(stream.native);
  {
    const std::lock_guard lock(capture_mutex);
    if (queue && queue->capture) {
      std::erase(queue->capture->members, queue);
      if (queue->last > queue->joined) queue->capture->failure = "a stream was destroyed with work nobody waits for";
    }
  }
  delete queue;
}

DeviceFault* fault(Device) {
  static DeviceFault found;
  return &found;
}

void synchronize(Stream stream) {
  if (is_capturing(stream))
    fail_capture(queue_of(stream), "synchronize", "a stream cannot be waited for while its work is being captured");
  throw_fault(*fault(stream.device));
}

void* create_event(Device, bool timing) {
  auto* event = new Event;
  event->timing = timing;
  return event;
}
void destroy_event(Device, void* event) noexcept { delete static_cast<Event*>(event); }

void record_event(Stream stream, void* native) {
  auto* event = static_cast<Event*>(native);
  Queue& queue = queue_of(stream);
  const std::lock_guard lock(capture_mutex);
  event->capture = queue.capture;
  event->source = &queue;
  event->position = queue.last;
  event->time = now_ns();
}

void wait_event(Stream stream, void* native) {
  const auto* event = static_cast<const Event*>(native);
  Queue& queue = queue_of(stream);
  const std::lock_guard lock(capture_mutex);
  const std::shared_ptr<Capture> capture = event->capture.lock();
  if (!capture) {
    // Done. A graph would have nothing to wait for in its replays, and a GPU refuses it.
    if (queue.capture && event->time != 0) {
      if (queue.capture->failure.empty()) queue.capture->failure = "it waits for an event of work outside the capture";
      fail(ErrorCode::unsupported, "wait_event", "captured work cannot wait for an event of work outside the capture");
    }
    return;
  }
  WEFT_CHECK(!queue.capture || queue.capture == capture, "wait_event",
             "the event belongs to the capture of another graph");
  if (!queue.capture) queue.join(capture);
  if (capture->has(event->source)) event->source->joined = std::max(event->source->joined, event->position);
}

bool query_event(Device, void* native) {
  const std::lock_guard lock(capture_mutex);
  return static_cast<Event*>(native)->capture.expired();
}

void synchronize_event(Device, void* native) {
  const std::lock_guard lock(capture_mutex);
  const std::shared_ptr<Capture> capture = static_cast<Event*>(native)->capture.lock();
  if (!capture) return;
  if (capture->failure.empty()) capture->failure = "it waits for itself";
  fail(ErrorCode::unsupported, "synchronize", "an event cannot be waited for while its work is being captured");
}

double elapsed_ms(Device, void* begin, void* end) {
  const std::lock_guard lock(capture_mutex);
  const auto time = [](void* native) {
    const auto* event = static_cast<const Event*>(native);
    WEFT_CHECK(event->timing, "elapsed_ms", "the event was made without timing");
    WEFT_CHECK(event->time != 0, "elapsed_ms", "the event has not been recorded");
    return event->time;
  };
  return static_cast<double>(time(end) - time(begin)) * 1e-6;
}

// --- graphs -----------------------------------------------------------------------------------------------------

void begin_capture(Stream stream) {
  Queue& queue = queue_of(stream);
  const std::lock_guard lock(capture_mutex);
  WEFT_CHECK(!queue.capture, "graph", "the stream is already being captured");
  queue.join(std::make_shared<Capture>());
}

void* end_capture(Stream stream) {
  Queue& queue = queue_of(stream);
  const std::lock_guard lock(capture_mutex);
  WEFT_CHECK(queue.capture, "graph", "the stream is not being captured");
  WEFT_CHECK(queue.capture->members.front() == &queue, "graph", "the capture began on another stream");
  const std::shared_ptr<Capture> capture = queue.capture;
  for (Queue* member : capture->members) {
    if (member != &queue && member->last > member->joined && capture->failure.empty())
      capture->failure = "a stream that joined the capture has work nobody waits for; record an event and wait for it";
    member->capture.reset();
    member->capturing.store(false, std::memory_order_release);
  }
  if (!capture->failure.empty())
    fail(ErrorCode::unsupported, "graph", "the work could not be captured: {}", capture->failure);
  return new Graph(std::move(capture->graph));
}

void launch_graph(Stream stream, void* native) {
  const auto* graph = static_cast<const Graph*>(native);
  submit(stream, [graph] {
    for (const std::function<void()>& work : graph->work) work();
  });
}

void destroy_graph(Device, void* graph) noexcept { delete static_cast<Graph*>(graph); }

// --- the device -------------------------------------------------------------------------------------------------

int device_count() { return 1; }

DeviceInfo info(Device) {
  struct sysinfo host {};
  sysinfo(&host);
  return {.name = "SIMT emulator",
          .memory_bytes = static_cast<int64_t>(host.totalram) * host.mem_unit,
          .multiprocessors = static_cast<int>(std::max(1u, std::thread::hardware_concurrency())),
          .compute_major = 9,
          .compute_minor = 0};
}

}  // namespace

bool is_capturing(Stream stream) { return queue_of(stream).capturing.load(std::memory_order_acquire); }

void record_work(Stream stream, std::function<void()> work) {
  Queue& queue = queue_of(stream);
  const std::lock_guard lock(capture_mutex);
  WEFT_CHECK(queue.capture, "graph", "the capture of the stream has ended");
  queue.capture->graph.work.push_back(std::move(work));
  queue.last = queue.capture->graph.work.size();
}

extern const DeviceRuntime device_runtime_table = {
    .device_count = device_count,
    .info = info,
    .allocate = allocate,
    .free = free_memory,
    .allocate_pinned = allocate_pinned,
    .free_pinned = free_pinned,
    .copy = copy,
    .create_stream = create_stream,
    .destroy_stream = destroy_stream,
    .synchronize = synchronize,
    .create_event = create_event,
    .destroy_event = destroy_event,
    .record_event = record_event,
    .wait_event = wait_event,
    .query_event = query_event,
    .synchronize_event = synchronize_event,
    .elapsed_ms = elapsed_ms,
    .begin_capture = begin_capture,
    .end_capture = end_capture,
    .launch_graph = launch_graph,
    .destroy_graph = destroy_graph,
    .is_capturing = is_capturing,
    .fault = fault,
    .note_use = note_use,
};

}  // namespace weft::simt
