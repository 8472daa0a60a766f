// Operation: one call of a collective or point-to-point transfer, as backends see it: raw memory, counts, where it was
// called from. ProcessGroup makes them from tensors; a Backend carries them out.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "distributed/comm/reduce.h"
#include "kernels/base/dtype.h"
#include "kernels/base/stream.h"

namespace weft {

class Event;  // tensor/device.h

// Where the user's call stands. As a default argument, `CallSite site = {}`, it is the place of the outer call.
struct CallSite {
  const char* file;
  int line;
  int round = 0;  // see in_round
  constexpr CallSite(const char* file = __builtin_FILE(), int line = __builtin_LINE()) : file(file), line(line) {}
  // For a caller that makes the same calls over and over and counts its rounds: ranks in different rounds disagree, as
  // if they had called different things. DDP's rounds are backward passes.
  constexpr CallSite in_round(int number) const {
    CallSite result = *this;
    result.round = number;
    return result;
  }
};

namespace comm {

enum class OpKind : uint8_t {
  none,
  barrier,
  all_reduce,
  reduce,
  reduce_scatter,
  all_gather,
  gather,
  scatter,
  broadcast,
  all_to_all,
  send,
  recv,
};
std::string_view name(OpKind kind);
constexpr bool is_point_to_point(OpKind kind) { return kind == OpKind::send || kind == OpKind::recv; }
constexpr bool is_reducing(OpKind kind) {
  return kind == OpKind::all_reduce || kind == OpKind::reduce || kind == OpKind::reduce_scatter;
}

// `count` is in elements and counts one part: what one rank contributes (all_gather, gather), receives (reduce_scatter,
// scatter), or both (all_reduce, reduce, broadcast, all_to_all for each pair of ranks). The buffers then hold
//
//   kind            input               output
//   all_reduce      count               == input
//   reduce          count               == input on the root, unused elsewhere
//   reduce_scatter  size · count        count; may be the rank's own part of the input
//   all_gather      count               size · count; the input may be the rank's own part of it
//   gather          count               size · count on the root
//   scatter         size · count, root  count
//   broadcast       count, root         count, on the others
//   all_to_all      size · count        size · count, no overlap
//   send, recv      count, sender       count, receiver
struct Operation {
  OpKind kind = OpKind::none;
  Reduce reduce = Reduce::sum;
  DType dtype = DType::u8;
  int peer = -1;  // the root, or the other end of a transfer; -1 where there is none
  int64_t count = 0;
  const void* input = nullptr;
  void* output = nullptr;
  Device device{};               // where input and output lie
  const Event* ready = nullptr;  // on a GPU: the buffers may be used after this event
  // The how-manieth operation of its group: collectives count together, sends and receives apart.
  uint64_t sequence = 0;
  CallSite site{};
  std::chrono::milliseconds timeout = std::chrono::minutes(10);

  int64_t bytes() const { return count * size_of(dtype); }
};

// What one rank tells the others about an operation, small enough to lie in a control block. The file name is cut to its
// last characters, as the memory is another process's.
struct Announcement {
  OpKind kind = OpKind::none;
  Reduce reduce = Reduce::sum;
  DType dtype = DType::u8;
  int32_t peer = -1;
  int64_t count = 0;
  uint64_t sequence = 0;
  uint64_t segment = 0;  // where its memory lies, see DirectBackend::locate
  uint64_t offset = 0;
  int32_t line = 0;
  int32_t round = 0;
  char file[32] = {};

  Announcement() = default;
  explicit Announcement(const Operation& operation);
  // Whether two ranks mean the same collective.
  bool agrees_with(const Announcement& other) const;
  // "all_reduce sum #41 f32[1024] at gpt.cpp:88"
  std::string describe() const;
};

// "all_reduce #41 in group "dp" rank 2": how errors name an operation.
std::string title(const Operation& operation, std::string_view group, int rank);
// "1.5 s", "250 ms".
std::string describe(std::chrono::milliseconds duration);

}  // namespace comm
}  // namespace weft
