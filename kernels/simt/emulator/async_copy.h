// Copies to shared memory in the background (PTX cp.async).
//
// The bytes arrive as late as they may: when the thread that began the copy waits for its group. Until then the target
// reads as NaN, so that a kernel without the wait gives wrong results every time.
#pragma once

namespace weft::emulator {

// Both addresses are multiples of 16; otherwise the launch fails, as on a GPU.
void start_copy16(void* shared, const void* global);
void commit_copies();
// Until at most the last `groups` groups of the calling thread are left.
void wait_copies(int groups);

}  // namespace weft::emulator
