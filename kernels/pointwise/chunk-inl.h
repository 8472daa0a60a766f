// From functors to chunk functions: loops over contiguous elements of one type, compiled once a Highway target.
//
// A family's unit (arithmetic.cpp …) is this header, the family's functors and the lines of pointwise.def that name it.
#if defined(WEFT_KERNELS_POINTWISE_CHUNK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_POINTWISE_CHUNK_INL_H_
#undef WEFT_KERNELS_POINTWISE_CHUNK_INL_H_
#else
#define WEFT_KERNELS_POINTWISE_CHUNK_INL_H_
#endif

#include <cstring>

#include "kernels/pointwise/apply-inl.h"
#include "kernels/pointwise/driver.h"

HWY_BEFORE_NAMESPACE();
namespace weft::HWY_NAMESPACE {

template <int arity, int input, class Functor, class T>
void chunk(const void* const* in, void* out, int64_t n, const double* parameters) {
  constexpr int operands = operands_read(arity, input);
  const Functor functor = functor_from<Functor>(parameters);
  T* result = static_cast<T*>(out);
  if constexpr (std::is_integral_v<T>) {
    for (int64_t i = 0; i < n; ++i) {
      Plain<T> values[operands];
      for (int k = 0; k < operands; ++k) values[k] = static_cast<const T*>(in[k])[i];
      result[i] = apply<arity, input>(functor, values).v;
    }
  } else {
    const typename Lanes<T>::D d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      Lanes<T> values[operands];
      for (int k = 0; k < operands; ++k) values[k] = hn::LoadU(d, static_cast<const T*>(in[k]) + i);
      hn::StoreU(apply<arity, input>(functor, values).v, d, result + i);
    }
    if (i < n) {  // the rest, in vectors padded with ones
      const size_t bytes = static_cast<size_t>(n - i) * sizeof(T);
      HWY_ALIGN T buffer[HWY_MAX_BYTES / sizeof(T)];
      Lanes<T> values[operands];
      for (int k = 0; k < operands; ++k) {
        hn::Store(hn::Set(d, T(1)), d, buffer);
        std::memcpy(buffer, static_cast<const T*>(in[k]) + i, bytes);
        values[k] = hn::Load(d, buffer);
      }
      hn::Store(apply<arity, input>(functor, values).v, d, buffer);
      std::memcpy(result + i, buffer, bytes);
    }
  }
}

template <class Functor, int arity, Rule rule, int input>
cpu::ChunkFunction chunk_of_pass(DType compute) {
  if constexpr (input < 0 || (input < arity && has_gradient(rule))) {
    if constexpr (has_floats(rule)) {
      if (compute == DType::f32) return chunk<arity, input, Functor, float>;
      if (compute == DType::f64) return chunk<arity, input, Functor, double>;
    }
    if constexpr (input < 0 && has_integers(rule))
      if (compute == DType::i64) return chunk<arity, input, Functor, int64_t>;
  }
  return nullptr;
}

template <class Functor, int arity, Rule rule>
cpu::ChunkFunction chunk_of(PointwisePass pass, DType compute) {
  switch (pass) {
    case PointwisePass::forward: return chunk_of_pass<Functor, arity, rule, -1>(compute);
    case PointwisePass::backward_0: return chunk_of_pass<Functor, arity, rule, 0>(compute);
    case PointwisePass::backward_1: return chunk_of_pass<Functor, arity, rule, 1>(compute);
    case PointwisePass::backward_2: return chunk_of_pass<Functor, arity, rule, 2>(compute);
  }
  return nullptr;
}

}  // namespace weft::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
