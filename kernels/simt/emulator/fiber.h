// Fibers: several call stacks on one OS thread, and a jump from one to another in a few nanoseconds.
//
//   Fiber main, other;
//   prepare_fiber(other, stack, bytes, body);   // body() begins at the first switch and never returns
//   switch_fiber(main, other);                  // comes back when somebody switches to `main`
//
// A switch saves the registers that a function call preserves and swaps the stack pointer. ucontext would do, but asks
// the kernel for the signal mask twice a switch: 40 times slower. Processors other than x86-64 use Boost.Context.
#pragma once
#include <cstddef>

namespace weft::emulator {

struct Fiber {
  void* context = nullptr;  // while it does not run: its stack pointer
  // The memory of its stack; of an OS thread's own stack only AddressSanitizer knows.
  char* stack = nullptr;
  size_t stack_bytes = 0;
  void* sanitizer_frames = nullptr;  // AddressSanitizer's fake stack
  void (*body)() = nullptr;
};

// `body` runs on the topmost `usable` bytes of fiber.stack.
void prepare_fiber(Fiber& fiber, size_t usable, void (*body)());

void switch_fiber(Fiber& from, Fiber& to);

}  // namespace weft::emulator
