// A list of slices on the device, cut into tiles: what lets one launch work on thousands of arrays.
//
//   SliceTable<Entry> table(stream, entries, count);     // entries: a host array with a member `size` each
//   launch(kernel, table.grid(), dim3(kSliceThreads), 0, stream, table.device());
//
//   __global__ void kernel(SliceTableView<Entry> table) {
//     const SliceTile<Entry> tile = table.tile(blockIdx.x);     // tile.entry, elements [tile.begin, tile.end) of it
//
// The list travels in the arguments of small kernels that write it to device memory. Unlike a copy from host memory that
// is gone when the copy runs, this works on any stream, waits for nothing, and can be captured in a graph.
#pragma once
#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/base/device_memory.h"
#include "kernels/simt/simt.h"

namespace weft::WEFT_DEVICE {

constexpr int kSliceThreads = 256;
constexpr int64_t kSliceTile = 8192;  // elements a block takes; a tile lies in one slice

template <class Entry>
struct SliceTile {
  Entry entry;
  int64_t begin, end;
};

template <class Entry>
struct SliceTableView {
  const Entry* entries;
  const int64_t* first_tile;  // of each slice, and the number of all
  int64_t count;

  // Which slice a tile belongs to: the last that begins at it or before, found by halving.
  __device__ __forceinline__ SliceTile<Entry> tile(int64_t number) const {
    int64_t low = 0, high = count;
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      if (first_tile[middle] <= number)
        low = middle;
      else
        high = middle;
    }
    const Entry entry = entries[low];
    const int64_t begin = (number - first_tile[low]) * kSliceTile;
    return {entry, begin, begin + kSliceTile < entry.size ? begin + kSliceTile : entry.size};
  }
};

namespace detail {

constexpr int kUploadWords = 480;  // 8 bytes each: with the rest of the arguments just under the 4 KiB every GPU takes
struct UploadWords {
  uint64_t words[kUploadWords];
};

template <class = void>
__global__ void __launch_bounds__(kUploadWords) upload_words(UploadWords from, uint64_t* to, int count) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < count) to[i] = from.words[i];
}

}  // namespace detail

// Writes `bytes` (a multiple of 8) of host memory to device memory, in the order of the stream.
inline void upload(Stream stream, void* to, const void* from, int64_t bytes) {
  const int64_t words = bytes / 8;
  for (int64_t at = 0; at < words; at += detail::kUploadWords) {
    detail::UploadWords chunk{};
    const int64_t count = std::min<int64_t>(detail::kUploadWords, words - at);
    std::memcpy(chunk.words, static_cast<const uint64_t*>(from) + at, static_cast<size_t>(count * 8));
    launch(detail::upload_words<>, dim3(1), dim3(detail::kUploadWords), 0, stream, chunk,
           static_cast<uint64_t*>(to) + at, static_cast<int>(count));
  }
}

template <class Entry>
class SliceTable {
 public:
  static_assert(sizeof(Entry) % 8 == 0);

  // Slices without elements are left out.
  SliceTable(Stream stream, const Entry* entries, int64_t count) : SliceTable(stream, gather(entries, count)) {}

  int64_t tiles() const { return tiles_; }
  dim3 grid() const { return dim3(static_cast<unsigned>(tiles_)); }
  SliceTableView<Entry> device() const {
    const auto* first = memory_.template as<const int64_t>();
    return {reinterpret_cast<const Entry*>(first + count_ + 1), first, count_};
  }

 private:
  // The numbers of the first tiles, then the entries: as they lie in device memory.
  struct Image {
    std::vector<uint64_t> words;
    int64_t count = 0, tiles = 0;
  };
  static Image gather(const Entry* entries, int64_t count) {
    Image image;
    for (int64_t i = 0; i < count; ++i)
      if (entries[i].size > 0) ++image.count;
    image.words.resize(static_cast<size_t>(image.count + 1) + static_cast<size_t>(image.count) * sizeof(Entry) / 8);
    size_t first = 0;
    size_t entry = static_cast<size_t>(image.count + 1);
    for (int64_t i = 0; i < count; ++i) {
      if (entries[i].size <= 0) continue;
      image.words[first++] = static_cast<uint64_t>(image.tiles);
      std::memcpy(&image.words[entry], &entries[i], sizeof(Entry));
      entry += sizeof(Entry) / 8;
      image.tiles += (entries[i].size + kSliceTile - 1) / kSliceTile;
    }
    image.words[first] = static_cast<uint64_t>(image.tiles);
    return image;
  }
  SliceTable(Stream stream, const Image& image)
      : count_(image.count), tiles_(image.tiles), memory_(stream, static_cast<int64_t>(image.words.size() * 8)) {
    if (tiles_ > 0)
      upload(stream, memory_.template as<void>(), image.words.data(), static_cast<int64_t>(image.words.size() * 8));
  }

  int64_t count_, tiles_;
  ScratchBuffer memory_;
};

}  // namespace weft::WEFT_DEVICE
