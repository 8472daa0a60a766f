// How a functor is made of the parameters of a launch and applied to the values of its operands, whatever they are.
#if defined(WEFT_KERNELS_POINTWISE_APPLY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef WEFT_KERNELS_POINTWISE_APPLY_INL_H_
#undef WEFT_KERNELS_POINTWISE_APPLY_INL_H_
#else
#define WEFT_KERNELS_POINTWISE_APPLY_INL_H_
#endif

#include <cstring>
#include <type_traits>

#include "kernels/pointwise/vocabulary-inl.h"

// A functor names all operands of its op, also those that its formula does not need.
#pragma GCC diagnostic ignored "-Wunused-parameter"

WEFT_BEFORE_FUNCTORS();
namespace weft::WEFT_FUNCTORS {

template <class Functor>
WEFT_INLINE Functor functor_from(const double* parameters) {
  Functor functor{};
  if constexpr (!std::is_empty_v<Functor>) std::memcpy(static_cast<void*>(&functor), parameters, sizeof(Functor));
  return functor;
}

// One application: forward of `arity` inputs, or gradient `input` of inputs, y and dy.
template <int arity, int input, class Functor, class V>
WEFT_INLINE V apply(const Functor& f, const V* in) {
  if constexpr (input < 0) {
    if constexpr (arity == 1)
      return f.fwd(in[0]);
    else if constexpr (arity == 2)
      return f.fwd(in[0], in[1]);
    else
      return f.fwd(in[0], in[1], in[2]);
  } else {
    if constexpr (arity == 1)
      return f.template bwd<input>(in[0], in[1], in[2]);
    else if constexpr (arity == 2)
      return f.template bwd<input>(in[0], in[1], in[2], in[3]);
    else
      return f.template bwd<input>(in[0], in[1], in[2], in[3], in[4]);
  }
}

// How many operands a pass reads.
constexpr int operands_read(int arity, int input) { return input < 0 ? arity : arity + 2; }

// What pointwise.def says of a result, as three questions.
enum class Rule { floating, numeric, comparison, flat, integral };
constexpr bool has_floats(Rule rule) { return rule != Rule::integral; }
constexpr bool has_integers(Rule rule) { return rule != Rule::floating; }
constexpr bool has_gradient(Rule rule) { return rule == Rule::floating || rule == Rule::numeric; }

}  // namespace weft::WEFT_FUNCTORS
WEFT_AFTER_FUNCTORS();

#endif  // per-target include guard
