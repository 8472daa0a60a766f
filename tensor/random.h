// Random numbers that are the same everywhere.
//
//   manual_seed(1);                       // this thread's default generator
//   Generator g(42); Tensor x = randn({3}, {}, &g);
//
// Generator is torch's CPU generator: mt19937 (Matsumoto & Nishimura 1998) with torch's recipes for uniform, normal
// and integer draws, so a seed gives the values torch gives. Philox (kernels/random/philox.h) is the counter-based
// generator behind dropout: a value depends only on (key, counter).
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "kernels/random/philox.h"

namespace weft {

class Generator {
 public:
  explicit Generator(uint64_t seed = 5489) { manual_seed(seed); }
  // Starts over. mt19937 itself takes 32 bits: of a larger seed its low ones.
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
  int64_t random_i64();  // uniform in [0, 2^63)
  int32_t random_i32();  // uniform in [0, 2^31)
  // True with probability p; throws unless 0 <= p <= 1.
  bool bernoulli(double p);
  // Exponential with the given rate; throws unless rate > 0.
  double exponential(double rate = 1);

  // Many at once, as torch fills a tensor: uniform in [low, high), and normal with this mean and deviation. From 16
  // normals on the recipe is not that of normal(): blocks of 16 uniforms become 16 normals, and of a last, partial
  // block the whole last 16 are drawn again.
  void fill_uniform(float* out, int64_t count, double low = 0, double high = 1);
  void fill_uniform(double* out, int64_t count, double low = 0, double high = 1);
  void fill_normal(float* out, int64_t count, double mean = 0, double deviation = 1);
  void fill_normal(double* out, int64_t count, double mean = 0, double deviation = 1);
  // A random order of 0 … count - 1.
  void fill_permutation(int64_t* out, int64_t count);

  // The whole state as bytes that load() takes back; save(load(s)) == s. load() throws corrupt_data on anything else.
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

// The calling thread's generator. Ranks that are threads each have their own; all start from torch's default seed.
Generator& default_generator();
// Seeds it, and the (seed, step, op) stream of dropout with it.
void manual_seed(uint64_t seed);

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
