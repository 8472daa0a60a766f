#include "tensor/random.h"

#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

#include "kernels/base/error.h"

namespace weft {
namespace {

constexpr int kWords = 624;
constexpr int kShift = 397;
constexpr uint64_t kDefaultSeed = 67280421310721;  // torch's
constexpr char kStateTag[8] = {'w', 'e', 'f', 't', 'm', 't', '0', '1'};

template <class T>
T uniform(Generator& generator) {
  if constexpr (sizeof(T) == 4)
    return generator.uniform_f32();
  else
    return generator.uniform_f64();
}

template <class T>
void fill_uniform_impl(Generator& generator, T* out, int64_t count, double low, double high) {
  const T start = static_cast<T>(low);
  const T range = static_cast<T>(high) - start;
  for (int64_t i = 0; i < count; ++i) out[i] = uniform<T>(generator) * range + start;
}

// 16 uniforms become 16 normals, in place.
template <class T>
void box_muller_block(T* block, T mean, T deviation) {
  for (int j = 0; j < 8; ++j) {
    const T radius = std::sqrt(T(-2) * std::log(T(1) - block[j]));
    const T angle = T(2) * std::numbers::pi_v<T> * block[j + 8];
    block[j] = radius * std::cos(angle) * deviation + mean;
    block[j + 8] = radius * std::sin(angle) * deviation + mean;
  }
}

template <class T>
void fill_normal_impl(Generator& generator, T* out, int64_t count, double mean, double deviation) {
  if (count < 16) {
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<T>(generator.normal() * deviation + mean);
    return;
  }
  // Mean and deviation come last, so that the block drawn again starts from plain uniforms.
  for (int64_t i = 0; i < count; ++i) out[i] = uniform<T>(generator);
  const T m = static_cast<T>(mean), d = static_cast<T>(deviation);
  for (int64_t i = 0; i + 16 <= count; i += 16) box_muller_block(out + i, m, d);
  if (count % 16 != 0) {
    T* last = out + count - 16;
    for (int j = 0; j < 16; ++j) last[j] = uniform<T>(generator);
    box_muller_block(last, m, d);
  }
}

void append(std::vector<uint8_t>& bytes, uint64_t value, int size) {
  for (int i = 0; i < size; ++i) bytes.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

uint64_t take(const uint8_t*& from, int size) {
  uint64_t value = 0;
  for (int i = 0; i < size; ++i) value |= static_cast<uint64_t>(*from++) << (8 * i);
  return value;
}

}  // namespace

void Generator::manual_seed(uint64_t seed) {
  seed_ = seed;
  words_[0] = static_cast<uint32_t>(seed);
  for (uint32_t i = 1; i < kWords; ++i) words_[i] = 1812433253u * (words_[i - 1] ^ (words_[i - 1] >> 30)) + i;
  next_ = kWords;
  has_normal_ = false;
  kept_normal_ = 0;
}

void Generator::refill() {
  const auto twist = [](uint32_t upper, uint32_t lower) {
    const uint32_t mixed = (upper & 0x80000000u) | (lower & 0x7fffffffu);
    return (mixed >> 1) ^ ((lower & 1) ? 0x9908b0dfu : 0);
  };
  for (int i = 0; i < kWords; ++i) {
    const int after = i + 1 == kWords ? 0 : i + 1;
    const int far = i + kShift < kWords ? i + kShift : i + kShift - kWords;
    words_[i] = words_[far] ^ twist(words_[i], words_[after]);
  }
  next_ = 0;
}

uint32_t Generator::next_u32() {
  if (next_ == kWords) refill();
  uint32_t word = words_[next_++];
  word ^= word >> 11;
  word ^= (word << 7) & 0x9d2c5680u;
  word ^= (word << 15) & 0xefc60000u;
  return word ^ (word >> 18);
}

uint64_t Generator::next_u64() {
  const uint64_t upper = next_u32();
  return upper << 32 | next_u32();
}

float Generator::uniform_f32() { return static_cast<float>(next_u32() & 0xffffffu) * 0x1p-24f; }

double Generator::uniform_f64() { return static_cast<double>(next_u64() & ((uint64_t{1} << 53) - 1)) * 0x1p-53; }

double Generator::normal() {
  if (has_normal_) {
    has_normal_ = false;
    return kept_normal_;
  }
  const double angle = 2 * std::numbers::pi * uniform_f64();
  const double radius = std::sqrt(-2 * std::log1p(-uniform_f64()));
  kept_normal_ = radius * std::sin(angle);
  has_normal_ = true;
  return radius * std::cos(angle);
}

int64_t Generator::integer(int64_t low, int64_t high) {
  WEFT_CHECK(low < high, "randint", "expected low < high, got {} and {}", low, high);
  const uint64_t range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const uint64_t draw = range < (uint64_t{1} << 28) ? next_u32() % range : next_u64() % range;
  return static_cast<int64_t>(static_cast<uint64_t>(low) + draw);
}

int64_t Generator::random_i64() { return static_cast<int64_t>(next_u64() & 0x7fffffffffffffffu); }

int32_t Generator::random_i32() { return static_cast<int32_t>(next_u32() & 0x7fffffffu); }

bool Generator::bernoulli(double p) {
  WEFT_CHECK(p >= 0 && p <= 1, "bernoulli", "expected a probability from 0 to 1, got {}", p);
  return uniform_f64() < p;
}

double Generator::exponential(double rate) {
  WEFT_CHECK(rate > 0, "exponential", "expected a rate above 0, got {}", rate);
  return -std::log(1 - uniform_f64()) / rate;
}

void Generator::fill_uniform(float* out, int64_t count, double low, double high) {
  fill_uniform_impl(*this, out, count, low, high);
}
void Generator::fill_uniform(double* out, int64_t count, double low, double high) {
  fill_uniform_impl(*this, out, count, low, high);
}
void Generator::fill_normal(float* out, int64_t count, double mean, double deviation) {
  fill_normal_impl(*this, out, count, mean, deviation);
}
void Generator::fill_normal(double* out, int64_t count, double mean, double deviation) {
  fill_normal_impl(*this, out, count, mean, deviation);
}

void Generator::fill_permutation(int64_t* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = i;
  for (int64_t i = 0; i + 1 < count; ++i) {
    // One 32-bit word, as torch draws it: beyond 2^32 elements an element cannot travel further than 2^32 places.
    const int64_t z = static_cast<int64_t>(next_u32() % static_cast<uint64_t>(count - i));
    std::swap(out[i], out[i + z]);
  }
}

std::vector<uint8_t> Generator::save() const {
  std::vector<uint8_t> bytes(std::begin(kStateTag), std::end(kStateTag));
  bytes.reserve(sizeof(kStateTag) + kWords * 4 + 4 + 8 + 1 + 8);
  for (uint32_t word : words_) append(bytes, word, 4);
  append(bytes, static_cast<uint64_t>(next_), 4);
  append(bytes, seed_, 8);
  append(bytes, has_normal_, 1);
  uint64_t normal_bits;
  std::memcpy(&normal_bits, &kept_normal_, 8);
  append(bytes, normal_bits, 8);
  return bytes;
}

void Generator::load(const std::vector<uint8_t>& state) {
  constexpr size_t size = sizeof(kStateTag) + kWords * 4 + 4 + 8 + 1 + 8;
  if (state.size() != size || std::memcmp(state.data(), kStateTag, sizeof(kStateTag)) != 0)
    fail(ErrorCode::corrupt_data, "generator",
         "not a generator state: expected {} bytes that start with \"weftmt01\", got {}", size, state.size());
  const uint8_t* from = state.data() + sizeof(kStateTag);
  Generator loaded(0);
  for (uint32_t& word : loaded.words_) word = static_cast<uint32_t>(take(from, 4));
  const uint64_t next = take(from, 4);
  loaded.seed_ = take(from, 8);
  const uint64_t has_normal = take(from, 1);
  const uint64_t normal_bits = take(from, 8);
  if (next > kWords || has_normal > 1)
    fail(ErrorCode::corrupt_data, "generator", "the generator state is damaged: position {} of {}", next, kWords);
  loaded.next_ = static_cast<int>(next);
  loaded.has_normal_ = has_normal == 1;
  std::memcpy(&loaded.kept_normal_, &normal_bits, 8);
  *this = loaded;
}

Generator& default_generator() {
  static thread_local Generator generator(kDefaultSeed);
  return generator;
}

RandomStream& random_stream() {
  static thread_local RandomStream stream{.seed = kDefaultSeed};
  return stream;
}

void manual_seed(uint64_t seed) {
  default_generator().manual_seed(seed);
  random_stream() = RandomStream{.seed = seed};
}

}  // namespace weft
