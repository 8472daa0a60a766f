#include "kernels/base/log.h"

#include <cstdio>
#include <mutex>

namespace weft {
namespace {

struct Sink {
  std::mutex mutex;
  WarningSink function;
};
Sink& sink() {
  static Sink* const instance = new Sink;  // never destroyed: a thread may warn until the very end
  return *instance;
}

}  // namespace

void set_warning_sink(WarningSink function) {
  std::lock_guard lock(sink().mutex);
  sink().function = std::move(function);
}

void detail::emit_warning(std::string_view text) {
  std::lock_guard lock(sink().mutex);
  if (sink().function) return sink().function(text);
  const std::string line = fmt::format("weft warning: {}\n", text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace weft
