// The backward pass of layer norm and RMS norm on a device.
//
// The gradients of weight and bias are sums over all rows. Each block adds up a fixed tile of neighbouring rows, in the
// registers of the threads that own the columns; a second kernel adds the blocks' sums in order. So x and dy are read
// once for all three gradients, and the bits of the result depend on the shape alone. Rows too long for that take two
// kernels that read them twice.
#include "kernels/base/device_memory.h"
#include "kernels/norm/norm_device.h"
#include "kernels/simt/row.h"

namespace weft::WEFT_DEVICE {
namespace {

// Of a thread, for its part of each of four rows: a warp's block is small, so its threads may have many.
constexpr int kWarpRegisters = 32, kBlockRegisters = 16;
constexpr int kMaxParts = 512;  // tiles of rows at most: a few blocks for each multiprocessor
constexpr int kMinTileRows = 16;
constexpr int kColumns = 32, kSlices = 8;

// One launch; RMS norm has no mean, which counts as 0. Each of dx, dweight and dbias may be null.
template <class T>
struct Backward {
  using C = ComputeType<T>;
  const T* dy;
  const T* x;
  const T* weight;
  const C* mean;
  const C* rstd;
  T* dx;
  C* weight_parts;  // [parts, columns], or null
  C* bias_parts;
  int64_t rows;
  int64_t columns;
  int64_t tile;  // rows of a part

  __device__ __forceinline__ C center(int64_t row) const { return mean ? mean[row] : C(0); }
};

// Adds what each warp of the block holds for its columns into the block's part, in the order of the warps.
template <class Row, int width, class C, int count>
__device__ __forceinline__ void store_part(const C (&sums)[count], C* part, int size, C* shared) {
  const int warp = static_cast<int>(threadIdx.y), warps = static_cast<int>(blockDim.y);
  if (warps > 1) {
    // The element k of lane t lies at k · 32 + t: no two lanes meet in a bank.
    __syncthreads();
    for (int k = 0; k < count; ++k) shared[(warp * count + k) * 32 + static_cast<int>(threadIdx.x)] = sums[k];
    __syncthreads();
    if (warp > 0) return;
  }
  Row::for_each_pack(size, [&](int k, int i) {
    Pack<C, width> totals;
    for (int e = 0; e < width; ++e) {
      totals[e] = sums[k + e];
      for (int w = 1; w < warps; ++w) totals[e] += shared[(w * count + k + e) * 32 + static_cast<int>(threadIdx.x)];
    }
    store_pack(part + i, totals);
  });
}

template <class T, class Group, int width, int packs>
__global__ void __launch_bounds__(Group::kRows == 1 ? BlockGroup::kMaxThreads : 32 * WarpGroup::kRows)
    backward_held(Backward<T> p) {
  using C = ComputeType<T>;
  using Row = HeldRow<T, Group, width, packs>;
  constexpr int count = width * packs;
  __shared__ C shared[Group::kRows == 1 ? 1 : Group::kRows * count * 32];
  const auto size = static_cast<int>(p.columns);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * p.tile;
  const int64_t last = first + p.tile < p.rows ? first + p.tile : p.rows;
  C weight_sum[count], bias_sum[count];
  for (int k = 0; k < count; ++k) weight_sum[k] = bias_sum[k] = C(0);
  for (int64_t row = first + threadIdx.y; row < last; row += Group::kRows) {
    Row grad, h;
    grad.load(p.dy + row * size, size);
    h.load(p.x + row * size, size);
    const C center = p.center(row), rstd = p.rstd[row];
    Row::for_each(size, [&](int k, int) {
      h.values[k] -= center;
      weight_sum[k] += grad.values[k] * (h.values[k] * rstd);
      bias_sum[k] += grad.values[k];
    });
    if (!p.dx) continue;
    if (p.weight) {
      Row::for_each_pack(size, [&](int k, int i) {
        const auto weight = load_pack<width>(p.weight + i);
        for (int e = 0; e < width; ++e) grad.values[k + e] *= widen(weight[e]);
      });
    }
    C sum_g = 0, sum_gh = 0;
    Row::for_each(size, [&](int k, int) {
      sum_g += grad.values[k];
      sum_gh += grad.values[k] * (h.values[k] * rstd);
    });
    const C mean_g = p.mean ? Group::sum(sum_g) / static_cast<C>(size) : C(0);
    // dx = rstd · (g - mean(g) - b · (x - mean)), with rstd last: it is large where the others cancel.
    const C b = rstd * (Group::sum(sum_gh) / static_cast<C>(size));
    Row::for_each(size, [&](int k, int) { grad.values[k] = rstd * (grad.values[k] - mean_g - b * h.values[k]); });
    grad.store(p.dx + row * size, size);
  }
  const int64_t part = static_cast<int64_t>(blockIdx.x) * size;
  if (p.weight_parts) store_part<Row, width>(weight_sum, p.weight_parts + part, size, shared);
  if (p.bias_parts) store_part<Row, width>(bias_sum, p.bias_parts + part, size, shared);
}

// dx of a row of any length, by a block.
template <class T>
__global__ void __launch_bounds__(BlockGroup::kMaxThreads) backward_rows(Backward<T> p) {
  using C = ComputeType<T>;
  const int64_t row = BlockGroup::row();
  const T* dy = p.dy + row * p.columns;
  const T* x = p.x + row * p.columns;
  T* dx = p.dx + row * p.columns;
  const C center = p.center(row), rstd = p.rstd[row], n = static_cast<C>(p.columns);
  const int64_t head = common_head(p.columns, dy, x, dx);
  const auto weighted = [&](T grad, int64_t i) { return p.weight ? widen(grad) * widen(p.weight[i]) : widen(grad); };
  C sum_g = 0, sum_gh = 0;
  for_row<T, BlockGroup>(p.columns, head, [&](auto width, int64_t i) {
    const auto grad = load_pack<width>(dy + i), value = load_pack<width>(x + i);
    for (int e = 0; e < width; ++e) {
      const C g = weighted(grad[e], i + e);
      sum_g += g;
      sum_gh += g * ((widen(value[e]) - center) * rstd);
    }
  });
  const C mean_g = p.mean ? BlockGroup::sum(sum_g) / n : C(0);
  const C b = rstd * (BlockGroup::sum(sum_gh) / n);
  for_row<T, BlockGroup>(p.columns, head, [&](auto width, int64_t i) {
    auto grad = load_pack<width>(dy + i);
    const auto value = load_pack<width>(x + i);
    for (int e = 0; e < width; ++e)
      grad[e] = narrow<T>(rstd * (weighted(grad[e], i + e) - mean_g - b * (widen(value[e]) - center)));
    store_pack(dx + i, grad);
  });
}

// The parts of columns of rows of any length: a thread a column and slice of the tile.
template <class T>
__global__ void __launch_bounds__(kColumns* kSlices) backward_columns(Backward<T> p) {
  using C = ComputeType<T>;
  __shared__ C weight_sums[kSlices][kColumns];
  __shared__ C bias_sums[kSlices][kColumns];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const bool inside = column < p.columns;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * p.tile;
  const int64_t last = first + p.tile < p.rows ? first + p.tile : p.rows;
  C weight_sum = 0, bias_sum = 0;
  for (int64_t row = first + threadIdx.y; inside && row < last; row += kSlices) {
    const C grad = widen(p.dy[row * p.columns + column]);
    weight_sum += grad * ((widen(p.x[row * p.columns + column]) - p.center(row)) * p.rstd[row]);
    bias_sum += grad;
  }
  weight_sums[threadIdx.y][threadIdx.x] = weight_sum;
  bias_sums[threadIdx.y][threadIdx.x] = bias_sum;
  __syncthreads();
  if (threadIdx.y > 0 || !inside) return;
  for (int s = 1; s < kSlices; ++s) {
    weight_sum += weight_sums[s][threadIdx.x];
    bias_sum += bias_sums[s][threadIdx.x];
  }
  const int64_t at = static_cast<int64_t>(blockIdx.y) * p.columns + column;
  if (p.weight_parts) p.weight_parts[at] = weight_sum;
  if (p.bias_parts) p.bias_parts[at] = bias_sum;
}

// result[column] = sum of the parts [parts, columns], each slice in order and then the slices in order.
template <class T>
__global__ void __launch_bounds__(kColumns* kSlices)
    combine_parts(const ComputeType<T>* parts, int64_t count, int64_t columns, T* result) {
  using C = ComputeType<T>;
  __shared__ C sums[kSlices][kColumns];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kColumns + threadIdx.x;
  const bool inside = column < columns;
  C sum = 0;
  for (int64_t part = threadIdx.y; inside && part < count; part += kSlices) sum += parts[part * columns + column];
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || !inside) return;
  for (int s = 1; s < kSlices; ++s) sum += sums[s][threadIdx.x];
  result[column] = narrow<T>(sum);
}

// A tile's rows stay neighbours on every machine, so that the sums do as well.
int64_t rows_of_a_part(int64_t rows) { return std::max<int64_t>(kMinTileRows, (rows + kMaxParts - 1) / kMaxParts); }

template <class T>
void run_backward(Stream stream, Backward<T> p, T* dweight, T* dbias) {
  using C = ComputeType<T>;
  if (p.columns == 0) return;
  p.tile = rows_of_a_part(p.rows);
  const int64_t parts = (p.rows + p.tile - 1) / p.tile, part_size = parts * p.columns;
  const ScratchBuffer scratch(stream, std::max<int64_t>(1, 2 * part_size * static_cast<int64_t>(sizeof(C))));
  if (dweight) p.weight_parts = scratch.as<C>();
  if (dbias) p.bias_parts = scratch.as<C>() + part_size;
  if (p.rows > 0) {
    const bool held = visit_held<T, kWarpRegisters, kBlockRegisters>(
        p.columns, aligned_to_packs(p.x, p.dy, p.dx, p.weight), [&](auto group, auto width, auto packs, int threads) {
          using Group = decltype(group);
          launch(backward_held<T, Group, decltype(width)::value, decltype(packs)::value>,
                 dim3(static_cast<unsigned>(parts)), Group::block(threads), 0, stream, p);
        });
    if (!held) {
      // The sums first: dx may overwrite dy.
      const dim3 grid(static_cast<unsigned>((p.columns + kColumns - 1) / kColumns), static_cast<unsigned>(parts));
      if (dweight || dbias) launch(backward_columns<T>, grid, dim3(kColumns, kSlices), 0, stream, p);
      if (p.dx) launch(backward_rows<T>, BlockGroup::grid(p.rows), BlockGroup::block(), 0, stream, p);
    }
  }
  const dim3 grid(static_cast<unsigned>((p.columns + kColumns - 1) / kColumns));
  if (dweight)
    launch(combine_parts<T>, grid, dim3(kColumns, kSlices), 0, stream, p.weight_parts, parts, p.columns, dweight);
  if (dbias) launch(combine_parts<T>, grid, dim3(kColumns, kSlices), 0, stream, p.bias_parts, parts, p.columns, dbias);
}

}  // namespace

void layer_norm_backward(Stream stream, DType dtype, const void* dy, const void* x, const void* weight,
                         const void* mean, const void* rstd, void* dx, void* dweight, void* dbias, int64_t rows,
                         int64_t columns) {
  visit_device_floating(dtype, "layer_norm", [&](auto type) {
    using T = typename decltype(type)::type;
    using C = ComputeType<T>;
    run_backward(stream,
                 Backward<T>{static_cast<const T*>(dy), static_cast<const T*>(x), static_cast<const T*>(weight),
                             static_cast<const C*>(mean), static_cast<const C*>(rstd), static_cast<T*>(dx), nullptr,
                             nullptr, rows, columns, 0},
                 static_cast<T*>(dweight), static_cast<T*>(dbias));
  });
}

void rms_norm_backward(Stream stream, DType dtype, const void* dy, const void* x, const void* weight, const void* rstd,
                       void* dx, void* dweight, int64_t rows, int64_t columns) {
  visit_device_floating(dtype, "rms_norm", [&](auto type) {
    using T = typename decltype(type)::type;
    using C = ComputeType<T>;
    run_backward(
        stream,
        Backward<T>{static_cast<const T*>(dy), static_cast<const T*>(x), static_cast<const T*>(weight), nullptr,
                    static_cast<const C*>(rstd), static_cast<T*>(dx), nullptr, nullptr, rows, columns, 0},
        static_cast<T*>(dweight), static_cast<T*>(nullptr));
  });
}

}  // namespace weft::WEFT_DEVICE
