// Dropout's mask on devices: the bits of the CPU's, whatever part of the sequence a launch draws.
#include "kernels/random/random.h"

#include "kernels/random/philox.h"
#include "tests/kernels/device_test.h"

namespace weft {
namespace {

// Philox4x32-10's known answers (Random123, kat_vectors).
static_assert(philox4x32_10({0, 0, 0, 0}, {0, 0}) ==
              std::array<uint32_t, 4>{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});

TEST(RandomDevice, KeepMask) {
  on_devices([](const TestDevice& device) {
    for (const uint64_t first : {uint64_t{0}, uint64_t{5}, (uint64_t{1} << 34) - 2}) {
      for (const int64_t n : {0, 1, 3, 4, 1026}) {
        for (const double p : {0.0, 0.3, 1.0}) {
          for (const size_t shift : {0u, 1u}) {
            SCOPED_TRACE(testing::Message() << "first " << first << " n " << n << " p " << p << " shift " << shift);
            const RandomKey key{.seed = 0x123456789abcdef0u, .step = 7, .op = 3};
            std::vector<float> expected(static_cast<size_t>(n));
            DeviceArray<float> mask(device, expected.size(), shift);
            cpu::random_kernels.keep_mask({}, key, first, p, expected.data(), n);
            device.kernels().random.keep_mask(device.stream(), key, first, p, mask.data(), n);
            device.synchronize();
            expect_same_bits(mask.host(), expected);
          }
        }
      }
    }
  });
}

}  // namespace
}  // namespace weft
