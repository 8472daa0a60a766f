#include "kernels/base/dtype.h"

#include <fmt/format.h>

fmt::appender fmt::formatter<weft::DType>::format(weft::DType dtype, fmt::format_context& context) const {
  return fmt::formatter<std::string_view>::format(weft::name(dtype), context);
}
