// The lines of pointwise.def by family: calls WEFT_FAMILY_<family>(op, Functor, arity, rule) of the one that the
// including unit defines, and nothing for the others. Meant to be included once a Highway target.
#ifdef WEFT_FAMILY_arithmetic
#define WEFT_KEEP_arithmetic(...) WEFT_FAMILY_arithmetic(__VA_ARGS__)
#else
#define WEFT_KEEP_arithmetic(...)
#endif
#ifdef WEFT_FAMILY_exponential
#define WEFT_KEEP_exponential(...) WEFT_FAMILY_exponential(__VA_ARGS__)
#else
#define WEFT_KEEP_exponential(...)
#endif
#ifdef WEFT_FAMILY_activation
#define WEFT_KEEP_activation(...) WEFT_FAMILY_activation(__VA_ARGS__)
#else
#define WEFT_KEEP_activation(...)
#endif
#ifdef WEFT_FAMILY_comparison
#define WEFT_KEEP_comparison(...) WEFT_FAMILY_comparison(__VA_ARGS__)
#else
#define WEFT_KEEP_comparison(...)
#endif
#ifdef WEFT_FAMILY_loss
#define WEFT_KEEP_loss(...) WEFT_FAMILY_loss(__VA_ARGS__)
#else
#define WEFT_KEEP_loss(...)
#endif
#define WEFT_POINTWISE(op, Functor, family, arity, rule, ...) WEFT_KEEP_##family(op, Functor, arity, rule)
#include "kernels/pointwise/pointwise.def"
#undef WEFT_POINTWISE
#undef WEFT_KEEP_arithmetic
#undef WEFT_KEEP_exponential
#undef WEFT_KEEP_activation
#undef WEFT_KEEP_comparison
#undef WEFT_KEEP_loss
