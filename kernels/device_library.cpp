// The device library's one export. Compiled once into each: WEFT_DEVICE is cuda in libweft_cuda.so, simt in
// libweft_simt.so.
#include "kernels/base/device.h"
#include "kernels/device_table.h"

namespace weft::WEFT_DEVICE {
namespace {

constexpr KernelTable kernels = {
    pointwise_kernels, copy_kernels,  reduce_kernels,     gemm_kernels,      conv_kernels,
    softmax_kernels,   norm_kernels,  batch_norm_kernels, attention_kernels, loss_kernels,
    embedding_kernels, index_kernels, optimizer_kernels,  random_kernels,    resample_kernels,
};
constexpr DeviceLibrary library = {&kernels, &device_runtime_table};

}  // namespace
}  // namespace weft::WEFT_DEVICE

extern "C" const weft::DeviceLibrary* weft_device_library() { return &weft::WEFT_DEVICE::library; }
