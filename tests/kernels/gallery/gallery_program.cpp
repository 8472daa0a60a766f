// Runs kernels of the gallery, to be examined from outside:
//
//   weft kernel-check build/tests/kernels/gallery/kernel_gallery missing_barrier strided_loads-repaired
//
// Without a name: all, broken.
#include <fmt/format.h>

#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "kernels/simt/emulator/memory.h"
#include "tests/kernels/gallery/gallery.h"

namespace {

using weft::simt::gallery::Exhibit;

struct Named {
  const char* name;
  const Exhibit* exhibit;
};
const Named kExhibits[] = {
#define WEFT_NAME_EXHIBIT(name) {#name, &weft::simt::gallery::name},
    WEFT_GALLERY(WEFT_NAME_EXHIBIT)
#undef WEFT_NAME_EXHIBIT
};

struct FreeDevice {
  void operator()(float* memory) const { weft::emulator::free_memory(memory); }
};

void run(void (*exhibit)(weft::Stream, const float*, float*)) {
  constexpr size_t count = weft::simt::gallery::kElements;
  const auto allocate = [] {
    return std::unique_ptr<float, FreeDevice>(
        static_cast<float*>(weft::emulator::allocate_memory(count * sizeof(float))));
  };
  const auto x = allocate();
  const auto y = allocate();
  for (size_t i = 0; i < count; ++i) x.get()[i] = static_cast<float>(i * 37 % 101) / 101.0f;
  std::memset(y.get(), 0, count * sizeof(float));
  try {
    exhibit(weft::Stream{weft::Device::simt()}, x.get(), y.get());
  } catch (const std::exception&) {
    // What a broken kernel does to the launch is in the report.
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> names(argv + 1, argv + argc);
  for (const Named& named : kExhibits) {
    bool broken = names.empty();
    bool repaired = false;
    for (const std::string& name : names) {
      broken = broken || name == named.name;
      repaired = repaired || name == std::string(named.name) + "-repaired";
    }
    if (broken) run(named.exhibit->broken);
    if (repaired && named.exhibit->repaired) run(named.exhibit->repaired);
  }
  return 0;
}
