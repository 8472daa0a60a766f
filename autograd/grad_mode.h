// Whether operations are recorded for backward.
//
//   NoGrad guard;                 // nothing is recorded on this thread while it lives
//   Tensor logits = model(x);
#pragma once

namespace weft {

class GradMode {
 public:
  static bool enabled() noexcept { return enabled_; }
  static void set_enabled(bool value) noexcept { enabled_ = value; }

 private:
  static inline thread_local bool enabled_ = true;
};

class [[nodiscard]] SetGradMode {
 public:
  explicit SetGradMode(bool value) noexcept : before_(GradMode::enabled()) { GradMode::set_enabled(value); }
  SetGradMode(const SetGradMode&) = delete;
  SetGradMode& operator=(const SetGradMode&) = delete;
  ~SetGradMode() { GradMode::set_enabled(before_); }

 private:
  bool before_;
};

struct [[nodiscard]] NoGrad : SetGradMode {
  NoGrad() noexcept : SetGradMode(false) {}
};
struct [[nodiscard]] EnableGrad : SetGradMode {
  EnableGrad() noexcept : SetGradMode(true) {}
};

}  // namespace weft
