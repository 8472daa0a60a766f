// A launch in the emulator: checks the configuration, then runs the blocks on the project's pool of threads
// (kernels/base/parallel.h).
//
//   launch(kernel, dim3(blocks), dim3(256), 0, stream, x, y, n);
//
// Returns when all blocks are done, as streams of the emulator are always empty; on a stream under capture
// (DeviceGraph) it records the launch with the values of its arguments instead. Throws
//
//   invalid_argument   a grid, block or shared memory that CUDA would refuse
//   internal           what the kernel did: deadlock, divergent barrier, a mask that does not fit … with the lines
//   whatever           a kernel's functions threw, on a CPU they can
//
// After an error the emulator is ready for the next launch; what the kernel wrote is unspecified.
#pragma once
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "kernels/base/stream.h"
#include "kernels/simt/emulator/state.h"
#include "kernels/simt/submit.h"

namespace weft::emulator {

// A kernel with its arguments: call(arguments) runs one thread of it.
struct Launch {
  void (*call)(const void* arguments);
  const void* arguments;
  const void* kernel;  // the address of the kernel function
  dim3 grid;
  dim3 block;
  size_t shared_bytes;
  Location at;  // the line of the launch

  // For an examination, which gives buffers the names of parameters: writes each argument, if a pointer, else null.
  void (*list_pointers)(const void* arguments, const void** list) = nullptr;
  size_t parameters = 0;
  size_t arguments_bytes = 0;
};

template <class T>
const void* as_pointer(const T& value) {
  if constexpr (std::is_pointer_v<T> && std::is_object_v<std::remove_pointer_t<T>>)
    return value;
  else
    return nullptr;
}

void run(const Launch& launch);

// A Stream that knows on which line it was named.
struct StreamHere {
  Stream stream;
  Location at;
  StreamHere(Stream value, Location here = Location::here()) : stream(value), at(here) {}
};

}  // namespace weft::emulator

namespace weft::simt {

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, emulator::StreamHere stream,
            Arguments&&... arguments) {
  struct Call {
    void (*kernel)(Parameters...);
    std::tuple<std::decay_t<Parameters>...> arguments;
  };
  const auto work = [call = Call{kernel, {static_cast<std::decay_t<Parameters>>(arguments)...}}, grid, block,
                     shared_bytes, at = stream.at] {
    emulator::run({
        .call =
            [](const void* pointer) {
              const auto& self = *static_cast<const Call*>(pointer);
              std::apply(self.kernel, self.arguments);
            },
        .arguments = &call,
        .kernel = reinterpret_cast<const void*>(call.kernel),
        .grid = grid,
        .block = block,
        .shared_bytes = shared_bytes,
        .at = at,
        .list_pointers =
            [](const void* pointer, [[maybe_unused]] const void** list) {
              std::apply([&](const auto&... values) { ((*list++ = emulator::as_pointer(values)), ...); },
                         static_cast<const Call*>(pointer)->arguments);
            },
        .parameters = sizeof...(Parameters),
        .arguments_bytes = sizeof(Call),
    });
  };
  submit(stream.stream, work);
}

}  // namespace weft::simt
