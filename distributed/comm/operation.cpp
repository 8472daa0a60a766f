#include "distributed/comm/operation.h"

#include <algorithm>
#include <cstring>

namespace weft::comm {

std::string_view name(OpKind kind) {
  constexpr std::string_view names[] = {"no operation",   "barrier",    "all_reduce", "reduce",
                                        "reduce_scatter", "all_gather", "gather",     "scatter",
                                        "broadcast",      "all_to_all", "send",       "recv"};
  return names[static_cast<int>(kind)];
}

Announcement::Announcement(const Operation& operation)
    : kind(operation.kind),
      reduce(operation.reduce),
      dtype(operation.dtype),
      peer(operation.peer),
      count(operation.count),
      sequence(operation.sequence),
      line(operation.site.line),
      round(operation.site.round) {
  const char* slash = std::strrchr(operation.site.file, '/');
  const char* base = slash ? slash + 1 : operation.site.file;
  const size_t length = std::strlen(base);
  const size_t kept = std::min(length, sizeof(file) - 1);
  std::memcpy(file, base + (length - kept), kept);
}

bool Announcement::agrees_with(const Announcement& other) const {
  return kind == other.kind && dtype == other.dtype && peer == other.peer && count == other.count &&
         round == other.round && (!is_reducing(kind) || reduce == other.reduce);
}

std::string Announcement::describe() const {
  if (kind == OpKind::none) return "none yet";
  std::string text{name(kind)};
  if (is_reducing(kind)) text += fmt::format(" {}", weft::name(reduce));
  text += fmt::format(" #{}", sequence);
  if (kind != OpKind::barrier) text += fmt::format(" {}[{}]", weft::name(dtype), count);
  if (kind == OpKind::send) {
    text += fmt::format(" to rank {}", peer);
  } else if (kind == OpKind::recv) {
    text += fmt::format(" from rank {}", peer);
  } else if (peer >= 0) {
    text += fmt::format(" root {}", peer);
  }
  char name[sizeof(file)];
  std::memcpy(name, file, sizeof(file));
  name[sizeof(file) - 1] = 0;
  text += fmt::format(" at {}:{}", name, line);
  if (round != 0) text += fmt::format(" in round {}", round);
  return text;
}

std::string title(const Operation& operation, std::string_view group, int rank) {
  return fmt::format("{} #{} in group \"{}\" rank {}", name(operation.kind), operation.sequence, group, rank);
}

std::string describe(std::chrono::milliseconds duration) {
  if (duration.count() % 1000 == 0) return fmt::format("{} s", duration.count() / 1000);
  if (duration.count() > 1000) return fmt::format("{:.1f} s", static_cast<double>(duration.count()) / 1000);
  return fmt::format("{} ms", duration.count());
}

}  // namespace weft::comm
