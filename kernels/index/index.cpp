#include "kernels/index/index.h"

#include <algorithm>
#include <cstring>

#include "kernels/base/parallel.h"
#include "kernels/index/sort.h"
#include "kernels/index/visit_size.h"

namespace weft::cpu {
namespace {

constexpr int64_t kGrain = 16384;  // elements worth a tile

// The dtypes that sums are made in.
template <class F>
void visit_sum(DType dtype, const char* op, F&& f) {
  if (dtype == DType::i64) return f(TypeTag<uint64_t>{});  // wraps around
  visit_compute(dtype, op, f);
}

void check(Stream, const char* op, const int64_t* index, int64_t n, int64_t low, int64_t high) {
  parallel_for(n, 4 * kGrain, [&](int64_t begin, int64_t end) {
    bool bad = false;
    for (int64_t i = begin; i < end; ++i) bad |= index[i] < low || index[i] >= high;
    if (!bad) return;
    for (int64_t i = begin; i < end; ++i)
      WEFT_CHECK(index[i] >= low && index[i] < high, op,
                 "index {} (number {}) is out of range: expected {} to {} for a dimension of size {}", index[i], i, low,
                 high - 1, high);
  });
}

void gather(Stream, int64_t element_bytes, const Layout<3>& layout, const void* x, int64_t x_step, const int64_t* index,
            void* out) {
  visit_size(element_bytes, [&](auto type) {
    using T = typename decltype(type)::type;
    const int64_t n = layout.row_size();
    parallel_for(layout.rows(), std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
      layout.for_each_row(begin, end, [&](const auto& offset) {
        const T* from = static_cast<const T*>(x) + offset[0];
        const int64_t* at = index + offset[1];
        T* to = static_cast<T*>(out) + offset[2];
        for (int64_t i = 0; i < n; ++i)
          to[i * layout.row_stride(2)] = from[i * layout.row_stride(0) + at[i * layout.row_stride(1)] * x_step];
      });
    });
  });
}

// Along the indexed dimension, where out has stride 0, any two elements may go to the same place, so one thread takes
// them in order. Those that differ in another coordinate cannot: tiles cut the largest other dimension.
template <class T, class F>
void scatter_rows(const Layout<3>& layout, const void* source, const int64_t* index, void* out, int64_t out_step,
                  F&& write) {
  const int64_t n = layout.row_size();
  if (n == 0 || layout.rows() == 0) return;
  int cut = -1;
  for (int d = 0; d < layout.ndim; ++d) {
    const auto at = static_cast<size_t>(d);
    if (layout.strides[2][at] != 0 && (cut < 0 || layout.sizes[at] > layout.sizes[static_cast<size_t>(cut)])) cut = d;
  }
  const auto walk = [&](const Layout<3>& part, int64_t from_offset, int64_t index_offset, int64_t to_offset) {
    const int64_t count = part.row_size();
    part.for_each_row(0, part.rows(), [&](const auto& offset) {
      const T* from = static_cast<const T*>(source) + from_offset + offset[0];
      const int64_t* at = index + index_offset + offset[1];
      T* to = static_cast<T*>(out) + to_offset + offset[2];
      for (int64_t i = 0; i < count; ++i)
        write(to[i * part.row_stride(2) + at[i * part.row_stride(1)] * out_step], from[i * part.row_stride(0)]);
    });
  };
  if (cut < 0) return walk(layout, 0, 0, 0);
  const auto d = static_cast<size_t>(cut);
  const int64_t size = layout.sizes[d];
  const int64_t elements = layout.rows() * n;
  const int64_t least = cut + 1 == layout.ndim ? 256 : 1;  // a row is read and written by cache lines
  parallel_for(size, std::max(least, kGrain / (elements / size)), [&](int64_t begin, int64_t end) {
    Layout<3> part = layout;
    part.sizes[d] = end - begin;
    walk(part, begin * layout.strides[0][d], begin * layout.strides[1][d], begin * layout.strides[2][d]);
  });
}

void scatter(Stream, int64_t element_bytes, const Layout<3>& layout, const void* source, const int64_t* index,
             void* out, int64_t out_step) {
  visit_size(element_bytes, [&](auto type) {
    using T = typename decltype(type)::type;
    scatter_rows<T>(layout, source, index, out, out_step, [](T& to, T from) { to = from; });
  });
}

void scatter_add(Stream, DType dtype, const Layout<3>& layout, const void* source, const int64_t* index, void* out,
                 int64_t out_step) {
  visit_sum(dtype, "scatter_add", [&](auto type) {
    using T = typename decltype(type)::type;
    scatter_rows<T>(layout, source, index, out, out_step, [](T& to, T from) { to += from; });
  });
}

void select(Stream, int64_t element_bytes, const void* x, int64_t outer, int64_t size, int64_t inner,
            const int64_t* index, int64_t n, void* out) {
  if (inner == 1) {
    visit_size(element_bytes, [&](auto type) {
      using T = typename decltype(type)::type;
      parallel_for(outer, std::max<int64_t>(1, kGrain / std::max<int64_t>(n, 1)), [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o) {
          const T* from = static_cast<const T*>(x) + o * size;
          T* to = static_cast<T*>(out) + o * n;
          for (int64_t i = 0; i < n; ++i) to[i] = from[index[i]];
        }
      });
    });
    return;
  }
  const int64_t bytes = inner * element_bytes;
  parallel_for(outer * n, std::max<int64_t>(1, kGrain / std::max<int64_t>(inner, 1)), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t from = row / n * size + index[row % n];
      std::memcpy(static_cast<char*>(out) + row * bytes, static_cast<const char*>(x) + from * bytes,
                  static_cast<size_t>(bytes));
    }
  });
}

void add(Stream, DType dtype, void* out, int64_t outer, int64_t size, int64_t inner, const int64_t* index, int64_t n,
         const void* source, double alpha) {
  visit_sum(dtype, "index_add", [&](auto type) {
    using T = typename decltype(type)::type;
    // Tiles are columns: each goes through all indices in order.
    constexpr int64_t width = 256;
    const int64_t tiles = (inner + width - 1) / width;
    const int64_t work = std::max<int64_t>(1, n * std::min(width, inner));
    const T factor = static_cast<T>(static_cast<std::conditional_t<std::is_integral_v<T>, int64_t, T>>(alpha));
    parallel_for(outer * tiles, std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        const int64_t column = t % tiles * width;
        const int64_t count = std::min(width, inner - column);
        const T* from = static_cast<const T*>(source) + t / tiles * n * inner + column;
        T* to = static_cast<T*>(out) + t / tiles * size * inner + column;
        for (int64_t i = 0; i < n; ++i) {
          T* row = to + index[i] * inner;
          for (int64_t j = 0; j < count; ++j) row[j] += factor * from[i * inner + j];
        }
      }
    });
  });
}

int64_t nonzero(Stream, const bool* flags, int64_t n, int64_t* out) {
  int64_t count = 0;
  if (!out) return std::count(flags, flags + n, true);
  for (int64_t i = 0; i < n; ++i)
    if (flags[i]) out[count++] = i;
  return count;
}

}  // namespace

const IndexKernels index_kernels = {
    .check = check,
    .gather = gather,
    .scatter = scatter,
    .scatter_add = scatter_add,
    .select = select,
    .add = add,
    .nonzero = nonzero,
    .sort = sort,
};

}  // namespace weft::cpu
