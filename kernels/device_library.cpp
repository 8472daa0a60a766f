// The device library's one export. Compiled once into each: WEFT_DEVICE is cuda in libweft_cuda.so, simt in
// libweft_simt.so.
#include "kernels/base/device.h"
#include "kernels/device_table.h"

namespace weft::WEFT_DEVICE {
namespace {

constexpr KernelTable kernels = {
#define WEFT_FAMILY(name, Kernels) name##_kernels,
#include "kernels/families.def"
#undef WEFT_FAMILY
};
constexpr DeviceLibrary library = {&kernels, &device_runtime_table};

}  // namespace
}  // namespace weft::WEFT_DEVICE

extern "C" const weft::DeviceLibrary* weft_device_library() { return &weft::WEFT_DEVICE::library; }
