// The gallery of broken kernels: one fault a file, small enough to be read at a glance, most with its repair below.
//
//   const Exhibit missing_barrier{.broken = run<reverse>, .repaired = run<reverse_repaired>};
//
// A comment "<- kind" marks each line that the examination has to name, and tests/kernels/gallery_test.cpp takes its
// expectations from there. The kinds are those of kernels/simt/trace/report.h.
#pragma once
#include <cstdint>

#include "kernels/simt/simt.h"

namespace weft::WEFT_DEVICE::gallery {

// Elements of x and y in every exhibit. x holds numbers from 0 to 1.
inline constexpr int kElements = 4096;
inline constexpr int kThreads = 256;

struct Exhibit {
  void (*broken)(Stream stream, const float* x, float* y);
  void (*repaired)(Stream stream, const float* x, float* y) = nullptr;
};

// One thread an element.
template <void (*kernel)(const float*, float*)>
void run(Stream stream, const float* x, float* y) {
  launch(kernel, dim3(kElements / kThreads), dim3(kThreads), 0, stream, x, y);
}

// Every exhibit is the file of its name.
#define WEFT_GALLERY(exhibit)                                                                                        \
  exhibit(missing_barrier) exhibit(divergent_barrier) exhibit(reduction_no_barrier) exhibit(reused_buffer)           \
      exhibit(double_buffer) exhibit(warp_synchronous) exhibit(uninitialised_shared) exhibit(shared_out_of_bounds)   \
          exhibit(copy_without_wait) exhibit(copy_without_barrier) exhibit(shuffle_exited_lane)                      \
              exhibit(shuffle_wrong_mask) exhibit(deadlock) exhibit(read_out_of_bounds) exhibit(write_out_of_bounds) \
                  exhibit(misaligned_load) exhibit(racing_write) exhibit(lost_update) exhibit(unpadded_transpose)    \
                      exhibit(naive_transpose) exhibit(strided_loads) exhibit(divergent_lanes)

#define WEFT_DECLARE_EXHIBIT(name) extern const Exhibit name;
WEFT_GALLERY(WEFT_DECLARE_EXHIBIT)
#undef WEFT_DECLARE_EXHIBIT

}  // namespace weft::WEFT_DEVICE::gallery
