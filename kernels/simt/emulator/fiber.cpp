#include "kernels/simt/emulator/fiber.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "kernels/simt/emulator/sanitizer.h"

#if !defined(__x86_64__)
#include <boost/context/detail/fcontext.hpp>
#endif

namespace weft::emulator {
namespace {

// AddressSanitizer has to know which stack is in use. Between the two calls the stacks are swapped, so the second one
// tells about the fiber that was left; what it says of an OS thread's own stack is kept for the way back.
#ifdef WEFT_ADDRESS_SANITIZER
thread_local Fiber* left = nullptr;
void before_switch(Fiber& from, Fiber& to) {
  left = &from;
  __sanitizer_start_switch_fiber(&from.sanitizer_frames, to.stack, to.stack_bytes);
}
void after_switch(Fiber* resumed) {
  const void* bottom = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(resumed ? resumed->sanitizer_frames : nullptr, &bottom, &bytes);
  if (left->stack) return;
  left->stack = static_cast<char*>(const_cast<void*>(bottom));
  left->stack_bytes = bytes;
}
#else
void before_switch(Fiber&, Fiber&) {}
void after_switch(Fiber*) {}
#endif

// What a switch to a new fiber lands in.
[[noreturn]] void begin(Fiber* fiber) {
  after_switch(nullptr);
  fiber->body();
  __builtin_unreachable();
}

}  // namespace

#if defined(__x86_64__)

// void weft_emulator_switch(void** save, void* load): the System V ABI has a function preserve rbx, rbp, r12 to r15 and
// the stack pointer; everything else the compiler has already saved around the call. It ends with a return, not a jump:
// fibers wait at the same depth of the same calls, so the processor's return predictor is right about all the returns
// that follow, and wrong about all of them if this one does not take its entry (measured: 84 ns a switch against 35).
extern "C" __attribute__((visibility("hidden"))) void weft_emulator_switch(void** save, void* load);
// Where a new fiber begins: hands on what prepare_fiber put into r12.
extern "C" __attribute__((visibility("hidden"))) void weft_emulator_begin();
asm(R"(
.text
.p2align 4
.hidden weft_emulator_switch
.globl weft_emulator_switch
.type weft_emulator_switch, @function
weft_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size weft_emulator_switch, .-weft_emulator_switch

.p2align 4
.hidden weft_emulator_begin
.globl weft_emulator_begin
.type weft_emulator_begin, @function
weft_emulator_begin:
  movq %r12, %rdi
  jmp weft_emulator_begin_fiber
.size weft_emulator_begin, .-weft_emulator_begin
)");

extern "C" __attribute__((visibility("hidden"), used)) void weft_emulator_begin_fiber(Fiber* fiber) { begin(fiber); }

void prepare_fiber(Fiber& fiber, size_t usable, void (*body)()) {
  fiber.body = body;
  fiber.sanitizer_frames = nullptr;
  // As weft_emulator_switch leaves a stack: r15, r14, r13, r12 (the fiber, for weft_emulator_begin), rbx, rbp, where to
  // go on. The word above stands for a return address, so that the first frame is aligned as after a call.
  auto* top = reinterpret_cast<uintptr_t*>(reinterpret_cast<uintptr_t>(fiber.stack + usable) & ~uintptr_t{15});
  const uintptr_t words[] = {
      0, 0, 0, reinterpret_cast<uintptr_t>(&fiber), 0, 0, reinterpret_cast<uintptr_t>(&weft_emulator_begin), 0};
  fiber.context = std::copy(std::begin(words), std::end(words), top - std::size(words)) - std::size(words);
}

void switch_fiber(Fiber& from, Fiber& to) {
  before_switch(from, to);
  weft_emulator_switch(&from.context, to.context);
  after_switch(&from);
}

#else

namespace {
struct Switch {
  Fiber* from;
  Fiber* to;
};
// Boost hands the context of the fiber that was left to the one that goes on.
Fiber* arrive(boost::context::detail::transfer_t transfer) {
  const Switch* arriving = static_cast<Switch*>(transfer.data);
  arriving->from->context = transfer.fctx;
  return arriving->to;
}
[[noreturn]] void begin_transfer(boost::context::detail::transfer_t transfer) { begin(arrive(transfer)); }
}  // namespace

void prepare_fiber(Fiber& fiber, size_t usable, void (*body)()) {
  fiber.body = body;
  fiber.sanitizer_frames = nullptr;
  fiber.context = boost::context::detail::make_fcontext(fiber.stack + usable, usable, begin_transfer);
}

void switch_fiber(Fiber& from, Fiber& to) {
  before_switch(from, to);
  Switch leaving{&from, &to};
  arrive(boost::context::detail::jump_fcontext(to.context, &leaving));
  after_switch(&from);
}

#endif

}  // namespace weft::emulator
