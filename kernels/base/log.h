// Warnings: what a person should know and the program can go on without. They go to stderr, one line each, unless the
// program takes them.
//
//   warn("{} could not be restored: {}", path, reason);
//   set_warning_sink([](std::string_view text) { my_log(text); });
#pragma once
#include <fmt/core.h>

#include <functional>
#include <string>
#include <string_view>

namespace weft {

using WarningSink = std::function<void(std::string_view text)>;
// Replaces the sink for the process; an empty one means stderr again. Any thread may warn.
void set_warning_sink(WarningSink sink);

namespace detail {
void emit_warning(std::string_view text);
}

template <class... Args>
void warn(fmt::format_string<Args...> text, Args&&... args) {
  detail::emit_warning(fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace weft
