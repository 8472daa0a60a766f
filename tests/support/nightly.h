// How far a test goes: `./dev test` wants an answer in minutes, `./dev test --nightly` has the night.
//
//   for (int round = 0; round < rounds(20, 2000); ++round) …
//   for (int ranks : values({1, 2, 3}, {5, 8})) …               // the second list by night only
#pragma once
#include <cstdlib>
#include <vector>

namespace weft::test {

// ./dev test --nightly sets WEFT_NIGHTLY.
inline bool nightly() {
  const char* value = std::getenv("WEFT_NIGHTLY");
  return value && *value;
}

inline int rounds(int by_day, int by_night) { return nightly() ? by_night : by_day; }

inline std::vector<int> values(std::vector<int> always, const std::vector<int>& by_night) {
  if (nightly()) always.insert(always.end(), by_night.begin(), by_night.end());
  return always;
}

}  // namespace weft::test
