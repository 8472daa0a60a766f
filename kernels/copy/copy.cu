// Device copies. Four ways, the first that applies:
//
//   transpose  same dtype, and the dimension that is contiguous in one operand is not in the other: tiles of 32 × 32
//              go through shared memory, so that both sides are read and written along their contiguous dimension
//   words      same dtype: elements are moved as bits, in the largest words (up to 16 bytes) that all sizes, strides
//              and addresses are multiples of; a contiguous copy is a row of 16-byte words
//   packs      contiguous f32, f16, bf16 and bool converted into each other, four a thread
//   elements   everything else: converted by way of double, float or int64_t, whichever holds all values of the source
#include <algorithm>

#include "kernels/base/strided_index.h"
#include "kernels/copy/copy.h"
#include "kernels/copy/device_convert.h"
#include "kernels/device_table.h"

namespace weft::WEFT_DEVICE {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMaxBlocks = 4096;  // more of them loop

using Word16 = Pack<uint64_t, 2>;

dim3 blocks_for(int64_t count) {
  return dim3(static_cast<unsigned>(std::clamp<int64_t>((count + kThreads - 1) / kThreads, 1, kMaxBlocks)));
}
__device__ __forceinline__ int64_t first_item() { return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; }
__device__ __forceinline__ int64_t items_step() { return static_cast<int64_t>(gridDim.x) * kThreads; }

// --- the same dtype ------------------------------------------------------------------------------------------------

template <class Word>
__device__ __forceinline__ void move_word(const Word* from, Word* to) {
  if constexpr (sizeof(Word) == 16)
    store_pack(reinterpret_cast<uint64_t*>(to), load_pack<2>(reinterpret_cast<const uint64_t*>(from)));
  else
    *to = *from;
}

template <class Word>
__global__ void __launch_bounds__(kThreads)
    copy_words(const StridedIndex<2> index, int64_t count, const Word* src, Word* dst) {
  for (int64_t i = first_item(); i < count; i += items_step()) {
    int64_t at[2];
    index.offsets(i, at);
    move_word(src + at[0], dst + at[1]);
  }
}

// The largest word size that the copy can be done in: a power of two.
int64_t word_size(const Layout<2>& layout, int64_t element, const void* src, const void* dst, int64_t row_size) {
  if (layout.row_stride(0) != 1 || layout.row_stride(1) != 1) return element;
  uint64_t common = static_cast<uint64_t>(row_size * element) | reinterpret_cast<uintptr_t>(src) |
                    reinterpret_cast<uintptr_t>(dst) | 16;
  for (const auto& strides : layout.strides)
    for (int d = 0; d + 1 < layout.ndim; ++d)
      common |= static_cast<uint64_t>(std::abs(strides[static_cast<size_t>(d)] * element));
  return static_cast<int64_t>(common & (~common + 1));  // its lowest bit
}

template <class Word>
void launch_words(Stream stream, const Layout<2>& layout, int64_t element, const char* src, char* dst) {
  // Strides count elements; along the row a word holds `each` of them.
  const int64_t each = static_cast<int64_t>(sizeof(Word)) / element;
  StridedIndex<2> index;
  for (int d = 0; d < layout.ndim; ++d) {
    const auto at = static_cast<size_t>(d);
    if (d + 1 < layout.ndim)
      index.push(layout.sizes[at], {layout.strides[0][at] / each, layout.strides[1][at] / each});
    else
      index.push(layout.sizes[at] / each, {layout.strides[0][at], layout.strides[1][at]});
  }
  const int64_t count = index.count();
  launch(copy_words<Word>, blocks_for(count), dim3(kThreads), 0, stream, index, count,
         reinterpret_cast<const Word*>(src), reinterpret_cast<Word*>(dst));
}

void copy_as_words(Stream stream, Layout<2> layout, int64_t element, const char* src, char* dst) {
  // A single row that is no multiple of 16 bytes: all but its end in large words.
  const int64_t row = layout.row_size();
  const int64_t whole = row * element / 16 * 16 / element;
  if (layout.ndim == 1 && layout.row_stride(0) == 1 && layout.row_stride(1) == 1 && whole > 0 && whole < row &&
      word_size(layout, element, src, dst, whole) == 16) {
    layout.sizes[0] = whole;
    launch_words<Word16>(stream, layout, element, src, dst);
    layout.sizes[0] = row - whole;
    src += whole * element;
    dst += whole * element;
  }
  switch (word_size(layout, element, src, dst, layout.row_size())) {
    case 1: return launch_words<uint8_t>(stream, layout, element, src, dst);
    case 2: return launch_words<uint16_t>(stream, layout, element, src, dst);
    case 4: return launch_words<uint32_t>(stream, layout, element, src, dst);
    case 8: return launch_words<uint64_t>(stream, layout, element, src, dst);
    default: return launch_words<Word16>(stream, layout, element, src, dst);
  }
}

// --- transposes ----------------------------------------------------------------------------------------------------

constexpr int kTile = 32;
constexpr int kTileRows = 8;  // of threads; each moves kTile / kTileRows elements

// [rows, columns] matrices: rows contiguous in dst, columns in src; `outer` numbers them.
struct Transpose {
  StridedIndex<2> outer;
  int64_t matrices;
  int64_t rows, columns;
  int64_t src_column;  // the stride of a column in src; a row's is 1
  int64_t dst_row;     // the stride of a row in dst; a column's is 1
  int64_t row_tiles, column_tiles;
};

template <class Word>
__global__ void __launch_bounds__(kTile* kTileRows) transpose_tiles(const Transpose t, const Word* src, Word* dst) {
  // A row of a tile is one bank longer than the tile: the 32 words of a column then lie in 32 different banks.
  constexpr int padding = std::max<int>(1, 4 / static_cast<int>(sizeof(Word)));
  __shared__ Word tile[kTile][kTile + padding];
  const int64_t tiles = t.row_tiles * t.column_tiles;
  for (int64_t task = blockIdx.x; task < t.matrices * tiles; task += gridDim.x) {
    int64_t at[2];
    t.outer.offsets(task / tiles, at);
    const int64_t row = task % tiles / t.column_tiles * kTile;
    const int64_t column = task % tiles % t.column_tiles * kTile;
    for (int i = static_cast<int>(threadIdx.y); i < kTile; i += kTileRows) {
      const int64_t r = row + threadIdx.x;
      const int64_t c = column + i;
      if (r < t.rows && c < t.columns) tile[i][threadIdx.x] = src[at[0] + c * t.src_column + r];
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.y); i < kTile; i += kTileRows) {
      const int64_t r = row + i;
      const int64_t c = column + threadIdx.x;
      if (r < t.rows && c < t.columns) dst[at[1] + r * t.dst_row + c] = tile[threadIdx.x][i];
    }
    __syncthreads();
  }
}

template <class Word>
void launch_transpose(Stream stream, const Transpose& t, const void* src, void* dst) {
  const int64_t tasks = t.matrices * t.row_tiles * t.column_tiles;
  launch(transpose_tiles<Word>, dim3(static_cast<unsigned>(std::min<int64_t>(tasks, 8 * kMaxBlocks))),
         dim3(kTile, kTileRows), 0, stream, t, static_cast<const Word*>(src), static_cast<Word*>(dst));
}

// The dimension along which an operand is contiguous; -1 where there is none.
int contiguous_dim(const Layout<2>& layout, int operand) {
  for (int d = layout.ndim - 1; d >= 0; --d)
    if (layout.strides[static_cast<size_t>(operand)][static_cast<size_t>(d)] == 1) return d;
  return -1;
}

bool copy_transposed(Stream stream, const Layout<2>& layout, int64_t element, const void* src, void* dst) {
  const int from = contiguous_dim(layout, 0);
  const int to = contiguous_dim(layout, 1);
  if (from < 0 || to < 0 || from == to) return false;
  const auto r = static_cast<size_t>(from), c = static_cast<size_t>(to);
  if (layout.sizes[r] < 4 || layout.sizes[c] < 4) return false;  // most of a tile would be empty
  Transpose t{};
  for (int d = 0; d < layout.ndim; ++d) {
    const auto at = static_cast<size_t>(d);
    if (d != from && d != to) t.outer.push(layout.sizes[at], {layout.strides[0][at], layout.strides[1][at]});
  }
  t.matrices = t.outer.count();
  t.rows = layout.sizes[r];
  t.columns = layout.sizes[c];
  t.src_column = layout.strides[0][c];
  t.dst_row = layout.strides[1][r];
  t.row_tiles = (t.rows + kTile - 1) / kTile;
  t.column_tiles = (t.columns + kTile - 1) / kTile;
  switch (element) {
    case 1: launch_transpose<uint8_t>(stream, t, src, dst); break;
    case 2: launch_transpose<uint16_t>(stream, t, src, dst); break;
    case 4: launch_transpose<uint32_t>(stream, t, src, dst); break;
    default: launch_transpose<uint64_t>(stream, t, src, dst); break;
  }
  return true;
}

// --- different dtypes ----------------------------------------------------------------------------------------------

template <class C>
__global__ void __launch_bounds__(kThreads)
    convert_elements(const StridedIndex<2> index, int64_t count, DType from, const void* src, DType to, void* dst) {
  for (int64_t i = first_item(); i < count; i += items_step()) {
    int64_t at[2];
    index.offsets(i, at);
    store_as(to, dst, at[1], load_as<C>(from, src, at[0]));
  }
}

constexpr int kPack = 4;

__global__ void __launch_bounds__(kThreads)
    convert_packs(int64_t packs, DType from, const void* src, DType to, void* dst) {
  for (int64_t i = first_item(); i < packs; i += items_step()) {
    float values[kPack];
    load_pack_as(from, src, i * kPack, values);
    store_pack_as(to, dst, i * kPack, values);
  }
}

bool aligned_to_packs(const void* data, DType dtype) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uint64_t>(kPack * size_of(dtype)) == 0;
}

void convert(Stream stream, Layout<2> layout, DType from, const char* src, DType to, char* dst) {
  if (layout.ndim == 1 && layout.row_stride(0) == 1 && layout.row_stride(1) == 1 && has_packs(from) && has_packs(to) &&
      aligned_to_packs(src, from) && aligned_to_packs(dst, to)) {
    const int64_t packs = layout.row_size() / kPack;
    if (packs > 0) launch(convert_packs, blocks_for(packs), dim3(kThreads), 0, stream, packs, from, src, to, dst);
    layout.sizes[0] -= packs * kPack;
    if (layout.sizes[0] == 0) return;
    src += packs * kPack * size_of(from);
    dst += packs * kPack * size_of(to);
  }
  const StridedIndex<2> index(layout);
  const int64_t count = index.count();
  const auto go = [&](auto kernel) {
    launch(kernel, blocks_for(count), dim3(kThreads), 0, stream, index, count, from, src, to, dst);
  };
  if (from == DType::f64)
    go(convert_elements<double>);
  else if (is_floating(from))
    go(convert_elements<float>);
  else
    go(convert_elements<int64_t>);
}

void copy(Stream stream, int ndim, const int64_t* sizes, DType src_dtype, const void* src, const int64_t* src_strides,
          DType dst_dtype, void* dst, const int64_t* dst_strides) {
  Layout<2> layout;
  for (int d = 0; d < ndim; ++d) {
    if (sizes[d] == 0) return;
    layout.push(sizes[d], {src_strides[d], dst_strides[d]});
  }
  layout.collapse();
  if (src_dtype != dst_dtype)
    return convert(stream, layout, src_dtype, static_cast<const char*>(src), dst_dtype, static_cast<char*>(dst));
  const int64_t element = size_of(src_dtype);
  if (copy_transposed(stream, layout, element, src, dst)) return;
  copy_as_words(stream, layout, element, static_cast<const char*>(src), static_cast<char*>(dst));
}

// --- fill ----------------------------------------------------------------------------------------------------------

// `packs` 16-byte words of the pattern from dst on, then `rest` single elements.
template <class Word>
__global__ void __launch_bounds__(kThreads) fill_words(Word* dst, int64_t packs, int64_t rest, Word word) {
  constexpr int each = 16 / static_cast<int>(sizeof(Word));
  Pack<Word, each> pack;
  for (int e = 0; e < each; ++e) pack[e] = word;
  for (int64_t i = first_item(); i < packs; i += items_step()) store_pack(dst + i * each, pack);
  for (int64_t i = first_item(); i < rest; i += items_step()) dst[packs * each + i] = word;
}

template <class Word, class T>
void launch_fill(Stream stream, void* dst, int64_t n, T element) {
  const int64_t each = 16 / static_cast<int64_t>(sizeof(Word));
  const int64_t packs = reinterpret_cast<uintptr_t>(dst) % 16 == 0 ? n / each : 0;
  const int64_t rest = n - packs * each;
  launch(fill_words<Word>, blocks_for(std::max(packs, rest)), dim3(kThreads), 0, stream, static_cast<Word*>(dst), packs,
         rest, std::bit_cast<Word>(element));
}

void fill(Stream stream, DType dtype, void* dst, int64_t n, double value) {
  if (n == 0) return;
  visit_all(dtype, "fill", [&](auto type) {
    using T = typename decltype(type)::type;
    const T element = convert_element<T>(value);
    if constexpr (sizeof(T) == 1)
      launch_fill<uint8_t>(stream, dst, n, element);
    else if constexpr (sizeof(T) == 2)
      launch_fill<uint16_t>(stream, dst, n, element);
    else if constexpr (sizeof(T) == 4)
      launch_fill<uint32_t>(stream, dst, n, element);
    else
      launch_fill<uint64_t>(stream, dst, n, element);
  });
}

}  // namespace

extern constinit const CopyKernels copy_kernels = {.copy = copy, .fill = fill};

}  // namespace weft::WEFT_DEVICE
