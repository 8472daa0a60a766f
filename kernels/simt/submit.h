// The emulator's side of streams: work is done when it is submitted, unless the stream is being captured.
//
//   submit(stream, [=] { run_all_blocks(kernel, grid, block, arguments...); });
//
// A stream under capture (DeviceGraph) keeps the work instead, and every replay of the graph does it in the order of
// submission. So whatever reaches device memory goes through here: launches, copies, the library calls of gemm.cpp and
// conv.cpp. The work is copied then, so it must hold its arguments by value.
#pragma once
#include <functional>
#include <utility>

#include "kernels/base/stream.h"

namespace weft::simt {

bool is_capturing(Stream stream);
// Adds `work` to the capture of `stream`.
void record_work(Stream stream, std::function<void()> work);

template <class Work>
void submit(Stream stream, Work&& work) {
  if (is_capturing(stream)) [[unlikely]]
    record_work(stream, std::function<void()>(std::forward<Work>(work)));
  else
    work();
}

}  // namespace weft::simt
