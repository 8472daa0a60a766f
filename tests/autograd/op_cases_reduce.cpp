// Rows of the reductions and scans.
#include <cmath>

#include "tests/autograd/op_cases.h"

namespace weft::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const char* const kWhole = "its result is whole numbers";
const char* const kLogic = "its result is bool";

// A reduction of [4, 5, 6] over everything, the last dimension, the first, and two with keepdim.
template <class F>
void add_reduction(std::vector<OpCase>& cases, const std::string& name, const OpInput& input, F reduce,
                   const OpCase& settings) {
  const std::pair<const char*, std::pair<Shape, bool>> variants[] = {
      {"all", {{}, false}}, {"last", {{-1}, false}}, {"first", {{0}, false}}, {"outer_kept", {{0, 2}, true}}};
  for (const auto& [suffix, how] : variants) {
    OpCase c = settings;
    c.name = name + "_" + suffix;
    c.covers = {name};
    c.inputs = {input};
    c.call = [reduce, dims = how.first, keepdim = how.second](In in) { return reduce(in[0], dims, keepdim); };
    if (how.first == Shape({-1})) c.also.push_back({{70, 130}});
    if (how.first == Shape({0})) c.also.push_back({{130, 70}});
    if (how.first.empty()) {
      c.also.push_back({{3000}});
      c.also.push_back({{}});
    }
    cases.push_back(std::move(c));
  }
}

}  // namespace

std::vector<OpCase> reduce_cases() {
  std::vector<OpCase> cases;
  const OpInput x = real({4, 3, 5});
  const OpInput apart = distinct({4, 3, 5});
  const OpInput positive = real({4, 3, 5}, 0.5, 1.5);
  using Dims = const Shape&;
  const OpCase plain;
  const OpCase wide = {.tolerance = {1e-4, 1e-3}};
  add_reduction(
      cases, "sum", x, [](const Tensor& t, Dims d, bool k) { return sum(t, d, k); }, wide);
  add_reduction(
      cases, "mean", x, [](const Tensor& t, Dims d, bool k) { return mean(t, d, k); }, plain);
  add_reduction(cases, "prod", positive, [](const Tensor& t, Dims d, bool k) { return prod(t, d, k); },
                {.no_half = "rounding to few bits grows with the length of a product", .tolerance = {1e-4, 1e-4}});
  add_reduction(cases, "var", x, [](const Tensor& t, Dims d, bool k) { return var(t, d, 1, k); },
                {.no_special = "the order of Inf - Inf is not defined"});
  add_reduction(cases, "std", x, [](const Tensor& t, Dims d, bool k) { return weft::std(t, d, 0, k); },
                {.no_special = "the order of Inf - Inf is not defined"});
  add_reduction(
      cases, "amax", apart, [](const Tensor& t, Dims d, bool k) { return amax(t, d, k); }, plain);
  add_reduction(
      cases, "amin", apart, [](const Tensor& t, Dims d, bool k) { return amin(t, d, k); }, plain);
  add_reduction(
      cases, "logsumexp", x, [](const Tensor& t, Dims d, bool k) { return logsumexp(t, d, k); }, plain);
  add_reduction(
      cases, "norm", x, [](const Tensor& t, Dims d, bool k) { return norm(t, 2, d, k); }, plain);
  add_reduction(cases, "all", x, [](const Tensor& t, Dims d, bool k) { return all(t, d, k); }, {.no_gradient = kLogic});
  add_reduction(cases, "any", x, [](const Tensor& t, Dims d, bool k) { return any(t, d, k); }, {.no_gradient = kLogic});
  for (const auto& [name, p] :
       {std::pair{"0", 0.0}, std::pair{"half", 0.5}, std::pair{"1", 1.0}, std::pair{"3_halves", 1.5},
        std::pair{"3", 3.0}, std::pair{"inf", kInfinity}, std::pair{"minus_inf", -kInfinity}})
    cases.push_back({.name = fmt::format("norm_{}", name),
                     .covers = {"norm"},
                     .inputs = {std::isinf(p) ? distinct({4, 6}, 0.3, 2) : real({4, 6}, 0.3, 2)},
                     .call = [p = p](In in) { return norm(in[0], p, {1}); },
                     .also = {{{3, 200}}},
                     .no_second_order = p == 0 ? "the number of elements that are not 0 is flat" : "",
                     .tolerance = {1e-4, 1e-4}});

  // Nothing to reduce: the neutral element.
  cases.push_back(
      {.name = "sums_of_nothing",
       .covers = {"sum"},
       .inputs = {real({2, 3})},
       .call =
           [](In in) {
             return std::vector<Tensor>{sum(in[0], {0}), prod(in[0], {0}), logsumexp(in[0], {0}), mean(in[0], {0})};
           },
       .also = {{{0, 3}}, {{3, 0}}}});

  cases.push_back(
      {.name = "max", .inputs = {apart}, .call = [](In in) { return max(in[0]); }, .also = {{{}}, {{900}}}});
  cases.push_back(
      {.name = "min", .inputs = {apart}, .call = [](In in) { return min(in[0]); }, .also = {{{}}, {{900}}}});
  for (const int64_t dim : {0, 1, 2}) {
    const std::string suffix = fmt::format("_dim{}", dim);
    const std::vector<std::vector<Shape>> also = {{{40, 3, 70}}};
    cases.push_back({.name = "max" + suffix,
                     .covers = {"max"},
                     .inputs = {apart},
                     .call = [dim](In in) { return max(in[0], dim, dim == 1); },
                     .also = also});
    cases.push_back({.name = "min" + suffix,
                     .covers = {"min"},
                     .inputs = {apart},
                     .call = [dim](In in) { return min(in[0], dim, dim == 1); },
                     .also = also});
    cases.push_back({.name = "argmax" + suffix,
                     .covers = {"argmax"},
                     .inputs = {apart},
                     .call = [dim](In in) { return argmax(in[0], dim, dim == 0); },
                     .also = also,
                     .no_gradient = kWhole});
    cases.push_back({.name = "argmin" + suffix,
                     .covers = {"argmin"},
                     .inputs = {apart},
                     .call = [dim](In in) { return argmin(in[0], dim, dim == 0); },
                     .also = also,
                     .no_gradient = kWhole});
    cases.push_back({.name = "cumsum" + suffix,
                     .covers = {"cumsum"},
                     .inputs = {x},
                     .call = [dim](In in) { return cumsum(in[0], dim); },
                     .also = {{{40, 3, 300}}, {{0, 3, 2}}},
                     .tolerance = {1e-4, 1e-4}});
    cases.push_back({.name = "cumprod" + suffix,
                     .covers = {"cumprod"},
                     .inputs = {positive},
                     .call = [dim](In in) { return cumprod(in[0], dim); },
                     .also = {{{7, 3, 9}}, {{0, 3, 2}}},
                     .no_half = "rounding to few bits grows with the length of a product",
                     .tolerance = {1e-4, 1e-4}});
  }
  cases.push_back({.name = "argmax_of_all",
                   .covers = {"argmax"},
                   .inputs = {apart},
                   .call = [](In in) { return argmax(in[0]); },
                   .also = {{{}}, {{30, 50}}},
                   .no_gradient = kWhole});
  cases.push_back({.name = "argmin_of_all",
                   .covers = {"argmin"},
                   .inputs = {apart},
                   .call = [](In in) { return argmin(in[0]); },
                   .also = {{{}}, {{30, 50}}},
                   .no_gradient = kWhole});
  cases.push_back({.name = "sum_of_whole_numbers",
                   .covers = {"sum", "prod", "max", "amin"},
                   .inputs = {index_below(9, {4, 30})},
                   .call =
                       [](In in) {
                         return std::vector<Tensor>{sum(in[0], {1}),  prod(remainder(in[0], 3) + 1, {0}),
                                                    max(in[0]),       amin(in[0], {1}),
                                                    cumsum(in[0], 1), sum(in[0].to(i32)),
                                                    sum(in[0] > 3)};
                       },
                   .no_gradient = "the inputs are whole numbers"});
  return cases;
}

}  // namespace weft::testing
