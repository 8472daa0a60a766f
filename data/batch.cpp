#include "data/batch.h"

#include <iterator>

namespace weft::data {

const Tree& Batch::entry(size_t i) const {
  WEFT_CHECK(is_map() || is_list(), "batch", "expected a map or a list of entries, got a {}", name(kind()));
  WEFT_CHECK(static_cast<int64_t>(i) < size(), "batch", "entry {} was asked for, there are {}", i, size());
  if (is_list()) return as_list()[i];
  return std::next(as_map().begin(), static_cast<std::ptrdiff_t>(i))->second;
}

}  // namespace weft::data
