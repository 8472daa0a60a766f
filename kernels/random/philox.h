// Philox4x32-10, a random number generator without state: four words are a function of a key and a counter, so any
// thread of any device can have any of them at once (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3").
//
//   const std::array<uint32_t, 4> words = philox4x32_10({block, 0, step, op}, {seed_low, seed_high});
#pragma once
#include <array>
#include <cstdint>

namespace weft {

// Four random words for (key, counter).
constexpr std::array<uint32_t, 4> philox4x32_10(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = uint64_t{0xd2511f53u} * counter[0];
    const uint64_t second = uint64_t{0xcd9e8d57u} * counter[2];
    counter = {static_cast<uint32_t>(second >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(second),
               static_cast<uint32_t>(first >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(first)};
    key[0] += 0x9e3779b9u;
    key[1] += 0xbb67ae85u;
  }
  return counter;
}

}  // namespace weft
