#include "kernels/index/sort.h"

#include <algorithm>
#include <numeric>
#include <type_traits>

#include "kernels/base/parallel.h"
#include "kernels/base/scratch.h"

namespace weft::cpu {
namespace {

struct SortOrder;

// a before b in rising order, NaN last.
template <class T>
bool less(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a < b || (b != b && a == a);
  else
    return a < b;
}

template <class T>
void sort_row(const T* x, int64_t n, int64_t k, bool descending, int64_t* order) {
  // Ties fall to the lower index, so that the order is total and any algorithm is stable.
  const auto before = [&](int64_t a, int64_t b) {
    if (descending ? less(x[b], x[a]) : less(x[a], x[b])) return true;
    if (descending ? less(x[a], x[b]) : less(x[b], x[a])) return false;
    return a < b;
  };
  std::iota(order, order + n, int64_t{0});
  if (k < n && k > 0 && k > n / 16) std::nth_element(order, order + k - 1, order + n, before);
  if (k > n / 16)
    std::sort(order, order + k, before);
  else
    std::partial_sort(order, order + k, order + n, before);
}

template <class T>
void sort_rows(const T* x, int64_t rows, int64_t n, int64_t k, bool descending, T* values, int64_t* indices) {
  parallel_for(rows, std::max<int64_t>(1, 4096 / std::max<int64_t>(n, 1)), [&](int64_t begin, int64_t end) {
    int64_t* order = scratch<SortOrder, int64_t>(n);
    for (int64_t row = begin; row < end; ++row) {
      sort_row(x + row * n, n, k, descending, order);
      for (int64_t i = 0; i < k; ++i) {
        values[row * k + i] = x[row * n + order[i]];
        indices[row * k + i] = order[i];
      }
    }
  });
}

}  // namespace

void sort(Stream, DType dtype, const void* x, int64_t rows, int64_t n, int64_t k, bool descending, void* values,
          int64_t* indices) {
  if (dtype == DType::i64)
    return sort_rows(static_cast<const int64_t*>(x), rows, n, k, descending, static_cast<int64_t*>(values), indices);
  visit_compute(dtype, "sort", [&](auto type) {
    using T = typename decltype(type)::type;
    sort_rows(static_cast<const T*>(x), rows, n, k, descending, static_cast<T*>(values), indices);
  });
}

}  // namespace weft::cpu
