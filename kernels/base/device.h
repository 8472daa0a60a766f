// What the library asks of a device that is not the CPU: memory, streams, events, graphs, and the faults that kernels
// find in their data.
//
//   const DeviceRuntime& runtime = device_runtime(DeviceType::simt, "copy");
//   runtime.copy(stream, to, Device::simt(), from, Device::cpu(), bytes);
//
// Each device lives in a shared library of its own (libweft_cuda.so, libweft_simt.so) that is opened when the first
// tensor asks for it: a program that stays on the CPU never pays for loading the GPU libraries, and the same program
// runs with and without a GPU. The library exports one function, weft_device_library(), which returns its two tables.
#pragma once
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/base/stream.h"

namespace weft {

struct KernelTable;  // kernels/table.h

// The first fault that kernels found in their data since the last look: an index out of range, say. A kernel cannot
// throw, and waiting for each launch would cost more than the launch; so it writes here, goes on without touching
// memory it must not, and the next synchronisation throws. One a device, in memory that both sides see.
struct DeviceFault {
  uint32_t raised = 0;  // 0: none; 1: being written; 2: complete
  const char* op = nullptr;
  int64_t position = 0;  // in the offending operand
  int64_t value = 0;     // what stood there
  int64_t low = 0;       // allowed: low ≤ value < high
  int64_t high = 0;
};

struct DeviceInfo {
  std::string name;
  int64_t memory_bytes = 0;
  int multiprocessors = 0;
  int compute_major = 0;
  int compute_minor = 0;
};

// Every function may throw weft::Error; those that free never do.
struct DeviceRuntime {
  int (*device_count)();
  DeviceInfo (*info)(Device device);

  // Memory of the device itself, 256-byte aligned; null when there is no more. Callers use the caching allocator
  // (kernels/base/device_memory.h). `free` waits for nothing: the memory must be idle.
  void* (*allocate)(Device device, int64_t bytes);
  void (*free)(Device device, void* memory) noexcept;
  // Host memory that the device reads and writes directly, so that copies run while the host goes on.
  void* (*allocate_pinned)(int64_t bytes);
  void (*free_pinned)(void* memory) noexcept;

  // In the order of `stream`; one side is a device of this runtime, the other may be the CPU or another such device.
  // From pageable host memory it returns when the bytes are read, to it when they are written.
  void (*copy)(Stream stream, void* to, Device to_device, const void* from, Device from_device, int64_t bytes);

  void* (*create_stream)(Device device);
  void (*destroy_stream)(Stream stream) noexcept;
  // Waits until all work queued on the stream is done; then throws if a kernel found a fault.
  void (*synchronize)(Stream stream);

  void* (*create_event)(Device device, bool timing);
  void (*destroy_event)(Device device, void* event) noexcept;
  void (*record_event)(Stream stream, void* event);
  void (*wait_event)(Stream stream, void* event);   // what is queued on the stream from now on waits for the event
  bool (*query_event)(Device device, void* event);  // has it happened?
  void (*synchronize_event)(Device device, void* event);
  double (*elapsed_ms)(Device device, void* begin, void* end);

  // Between begin and end, work queued on the stream is recorded instead of run; launch_graph runs it, any number of
  // times. A failed capture ends with end_capture throwing.
  void (*begin_capture)(Stream stream);
  void* (*end_capture)(Stream stream);
  void (*launch_graph)(Stream stream, void* graph);
  void (*destroy_graph)(Device device, void* graph) noexcept;
  bool (*is_capturing)(Stream stream);

  DeviceFault* (*fault)(Device device);

  // The caching allocator handed out the first `bytes` of a block, or took it back (0), for a device that examines what
  // kernels touch. Null: nobody asks.
  void (*note_use)(Device device, const void* block, int64_t bytes) noexcept = nullptr;
};

struct DeviceLibrary {
  const KernelTable* kernels;
  const DeviceRuntime* runtime;
};

// Opens the device's library on the first call. Throws unsupported, naming `op` and the reason, where it cannot: not
// built, no driver, no such device type.
const DeviceLibrary& device_library(DeviceType type, std::string_view op);
const DeviceRuntime& device_runtime(DeviceType type, std::string_view op);

// Something else that the device's library exports under a C name: the compiler of kernels given as text
// (kernels/base/device_compiler.h), NCCL's process groups. Null where it has none of that name; throws as device_library
// does.
void* device_symbol(DeviceType type, const char* symbol, std::string_view op);
// The same without opening the library: null as long as nobody has.
void* loaded_device_symbol(DeviceType type, const char* symbol) noexcept;

// How many devices of a type this machine has; 0 also where the library or the driver is missing.
int device_count(DeviceType type) noexcept;

// Throws the fault that is recorded, if any, as invalid_argument, and forgets it. After a synchronisation.
void throw_fault(DeviceFault& fault);

}  // namespace weft

// Defined once in each device library.
extern "C" const weft::DeviceLibrary* weft_device_library();
