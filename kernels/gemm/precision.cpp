#include "kernels/gemm/precision.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

namespace weft {
namespace {

std::atomic<bool>& setting() {
  static std::atomic<bool> allowed = [] {
    const char* value = std::getenv("WEFT_ALLOW_TF32");
    return value != nullptr && std::string_view(value) == "1";
  }();
  return allowed;
}

}  // namespace

bool allow_tf32() noexcept { return setting().load(std::memory_order_relaxed); }
void set_allow_tf32(bool allow) noexcept { setting().store(allow, std::memory_order_relaxed); }

}  // namespace weft
