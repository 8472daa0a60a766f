// Rows of the pointwise ops, made from their table, and the table of all ops.
#include "tests/autograd/op_cases.h"
#include "tests/support/pointwise_api.h"

namespace weft::testing {
namespace {

namespace api = pointwise_api;

enum class Rule { floating, numeric, comparison, flat, integral };

template <int arity, class F>
OpCall on_list(F f) {
  return [f](In in) {
    if constexpr (arity == 1)
      return f(in[0]);
    else if constexpr (arity == 2)
      return f(in[0], in[1]);
    else
      return f(in[0], in[1], in[2]);
  };
}

OpCase pointwise_case(const char* name, int arity, Rule rule, double low, double high, OpCall call) {
  OpCase c{.name = name, .call = std::move(call)};
  c.inputs.assign(static_cast<size_t>(arity), real({3, 7}, low, high));
  const auto all = [&](const Shape& shape) { return std::vector<Shape>(c.inputs.size(), shape); };
  // Enough for whole vectors of every width and a remainder; nothing; one number.
  c.also = {all({5, 83}), all({0}), all({3, 0, 2}), all({}), all({1, 1, 1})};
  if (arity > 1) {
    // A broadcasting operand in each place.
    for (size_t i = 0; i < c.inputs.size(); ++i) {
      c.also.push_back(all({4, 3, 5}));
      c.also.back()[i] = {3, 1};
      c.also.push_back(all({2, 6}));
      c.also.back()[i] = {};
    }
  }
  if (rule == Rule::comparison) c.no_gradient = "a comparison is flat wherever it is defined";
  if (rule == Rule::flat) c.no_gradient = "rounding is flat wherever it is defined";
  if (rule == Rule::integral) c.no_gradient = "its result is whole numbers";
  return c;
}

}  // namespace

std::vector<OpCase> pointwise_cases() {
  std::vector<OpCase> cases = {
#define WEFT_POINTWISE(op, Functor, family, arity, rule, saves, low, high, call) \
  pointwise_case(#op, arity, Rule::rule, low, high, on_list<arity>([](const auto&... in) { return api::op(in...); })),
#include "kernels/pointwise/pointwise.def"
#undef WEFT_POINTWISE
  };
  // A number as an operand, on either side.
  cases.push_back({.name = "number_operands", .inputs = {real({3, 4}, 0.5, 2)}, .call = [](In in) {
                     return 2.5 * in[0] + 1 / (in[0] - 3) - maximum(1, in[0]);
                   }});
  cases.push_back({.name = "relu6",
                   .inputs = {real({3, 7}, -3, 9)},
                   .call = [](In in) { return relu6(in[0]); },
                   .also = {{{0}}, {{}}}});
  cases.push_back({.name = "prelu_by_channel",
                   .covers = {"prelu"},
                   .inputs = {real({3, 4, 2}), real({4}), real({1})},
                   .call =
                       [](In in) {
                         return std::vector<Tensor>{weft::prelu(in[0], in[1]), weft::prelu(in[0], in[2])};
                       },
                   .also = {{{0, 4}, {4}, {1}}, {{5}, {1}, {1}}, {{}, {}, {}}}});
  cases.push_back({.name = "nan_to_num",
                   .inputs = {real({3, 7})},
                   .call = [](In in) { return nan_to_num(in[0], 0.5, 7, -7); },
                   .also = {{{0}}, {{}}}});
  cases.push_back({.name = "meshgrid",
                   .inputs = {real({3}), real({4})},
                   .call =
                       [](In in) {
                         return meshgrid({in[0], in[1]});
                       },
                   .also = {{{0}, {2}}}});
  return cases;
}

std::vector<OpCase> op_cases() {
  std::vector<OpCase> all;
  for (auto* part :
       {pointwise_cases, reduce_cases, view_cases, index_cases, layer_cases, image_cases, loss_cases, sequence_cases})
    for (OpCase& c : part()) all.push_back(std::move(c));
  return all;
}

}  // namespace weft::testing
