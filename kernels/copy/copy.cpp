#include "kernels/copy/copy.h"

#include <algorithm>
#include <cstring>

#include "kernels/base/layout.h"
#include "kernels/base/parallel.h"
#include "kernels/copy/convert.h"

namespace weft::cpu {
namespace {

constexpr int64_t kTile = 1 << 15;  // elements a thread takes at a time

template <class To, class From>
void convert_loop(const From* src, int64_t src_stride, To* dst, int64_t dst_stride, int64_t n) {
  if (src_stride == 1 && dst_stride == 1) {
    for (int64_t i = 0; i < n; ++i) dst[i] = convert_element<To>(src[i]);
  } else if (src_stride == 0) {
    const To value = convert_element<To>(*src);
    for (int64_t i = 0; i < n; ++i) dst[i * dst_stride] = value;
  } else {
    for (int64_t i = 0; i < n; ++i) dst[i * dst_stride] = convert_element<To>(src[i * src_stride]);
  }
}

// Same dtype: only the width matters.
template <class Word>
void move_row(const void* src, int64_t src_stride, void* dst, int64_t dst_stride, int64_t n) {
  convert_loop(static_cast<const Word*>(src), src_stride, static_cast<Word*>(dst), dst_stride, n);
}

void move_row_of(int64_t width, const void* src, int64_t src_stride, void* dst, int64_t dst_stride, int64_t n) {
  if (src_stride == 1 && dst_stride == 1) {
    std::memcpy(dst, src, static_cast<size_t>(n * width));
    return;
  }
  switch (width) {
    case 1: return move_row<uint8_t>(src, src_stride, dst, dst_stride, n);
    case 2: return move_row<uint16_t>(src, src_stride, dst, dst_stride, n);
    case 4: return move_row<uint32_t>(src, src_stride, dst, dst_stride, n);
    default: return move_row<uint64_t>(src, src_stride, dst, dst_stride, n);
  }
}

// A matrix whose columns are contiguous in src and whose rows are in dst: in square blocks, so that each cache line
// fetched is used whole.
template <class Word>
void transpose_blocks(const Word* src, int64_t src_row, int64_t src_column, Word* dst, int64_t dst_row, int64_t rows,
                      int64_t columns) {
  constexpr int64_t block = 16;
  for (int64_t r = 0; r < rows; r += block)
    for (int64_t c = 0; c < columns; c += block)
      for (int64_t i = r; i < std::min(r + block, rows); ++i)
        for (int64_t j = c; j < std::min(c + block, columns); ++j)
          dst[i * dst_row + j] = src[i * src_row + j * src_column];
}

void transpose_of(int64_t width, const char* src, int64_t src_row, int64_t src_column, char* dst, int64_t dst_row,
                  int64_t rows, int64_t columns) {
  const auto run = [&](auto word) {
    using Word = decltype(word);
    transpose_blocks(reinterpret_cast<const Word*>(src), src_row, src_column, reinterpret_cast<Word*>(dst), dst_row,
                     rows, columns);
  };
  switch (width) {
    case 1: return run(uint8_t{});
    case 2: return run(uint16_t{});
    case 4: return run(uint32_t{});
    default: return run(uint64_t{});
  }
}

void copy(Stream, int ndim, const int64_t* sizes, DType src_dtype, const void* src, const int64_t* src_strides,
          DType dst_dtype, void* dst, const int64_t* dst_strides) {
  Layout<2> layout;
  for (int d = 0; d < ndim; ++d) {
    if (sizes[d] == 0) return;
    layout.push(sizes[d], {src_strides[d], dst_strides[d]});
  }
  layout.collapse();
  const int64_t src_width = size_of(src_dtype);
  const int64_t dst_width = size_of(dst_dtype);
  const char* from = static_cast<const char*>(src);
  char* to = static_cast<char*>(dst);
  const int last = layout.ndim - 1;

  if (src_dtype == dst_dtype && layout.ndim >= 2 && layout.row_stride(1) == 1 && layout.row_stride(0) != 1 &&
      layout.strides[0][static_cast<size_t>(last - 1)] == 1 && layout.row_size() > 1) {
    // The two innermost dimensions are transposed: take them together, the others one by one.
    const auto inner = static_cast<size_t>(last - 1);
    const int64_t rows = layout.sizes[inner];
    const int64_t columns = layout.row_size();
    const int64_t dst_row = layout.strides[1][inner];
    const int64_t src_column = layout.row_stride(0);
    Layout<2> outer = layout;
    outer.sizes[inner] = 1;
    outer.sizes[static_cast<size_t>(last)] = 1;
    const int64_t matrices = outer.rows();
    const int64_t row_tile = std::max<int64_t>(16, kTile / std::max<int64_t>(columns, 1) / 16 * 16);
    const int64_t tiles = (rows + row_tile - 1) / row_tile;
    parallel_for(matrices * tiles, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        const int64_t row = task % tiles * row_tile;
        outer.for_each_row(task / tiles, task / tiles + 1, [&](const std::array<int64_t, 2>& offset) {
          transpose_of(src_width, from + (offset[0] + row) * src_width, 1, src_column,
                       to + (offset[1] + row * dst_row) * dst_width, dst_row, std::min(row_tile, rows - row), columns);
        });
      }
    });
    return;
  }

  const int64_t row_size = layout.row_size();
  const auto copy_row = [&](int64_t src_offset, int64_t dst_offset, int64_t n) {
    const void* s = from + src_offset * src_width;
    void* d = to + dst_offset * dst_width;
    if (src_dtype == dst_dtype)
      move_row_of(src_width, s, layout.row_stride(0), d, layout.row_stride(1), n);
    else
      convert_row(src_dtype, s, layout.row_stride(0), dst_dtype, d, layout.row_stride(1), n);
  };
  if (layout.ndim == 1) {
    parallel_for(row_size, kTile, [&](int64_t begin, int64_t end) {
      copy_row(begin * layout.row_stride(0), begin * layout.row_stride(1), end - begin);
    });
    return;
  }
  parallel_for(layout.rows(), std::max<int64_t>(1, kTile / row_size), [&](int64_t begin, int64_t end) {
    layout.for_each_row(begin, end,
                        [&](const std::array<int64_t, 2>& offset) { copy_row(offset[0], offset[1], row_size); });
  });
}

void fill(Stream, DType dtype, void* dst, int64_t n, double value) {
  visit_all(dtype, "fill", [&](auto type) {
    using T = typename decltype(type)::type;
    const T element = convert_element<T>(value);
    T* out = static_cast<T*>(dst);
    parallel_for(n, kTile, [&](int64_t begin, int64_t end) { std::fill(out + begin, out + end, element); });
  });
}

}  // namespace

void convert_row(DType from, const void* src, int64_t src_stride, DType to, void* dst, int64_t dst_stride, int64_t n) {
  visit_all(from, "cast", [&](auto from_type) {
    using From = typename decltype(from_type)::type;
    visit_all(to, "cast", [&](auto to_type) {
      using To = typename decltype(to_type)::type;
      convert_loop(static_cast<const From*>(src), src_stride, static_cast<To*>(dst), dst_stride, n);
    });
  });
}

extern constinit const CopyKernels copy_kernels = {.copy = copy, .fill = fill};

}  // namespace weft::cpu
