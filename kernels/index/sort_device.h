// Sorting on a device: each of many rows of keys together with their positions, so that equal keys stay in order.
//
//   struct Keys {   // a row's key, as an unsigned integer in the wanted order
//     const int64_t* index;
//     __device__ uint64_t operator()(int64_t row, int64_t i) const { return static_cast<uint64_t>(index[row * n + i]); }
//   };
//   const SortedRows<uint64_t> sorted(stream, rows, n, Keys{index});
//   launch(…, sorted.keys(), sorted.positions());   // [rows, n] each
//
// Tiles of 1024 entries are sorted in shared memory by a bitonic network (Batcher 1968), several short rows a tile.
// Longer rows are then merged from runs of twice the length at a time: an entry finds its place by a binary search in
// the other run. Positions make all entries different, which makes any of these algorithms stable.
#pragma once
#include <algorithm>
#include <limits>

#include "kernels/base/device_memory.h"
#include "kernels/base/error.h"
#include "kernels/simt/simt.h"

namespace weft::WEFT_DEVICE {

inline constexpr int kSortTile = 1024;
inline constexpr int kSortThreads = 256;

// Segments of `segment` entries (a power of two), of which a row has `row_segments`, each sorted by itself.
template <class K, class Load>
__global__ void __launch_bounds__(kSortThreads)
    sort_tiles(Load load, int64_t rows, int64_t n, int segment, int64_t row_segments, K* keys, uint32_t* positions) {
  __shared__ K tile_keys[kSortTile];
  __shared__ uint32_t tile_positions[kSortTile];
  // Where entry i of the tile belongs: a row and a place in it, outside for the filling at a segment's end.
  const auto row_of = [&](int i) {
    return (static_cast<int64_t>(blockIdx.x) * (kSortTile / segment) + i / segment) / row_segments;
  };
  const auto place_of = [&](int i) {
    const int64_t number = static_cast<int64_t>(blockIdx.x) * (kSortTile / segment) + i / segment;
    return number % row_segments * segment + i % segment;
  };
  for (int i = static_cast<int>(threadIdx.x); i < kSortTile; i += kSortThreads) {
    const int64_t row = row_of(i), place = place_of(i);
    const bool inside = row < rows && place < n;
    tile_keys[i] = inside ? load(row, place) : std::numeric_limits<K>::max();
    tile_positions[i] = inside ? static_cast<uint32_t>(place) : std::numeric_limits<uint32_t>::max();
  }
  for (int length = 2; length <= segment; length *= 2) {
    for (int distance = length / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int pair = static_cast<int>(threadIdx.x); pair < kSortTile / 2; pair += kSortThreads) {
        const int a = pair / distance * 2 * distance + pair % distance, b = a + distance;
        const bool rising = ((a % segment) & length) == 0;
        const K key_a = tile_keys[a], key_b = tile_keys[b];
        const uint32_t position_a = tile_positions[a], position_b = tile_positions[b];
        const bool ordered = key_a < key_b || (key_a == key_b && position_a < position_b);
        if (ordered != rising) {
          tile_keys[a] = key_b;
          tile_keys[b] = key_a;
          tile_positions[a] = position_b;
          tile_positions[b] = position_a;
        }
      }
    }
  }
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < kSortTile; i += kSortThreads) {
    const int64_t row = row_of(i), place = place_of(i);
    if (row >= rows || place >= n) continue;
    keys[row * n + place] = tile_keys[i];
    positions[row * n + place] = tile_positions[i];
  }
}

// Merges neighbouring runs of `run` entries; the last of a row may be shorter or alone.
template <class K>
__global__ void __launch_bounds__(kSortThreads)
    merge_runs(const K* keys, const uint32_t* positions, int64_t rows, int64_t n, int64_t run, K* merged_keys,
               uint32_t* merged_positions) {
  const int64_t entry = static_cast<int64_t>(blockIdx.x) * kSortThreads + threadIdx.x;
  if (entry >= rows * n) return;
  const int64_t begin = entry / n * n, place = entry - begin;
  const int64_t first = place / (2 * run) * (2 * run);
  const int64_t middle = first + run < n ? first + run : n, last = first + 2 * run < n ? first + 2 * run : n;
  const bool left = place < middle;
  const K key = keys[entry];
  const uint32_t position = positions[entry];
  // How many entries of the other run come before this one.
  int64_t low = left ? middle : first;
  const int64_t other = low;
  int64_t high = left ? last : middle;
  while (low < high) {
    const int64_t probe = (low + high) / 2;
    const K other_key = keys[begin + probe];
    if (other_key < key || (other_key == key && positions[begin + probe] < position))
      low = probe + 1;
    else
      high = probe;
  }
  const int64_t target = begin + (left ? place : first + place - middle) + (low - other);
  merged_keys[target] = key;
  merged_positions[target] = position;
}

template <class K>
class SortedRows {
 public:
  // K is uint32_t or uint64_t. n < 2^32.
  template <class Load>
  SortedRows(Stream stream, int64_t rows, int64_t n, const Load& load)
      : memory_(stream, std::max<int64_t>(1, 2 * rows * n * static_cast<int64_t>(sizeof(K) + sizeof(uint32_t)))) {
    WEFT_CHECK(n < std::numeric_limits<uint32_t>::max(), "sort", "rows of {} elements are too long to sort", n);
    const int64_t count = rows * n;
    // Two of each; the larger type first keeps both aligned.
    K* keys[2] = {memory_.as<K>(), memory_.as<K>() + count};
    auto* first_position = reinterpret_cast<uint32_t*>(memory_.as<K>() + 2 * count);
    uint32_t* positions[2] = {first_position, first_position + count};
    int now = 0;
    if (count > 0) {
      int segment = 1;
      while (segment < n && segment < kSortTile) segment *= 2;
      const int64_t row_segments = (n + segment - 1) / segment;
      const int64_t segments = rows * row_segments, in_tile = kSortTile / segment;
      launch(sort_tiles<K, Load>, dim3(static_cast<unsigned>((segments + in_tile - 1) / in_tile)), dim3(kSortThreads),
             0, stream, load, rows, n, segment, row_segments, keys[0], positions[0]);
      const dim3 grid(static_cast<unsigned>((count + kSortThreads - 1) / kSortThreads));
      for (int64_t run = segment; run < n; run *= 2, now = 1 - now)
        launch(merge_runs<K>, grid, dim3(kSortThreads), 0, stream, keys[now], positions[now], rows, n, run,
               keys[1 - now], positions[1 - now]);
    }
    keys_ = keys[now];
    positions_ = positions[now];
  }
  const K* keys() const { return keys_; }
  const uint32_t* positions() const { return positions_; }

 private:
  ScratchBuffer memory_;
  const K* keys_ = nullptr;
  const uint32_t* positions_ = nullptr;
};

}  // namespace weft::WEFT_DEVICE
