#include "kernels/reduce/walk.h"

#include <algorithm>
#include <cstddef>

#include "kernels/base/parallel.h"
#include "kernels/base/scratch.h"

namespace weft::cpu {
namespace {

constexpr int64_t kMaxAccumulator = 24;

// Walks some dimensions (all of `dims` but the last `skip`) in row-major order, giving each position's offset.
class Cursor {
 public:
  Cursor(const ReduceLayout::Dims& dims, int skip, int64_t start)
      : dims_(dims), count_(std::max(dims.count - skip, 0)) {
    for (int d = count_ - 1; d >= 0 && start > 0; --d) {
      index_[d] = start % dims_.sizes[d];
      start /= dims_.sizes[d];
      offset_ += index_[d] * dims_.strides[d];
    }
  }
  int64_t offset() const { return offset_; }
  void next() {
    for (int d = count_ - 1; d >= 0; --d) {
      offset_ += dims_.strides[d];
      if (++index_[d] < dims_.sizes[d]) return;
      offset_ -= index_[d] * dims_.strides[d];
      index_[d] = 0;
    }
  }

 private:
  const ReduceLayout::Dims& dims_;
  int count_;
  int64_t index_[ReduceLayout::kMaxDims] = {};
  int64_t offset_ = 0;
};

// Calls f(offset, length, stride, first) for the runs along the innermost reduced dimension that cover the reduced
// elements [begin, end).
template <class F>
void for_each_run(const ReduceLayout::Dims& reduced, int64_t begin, int64_t end, F&& f) {
  if (begin >= end) return;
  if (reduced.count <= 1) {
    const int64_t stride = reduced.count ? reduced.strides[0] : 1;
    return f(begin * stride, end - begin, stride, begin);
  }
  const int64_t size = reduced.sizes[reduced.count - 1];
  const int64_t stride = reduced.strides[reduced.count - 1];
  Cursor cursor(reduced, 1, begin / size);
  for (int64_t at = begin; at < end;) {
    const int64_t inside = at % size;
    const int64_t length = std::min(size - inside, end - at);
    f(cursor.offset() + inside * stride, length, stride, at);
    at += length;
    cursor.next();
  }
}

struct Partials;

struct Walk {
  const ReduceOp& op;
  const std::byte* x;
  const ReduceLayout& layout;
  int64_t outputs;
  int64_t count;

  const std::byte* element(int64_t offset) const { return x + offset * op.element_bytes; }

  // Each output on its own, along runs.
  void along_runs() const {
    if (outputs >= 16 || count < 2 * kGrain) {
      parallel_for(outputs, std::max<int64_t>(1, kGrain / std::max<int64_t>(count, 1)),
                   [&](int64_t begin, int64_t end) {
                     alignas(8) std::byte accumulator[kMaxAccumulator];
                     Cursor kept(layout.kept, 0, begin);
                     for (int64_t k = begin; k < end; ++k, kept.next()) {
                       reduce_run(accumulator, kept.offset(), 0, count);
                       op.emit(accumulator, 1, count, k);
                     }
                   });
      return;
    }
    // Few outputs of many elements: each is cut into chunks, added up in order.
    const int64_t chunks = std::min<int64_t>(64, count / kGrain);
    const int64_t chunk = (count + chunks - 1) / chunks;
    std::byte* partials = scratch<Partials, std::byte>(outputs * chunks * op.accumulator_bytes);
    parallel_for(outputs * chunks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Cursor kept(layout.kept, 0, i / chunks);
        const int64_t from = std::min(count, i % chunks * chunk);
        reduce_run(partials + i * op.accumulator_bytes, kept.offset(), from, std::min(count, from + chunk));
      }
    });
    add_up(partials, outputs, chunks, 1);
  }

  // A row of outputs at once, where the innermost kept dimension is contiguous.
  void along_rows() const {
    const int64_t inner = layout.kept.sizes[layout.kept.count - 1];
    const int64_t outer = outputs / inner;
    if (outputs < 512 && outputs * count >= 2 * kGrain) {
      // Few columns of many rows: cut by rows, whose partial results are added up in order.
      const int64_t chunks = std::min<int64_t>({32, outputs * count / kGrain, count});
      const int64_t chunk = (count + chunks - 1) / chunks;
      std::byte* partials = scratch<Partials, std::byte>(outputs * chunks * op.accumulator_bytes);
      parallel_for(outer * chunks, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          const Cursor kept(layout.kept, 1, i / chunks);
          const int64_t from = std::min(count, i % chunks * chunk);
          std::byte* accumulators = partials + i * inner * op.accumulator_bytes;
          op.identity(accumulators, inner);
          for (int64_t column = 0; column < inner; column += kMaxWidth)
            reduce_rows(accumulators + column * op.accumulator_bytes, std::min(kMaxWidth, inner - column),
                        kept.offset() + column, from, std::min(count, from + chunk));
        }
      });
      add_up(partials, outer, chunks, inner);
      return;
    }
    const int64_t width = std::clamp<int64_t>((inner / 8 + 15) / 16 * 16, 64, kMaxWidth);
    const int64_t tiles = (inner + width - 1) / width;
    const int64_t work = std::max<int64_t>(1, std::min(width, inner) * count);
    parallel_for(outer * tiles, std::max<int64_t>(1, kGrain / work), [&](int64_t begin, int64_t end) {
      alignas(64) std::byte accumulators[kMaxWidth * kMaxAccumulator];
      for (int64_t i = begin; i < end; ++i) {
        const Cursor kept(layout.kept, 1, i / tiles);
        const int64_t column = i % tiles * width;
        const int64_t n = std::min(width, inner - column);
        op.identity(accumulators, n);
        reduce_rows(accumulators, n, kept.offset() + column, 0, count);
        op.emit(accumulators, n, count, i / tiles * inner + column);
      }
    });
  }

 private:
  void reduce_run(std::byte* accumulator, int64_t base, int64_t begin, int64_t end) const {
    op.identity(accumulator, 1);
    for_each_run(layout.reduced, begin, end, [&](int64_t offset, int64_t length, int64_t stride, int64_t first) {
      op.run(accumulator, element(base + offset), length, stride, first);
    });
  }

  void reduce_rows(std::byte* accumulators, int64_t width, int64_t base, int64_t begin, int64_t end) const {
    for_each_run(layout.reduced, begin, end, [&](int64_t offset, int64_t length, int64_t stride, int64_t first) {
      for (int64_t row = 0; row < length; row += kRowBlock)
        op.rows(accumulators, width, element(base + offset + row * stride), std::min(kRowBlock, length - row), stride,
                first + row);
    });
  }

  // partials: [outer, chunks, inner].
  void add_up(std::byte* partials, int64_t outer, int64_t chunks, int64_t inner) const {
    const int64_t step = inner * op.accumulator_bytes;
    for (int64_t o = 0; o < outer; ++o) {
      std::byte* first = partials + o * chunks * step;
      for (int64_t c = 1; c < chunks; ++c) op.combine(first, first + c * step, inner);
      op.emit(first, inner, count, o * inner);
    }
  }
};

}  // namespace

void walk(const ReduceOp& op, const void* x, const ReduceLayout& layout) {
  const Walk walk{op, static_cast<const std::byte*>(x), layout, layout.kept.numel(), layout.reduced.numel()};
  if (walk.outputs == 0) return;
  const ReduceLayout::Dims& kept = layout.kept;
  const ReduceLayout::Dims& reduced = layout.reduced;
  const bool rows = kept.count > 0 && kept.strides[kept.count - 1] == 1 &&
                    !(reduced.count > 0 && reduced.strides[reduced.count - 1] == 1);
  if (rows)
    walk.along_rows();
  else
    walk.along_runs();
}

}  // namespace weft::cpu
