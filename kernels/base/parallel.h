// The one pool of compute threads.
//
//   parallel_for(rows, 64, [&](int64_t begin, int64_t end) { … });   // tiles of 64 rows
//
// Tiles are fixed by `total` and `tile` alone, never by the number of threads, so a kernel that accumulates per tile
// gives the same bits on any machine. The caller works too. Calls from several threads (ranks as threads) share the
// pool; a call from inside a tile runs inline. An exception from a tile reaches the caller, after all tiles ended.
#pragma once
#include <cstdint>
#include <memory>

namespace weft {

// Threads that compute, the caller included: WEFT_NUM_THREADS, else available cores ÷ LOCAL_WORLD_SIZE, at least 1.
int num_threads();
// Changes it for the process; throws unless 1 <= count <= 1024. Not to be called while kernels run.
void set_num_threads(int count);

namespace detail {
using TileFunction = void (*)(void* context, int64_t begin, int64_t end);
void run_tiles(int64_t total, int64_t tile, TileFunction function, void* context);
}  // namespace detail

// Calls f(begin, end) for consecutive ranges of at most `tile` that cover [0, total).
template <class F>
void parallel_for(int64_t total, int64_t tile, F&& f) {
  if (total <= 0) return;
  if (total <= tile) return f(int64_t{0}, total);
  using Function = std::remove_reference_t<F>;
  detail::run_tiles(
      total, tile, [](void* context, int64_t begin, int64_t end) { (*static_cast<Function*>(context))(begin, end); },
      const_cast<void*>(static_cast<const void*>(std::addressof(f))));
}

}  // namespace weft
