#include "distributed/comm/reduce.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace weft::comm {
namespace {

// The type in which elements of T are combined.
template <class T>
struct Accumulator {
  using type = T;
};
template <>
struct Accumulator<Half> {
  using type = float;
};
template <>
struct Accumulator<BFloat16> {
  using type = float;
};
template <>
struct Accumulator<Float8E4M3> {
  using type = float;
};
template <>
struct Accumulator<Float8E5M2> {
  using type = float;
};

struct Sum {
  template <class A>
  static A combine(A a, A b) {
    if constexpr (std::is_same_v<A, bool>) {
      return a | b;
    } else if constexpr (std::is_integral_v<A>) {
      return static_cast<A>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    } else {
      return a + b;
    }
  }
};

struct MeanOfTwo {
  template <class A>
  static A combine(A a, A b) {
    return (a + b) * A(0.5);  // a power of two: the same bits as the quotient
  }
};

struct Product {
  template <class A>
  static A combine(A a, A b) {
    if constexpr (std::is_same_v<A, bool>) {
      return a & b;
    } else if constexpr (std::is_integral_v<A>) {
      return static_cast<A>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    } else {
      return a * b;
    }
  }
};

struct Min {
  template <class A>
  static A combine(A a, A b) {
    return ((a < b) | (a != a)) ? a : b;  // a != a: NaN. If b is NaN the comparison is false and b is taken.
  }
};

struct Max {
  template <class A>
  static A combine(A a, A b) {
    return ((a > b) | (a != a)) ? a : b;
  }
};

// Turns the sum into the mean. For a power of two the product with the reciprocal has the same bits as the quotient.
template <class A>
struct Divide {
  A divisor;
  A reciprocal;
  bool exact;
  explicit Divide(int64_t n)
      : divisor(static_cast<A>(n)), reciprocal(A(1) / static_cast<A>(n)), exact((n & (n - 1)) == 0) {}
  void apply(A* values, int64_t count) const {
    if (exact) {
      for (int64_t i = 0; i < count; ++i) values[i] *= reciprocal;
    } else {
      for (int64_t i = 0; i < count; ++i) values[i] /= divisor;
    }
  }
};

// The case that carries most of the traffic, two ranks that reduce into both buffers: one pass, nothing in between.
template <class Op, class T>
void reduce_pair(T* __restrict a, T* __restrict b, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const T value = Op::combine(a[i], b[i]);
    a[i] = value;
    b[i] = value;
  }
}

template <class Op, class T>
void reduce_typed(bool mean, std::span<const void* const> sources, std::span<void* const> destinations, int64_t count) {
  using A = typename Accumulator<T>::type;
  if constexpr (std::is_same_v<A, T>) {
    if (sources.size() == 2 && destinations.size() == 2 && sources[0] == destinations[0] &&
        sources[1] == destinations[1]) {
      T* a = static_cast<T*>(destinations[0]);
      T* b = static_cast<T*>(destinations[1]);
      if constexpr (std::is_floating_point_v<T>) {
        if (mean) return reduce_pair<MeanOfTwo>(a, b, count);
      }
      return reduce_pair<Op>(a, b, count);
    }
  }
  constexpr int64_t kBlock = 1024;  // the accumulator stays in the first-level cache
  alignas(64) A block[kBlock];
  alignas(64) T rounded[std::is_same_v<A, T> ? 1 : kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    const T* first = static_cast<const T*>(sources[0]) + begin;
    if (sources.size() == 1) {
      for (int64_t i = 0; i < n; ++i) block[i] = static_cast<A>(first[i]);
    } else {
      const T* second = static_cast<const T*>(sources[1]) + begin;
      for (int64_t i = 0; i < n; ++i) block[i] = Op::combine(static_cast<A>(first[i]), static_cast<A>(second[i]));
    }
    for (size_t rank = 2; rank < sources.size(); ++rank) {
      const T* next = static_cast<const T*>(sources[rank]) + begin;
      for (int64_t i = 0; i < n; ++i) block[i] = Op::combine(block[i], static_cast<A>(next[i]));
    }
    if constexpr (std::is_floating_point_v<A>) {
      if (mean) Divide<A>(static_cast<int64_t>(sources.size())).apply(block, n);
    }
    const T* result;
    if constexpr (std::is_same_v<A, T>) {
      result = block;
    } else {
      for (int64_t i = 0; i < n; ++i) rounded[i] = T(block[i]);
      result = rounded;
    }
    for (void* destination : destinations)
      std::memcpy(static_cast<T*>(destination) + begin, result, static_cast<size_t>(n) * sizeof(T));
  }
}

}  // namespace

void reduce_elements(Reduce reduce, DType dtype, std::span<const void* const> sources,
                     std::span<void* const> destinations, int64_t count) {
  WEFT_CHECK(reduce != Reduce::mean || is_floating(dtype), "reduce",
             "the mean over ranks needs a floating dtype, got {}; reduce with sum and divide", dtype);
  if (count == 0 || sources.empty() || destinations.empty()) return;
  visit_all(dtype, "reduce", [&](auto type) {
    using T = typename decltype(type)::type;
    switch (reduce) {
      case Reduce::sum: return reduce_typed<Sum, T>(false, sources, destinations, count);
      case Reduce::mean: return reduce_typed<Sum, T>(true, sources, destinations, count);
      case Reduce::min: return reduce_typed<Min, T>(false, sources, destinations, count);
      case Reduce::max: return reduce_typed<Max, T>(false, sources, destinations, count);
      case Reduce::product: return reduce_typed<Product, T>(false, sources, destinations, count);
    }
  });
}

}  // namespace weft::comm
