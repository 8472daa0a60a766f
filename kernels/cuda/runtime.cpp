// The device interface (kernels/base/device.h) over CUDA's runtime. Every function makes its device the thread's current
// one first. Streams are non-blocking ones, so that they do not wait for the default stream behind anybody's back.
#include <atomic>
#include <mutex>
#include <new>

#include "kernels/base/error.h"
#include "kernels/cuda/status.h"
#include "kernels/device_table.h"

namespace weft::cuda {
namespace {

cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }

// --- devices ----------------------------------------------------------------------------------------------------

int device_count() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaErrorNoDevice) {
    cudaGetLastError();
    return 0;
  }
  check_status(status, "cudaGetDeviceCount");
  return count;
}

DeviceInfo info(Device device) {
  cudaDeviceProp properties{};
  WEFT_CUDA_CHECK(cudaGetDeviceProperties(&properties, device.index));
  return {.name = properties.name,
          .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem),
          .multiprocessors = properties.multiProcessorCount,
          .compute_major = properties.major,
          .compute_minor = properties.minor};
}

// --- memory -----------------------------------------------------------------------------------------------------

void* allocate(Device device, int64_t bytes) {
  use_device(device);
  const RelaxedCapture relaxed;
  void* memory = nullptr;
  const cudaError_t status = cudaMalloc(&memory, static_cast<size_t>(bytes));
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check_status(status, "cudaMalloc");
  return memory;
}

void free_memory(Device device, void* memory) noexcept {
  int before = -1;
  cudaGetDevice(&before);
  cudaSetDevice(device.index);
  {
    const RelaxedCapture relaxed;
    cudaFree(memory);  // at the end of the process the driver may be gone, and the memory with it
  }
  if (before >= 0 && before != device.index) cudaSetDevice(before);
}

void* allocate_pinned(int64_t bytes) {
  const RelaxedCapture relaxed;
  void* memory = nullptr;
  const cudaError_t status = cudaHostAlloc(&memory, static_cast<size_t>(bytes > 0 ? bytes : 1), cudaHostAllocPortable);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    fail(ErrorCode::out_of_memory, "allocate_pinned", "{} bytes of pinned memory refused", bytes);
  }
  check_status(status, "cudaHostAlloc");
  return memory;
}

void free_pinned(void* memory) noexcept {
  const RelaxedCapture relaxed;
  cudaFreeHost(memory);
}

bool is_pageable(const void* memory) {
  cudaPointerAttributes attributes{};
  const RelaxedCapture relaxed;
  WEFT_CUDA_CHECK(cudaPointerGetAttributes(&attributes, memory));
  return attributes.type == cudaMemoryTypeUnregistered;
}

bool is_capturing(Stream stream) {
  if (stream.native == nullptr) return false;  // the default stream cannot be
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  WEFT_CUDA_CHECK(cudaStreamIsCapturing(native(stream), &status));
  return status != cudaStreamCaptureStatusNone;
}

// Where the GPU walks the host's page tables itself, a copy reads pageable memory late; elsewhere it is staged before
// the call returns.
bool reads_host_pages(Device device) {
  int value = 0;
  WEFT_CUDA_CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrPageableMemoryAccessUsesHostPageTables, device.index));
  return value != 0;
}

void copy(Stream stream, void* to, Device to_device, const void* from, Device from_device, int64_t bytes) {
  if (bytes <= 0) return;
  use_device(stream.device);
  const auto size = static_cast<size_t>(bytes);
  if (to_device.type == DeviceType::cuda && from_device.type == DeviceType::cuda && to_device != from_device) {
    WEFT_CUDA_CHECK(cudaMemcpyPeerAsync(to, to_device.index, from, from_device.index, size, native(stream)));
    return;
  }
  const bool to_pageable = to_device.type == DeviceType::cpu && is_pageable(to);
  const bool from_pageable = from_device.type == DeviceType::cpu && is_pageable(from);
  if ((to_pageable || from_pageable) && is_capturing(stream))
    fail(ErrorCode::unsupported, "copy", "{} bytes of pageable host memory cannot be part of a graph; use empty_pinned",
         bytes);
  WEFT_CUDA_CHECK(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, native(stream)));
  if (to_pageable || (from_pageable && reads_host_pages(stream.device)))
    WEFT_CUDA_CHECK(cudaStreamSynchronize(native(stream)));
}

// --- streams and events -----------------------------------------------------------------------------------------

void* create_stream(Device device) {
  use_device(device);
  const RelaxedCapture relaxed;
  cudaStream_t stream = nullptr;
  WEFT_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}
void destroy_stream(Stream stream) noexcept { cudaStreamDestroy(native(stream)); }

DeviceFault* fault(Device device) {
  constexpr size_t kDevices = 128;
  static std::mutex mutex;
  static std::atomic<DeviceFault*> faults[kDevices];
  const auto index = static_cast<size_t>(device.index);
  WEFT_CHECK(index < kDevices, "device", "there is no {}", name(device));
  if (DeviceFault* found = faults[index].load(std::memory_order_acquire)) return found;
  const std::lock_guard lock(mutex);
  if (DeviceFault* found = faults[index].load(std::memory_order_acquire)) return found;
  use_device(device);
  const RelaxedCapture relaxed;
  void* memory = nullptr;
  WEFT_CUDA_CHECK(cudaHostAlloc(&memory, sizeof(DeviceFault), cudaHostAllocPortable | cudaHostAllocMapped));
  auto* made = new (memory) DeviceFault;  // kept: kernels may write to it until the very end
  faults[index].store(made, std::memory_order_release);
  return made;
}

void synchronize(Stream stream) {
  use_device(stream.device);
  WEFT_CUDA_CHECK(cudaStreamSynchronize(native(stream)));
  throw_fault(*fault(stream.device));
}

void* create_event(Device device, bool timing) {
  use_device(device);
  const RelaxedCapture relaxed;
  cudaEvent_t event = nullptr;
  WEFT_CUDA_CHECK(cudaEventCreateWithFlags(&event, timing ? cudaEventDefault : cudaEventDisableTiming));
  return event;
}
void destroy_event(Device, void* event) noexcept { cudaEventDestroy(event_of(event)); }

void record_event(Stream stream, void* event) {
  use_device(stream.device);
  WEFT_CUDA_CHECK(cudaEventRecord(event_of(event), native(stream)));
}
void wait_event(Stream stream, void* event) {
  use_device(stream.device);
  WEFT_CUDA_CHECK(cudaStreamWaitEvent(native(stream), event_of(event), 0));
}
bool query_event(Device device, void* event) {
  use_device(device);
  const cudaError_t status = cudaEventQuery(event_of(event));
  if (status == cudaErrorNotReady) return false;
  check_status(status, "cudaEventQuery");
  return true;
}
void synchronize_event(Device device, void* event) {
  use_device(device);
  WEFT_CUDA_CHECK(cudaEventSynchronize(event_of(event)));
}
double elapsed_ms(Device device, void* begin, void* end) {
  use_device(device);
  float milliseconds = 0;
  WEFT_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, event_of(begin), event_of(end)));
  return milliseconds;
}

// --- graphs -----------------------------------------------------------------------------------------------------

void begin_capture(Stream stream) {
  use_device(stream.device);
  fault(stream.device);  // made now: a kernel's wrapper asks for it in the middle of the capture
  WEFT_CUDA_CHECK(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal));
}

void* end_capture(Stream stream) {
  use_device(stream.device);
  cudaGraph_t graph = nullptr;
  const cudaError_t status = cudaStreamEndCapture(native(stream), &graph);
  if (status != cudaSuccess || graph == nullptr) {
    cudaGetLastError();
    fail(ErrorCode::unsupported, "graph", "the work could not be captured: {}", cudaGetErrorString(status));
  }
  cudaGraphExec_t executable = nullptr;
  const cudaError_t made = cudaGraphInstantiate(&executable, graph, 0);
  cudaGraphDestroy(graph);
  check_status(made, "cudaGraphInstantiate");
  return executable;
}

void launch_graph(Stream stream, void* graph) {
  use_device(stream.device);
  WEFT_CUDA_CHECK(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), native(stream)));
}
void destroy_graph(Device, void* graph) noexcept { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); }

}  // namespace

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
};

}  // namespace weft::cuda
