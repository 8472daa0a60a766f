// Random numbers that are the same everywhere.
//
//   manual_seed(1);                       // this thread's default generator
//   Generator g(42); Tensor x = randn({3}, {}, &g);
//
// Generator is torch's CPU generator: mt19937 (Matsumoto & Nishimura 1998) with torch's recipes for uniform, normal
// and integer draws, so a seed gives the values torch gives. Philox is the counter-based generator (Salmon et al. 2011,
// "Parallel random numbers: as easy as 1, 2, 3", Philox4x32-10) behind dropout: a value depends only on (key, counter).
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

class Generator {
 public:
  explicit Generator(uint64_t seed = 5489) { manual_seed(seed); }
  void manual_seed(uint64_t seed);
  uint64_t seed() const { return seed_; }

  uint32_t next_u32();
  uint64_t next_u64();  // two words: the first is the upper half
  // Uniform in [0, 1): 24 random bits (f32) or 53 (f64).
  float uniform_f32();
  double uniform_f64();
  // One normal draw, by the Box-Muller transform; two uniforms give two normals, the second is kept for the next call.
  double normal();
  // Uniform in [low, high). Throws unless low < high.
  int64_t integer(int64_t low, int64_t high);

  // The whole state as bytes that load() takes back; save(load(s)) == s.
  std::vector<uint8_t> save() const;
  void load(const std::vector<uint8_t>& state);

 private:
  void refill();
  std::array<uint32_t, 624> words_{};
  int next_ = 624;
  uint64_t seed_ = 0;
  bool has_normal_ = false;
  double kept_normal_ = 0;
};

// The calling thread's generator. Ranks that are threads each have their own.
Generator& default_generator();
// Seeds it, and the (seed, step, op) stream of dropout with it.
void manual_seed(uint64_t seed);

// Four random words for (key, counter).
std::array<uint32_t, 4> philox4x32_10(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// The stream that keyed ops such as dropout draw from: every call is one op; `step` is set by the training loop.
// A value depends on (seed, step, op, element), never on the world size or on threads.
struct RandomStream {
  uint64_t seed = 0;
  uint32_t step = 0;
  uint32_t op = 0;
  uint64_t sample_offset = 0;  // the global index of this rank's first sample, so that ranks draw disjoint parts
};
RandomStream& random_stream();

}  // namespace weft
