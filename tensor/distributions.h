// Random tensors of given distributions, beside the randn, rand, randint and randperm of factory.h.
//
//   Tensor noise = normal(0, 0.1, x.shape());
//   Tensor next = multinomial(softmax(logits, -1), 1);      // [m, 1] categories
//
// Values come from `generator` (default: this thread's, see random.h): one seed gives the same ones on every device.
// normal, uniform and bernoulli draw as torch's CPU generator does. NonDifferentiable: a draw is no function of the
// parameters of its distribution.
#pragma once
#include "tensor/factory.h"

namespace weft {

// std >= 0.
Tensor normal(double mean, double std, const Shape& shape, TensorOptions options = {}, Generator* generator = nullptr);
// [low, high), finite and low <= high.
Tensor uniform(double low, double high, const Shape& shape, TensorOptions options = {}, Generator* generator = nullptr);
// 1 with the probability that p has there, else 0; of p's shape, dtype (floating point) and device.
Tensor bernoulli(const Tensor& p, Generator* generator = nullptr);
// i64 [num_samples] or [m, num_samples]: numbers of categories, drawn with probabilities in proportion to `weights`
// ([n] or [m, n], floating point, not negative, not all 0 in a row). Without replacement a category comes once at most, in
// the order of drawing (Efraimidis & Spirakis 2006: the largest weight / exponential draw first), so that a row needs
// num_samples weights above 0.
Tensor multinomial(const Tensor& weights, int64_t num_samples, bool replacement = false,
                   Generator* generator = nullptr);

}  // namespace weft
