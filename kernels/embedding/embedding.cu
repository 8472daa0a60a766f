// Embedding on a device: rows copied 16 bytes at a time, and the gradient added up in the order of the positions.
#include "kernels/embedding/embedding.h"

#include "kernels/device_table.h"
#include "kernels/index/add_rows.h"
#include "kernels/simt/fault.h"
#include "kernels/simt/row.h"

namespace weft::WEFT_DEVICE {
namespace {

constexpr unsigned kThreads = 256;

// threadIdx.y chooses a row, threadIdx.x its elements, `width` of them.
template <class T>
__global__ void __launch_bounds__(kThreads) copy_rows(const T* weight, const int64_t* indices, T* output, int64_t count,
                                                      int64_t vocabulary, int64_t width, FaultReport report) {
  const int64_t row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  if (row >= count) return;
  const int64_t index = indices[row];
  if (index < 0 || index >= vocabulary) {
    if (threadIdx.x == 0) report.raise(row, index, 0, vocabulary);
    return;
  }
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x) output[row * width + i] = weight[index * width + i];
}

template <class T>
void run_copy(Stream stream, const void* weight, const int64_t* indices, void* output, int64_t count,
              int64_t vocabulary, int64_t width) {
  unsigned columns = 1;
  while (columns < kThreads && columns < width) columns *= 2;
  const dim3 block(columns, kThreads / columns);
  launch(copy_rows<T>, dim3(static_cast<unsigned>((count + block.y - 1) / block.y)), block, 0, stream,
         static_cast<const T*>(weight), indices, static_cast<T*>(output), count, vocabulary, width,
         FaultReport(stream, "embedding"));
}

void forward(Stream stream, DType dtype, const void* weight, const int64_t* indices, void* output, int64_t count,
             int64_t vocabulary, int64_t width) {
  const int64_t bytes = width * size_of(dtype);
  if (count == 0 || bytes == 0) return;
  const auto run = [&](auto type) {
    using T = typename decltype(type)::type;
    run_copy<T>(stream, weight, indices, output, count, vocabulary, bytes / static_cast<int64_t>(sizeof(T)));
  };
  if (bytes % 16 == 0 && aligned_to_packs(weight, output)) return run(TypeTag<uint4>{});
  switch (size_of(dtype)) {
    case 8: return run(TypeTag<uint64_t>{});
    case 4: return run(TypeTag<uint32_t>{});
    case 2: return run(TypeTag<uint16_t>{});
    default: return run(TypeTag<uint8_t>{});
  }
}

void backward(Stream stream, DType dtype, const void* dy, const int64_t* indices, void* dweight, int64_t count,
              int64_t vocabulary, int64_t width, int64_t padding_index) {
  visit_device_floating(dtype, "embedding", [&](auto type) {
    using T = typename decltype(type)::type;
    add_rows<T>(stream, "embedding", static_cast<const T*>(dy), indices, count, {1, vocabulary, width, padding_index},
                ComputeType<T>(1), static_cast<T*>(dweight));
  });
}

}  // namespace

extern constinit const EmbeddingKernels embedding_kernels = {.forward = forward, .backward = backward};

}  // namespace weft::WEFT_DEVICE
