// Rows of views, copies, casts and in-place ops.
#include "tests/autograd/op_cases.h"

namespace weft::testing {
namespace {

const char* const kOverlap = "backward of as_strided wants an input that is contiguous";

// A tensor that may be written in place: made by an op, so it is no leaf, and shares its memory with nothing.
Tensor owned(const Tensor& x) { return x * 1; }

}  // namespace

std::vector<OpCase> view_cases() {
  const OpInput x = real({3, 4, 5});
  std::vector<OpCase> cases;
  const auto add = [&](std::string name, auto call, std::vector<std::vector<Shape>> also = {}) {
    cases.push_back({.name = std::move(name), .inputs = {x}, .call = call, .also = std::move(also)});
  };
  add("reshape", [](In in) { return in[0].reshape({-1, 2, 5}); }, {{{0, 2, 5}}});
  add("flatten", [](In in) { return flatten(in[0], 0, 1); }, {{{2, 0, 3}}});
  add("permute", [](In in) { return permute(in[0], {2, 0, 1}); }, {{{2, 0, 3}}});
  add("transpose", [](In in) { return transpose(in[0], 0, -1); }, {{{2, 0, 3}}});
  add("unsqueeze", [](In in) { return unsqueeze(in[0], -1); }, {{{}}, {{0}}});
  add("squeeze",
      [](In in) {
        return std::vector<Tensor>{squeeze(in[0].unsqueeze(-1)), squeeze(in[0].unsqueeze(0), 0)};
      },
      {{{}}, {{0}}});
  add("expand", [](In in) { return expand(in[0].unsqueeze(0), {2, -1, -1, -1}); }, {{{0, 1, 2}}});
  add("slice", [](In in) { return slice(in[0], 2, 1, {}, 2); }, {{{2, 0, 3}}});
  add("narrow", [](In in) { return narrow(in[0], 1, 1, 2); });
  add("select", [](In in) { return select(in[0], 1, -1); }, {{{0, 2, 3}}});
  add("diagonal", [](In in) { return diagonal(in[0], 1, 0, 2); }, {{{2, 0, 3}}});
  cases.push_back({.name = "as_strided",
                   .inputs = {real({12})},
                   .call =
                       [](In in) {
                         return as_strided(in[0].contiguous(), {4, 3}, {2, 1}, in[0].contiguous().offset());
                       },
                   .no_meta = kOverlap});
  add("unfold", [](In in) { return unfold(in[0], 2, 3, 1); });
  add("clone", [](In in) { return in[0].transpose(0, 1).clone(); }, {{{2, 0, 3}}});
  add("contiguous", [](In in) { return in[0].permute({2, 1, 0}).contiguous(); }, {{{2, 0, 3}}, {{33, 2, 47}}});
  cases.back().covers = {"contiguous", "copy_elements"};

  cases.push_back({.name = "casts",
                   .covers = {"to"},
                   .inputs = {real({3, 7})},
                   .call = [](In in) { return in[0].to(f64); },
                   .also = {{{0}}, {{}}, {{1000}}},
                   .no_half = "the result is f64 for every input"});
  cases.push_back({.name = "casts_to_few_bits",
                   .covers = {"to"},
                   .inputs = {fixed({500}, -100, 100)},
                   .call =
                       [](In in) {
                         std::vector<Tensor> result;
                         for (const DType dtype : {f16, bf16, f8e4m3, f8e5m2, i64, i32, i16, i8, boolean})
                           result.push_back(in[0].to(f32).to(dtype).to(f64));
                         result.push_back(abs(in[0]).to(u8));
                         return result;
                       },
                   .also = {{{0}}, {{}}},
                   .no_gradient = "its input has none",
                   .no_special = "NaN and infinity have no value in whole numbers",
                   .no_half = "f16 and bf16 are among its results"});

  // In place.
  cases.push_back({.name = "add_",
                   .inputs = {real({3, 4}), real({3, 4})},
                   .call = [](In in) { return owned(in[0]).add_(in[1]).add_(in[1], -0.5); },
                   .also = {{{0}, {0}}, {{}, {}}, {{3, 4}, {4}}}});
  cases.push_back({.name = "mul_",
                   .inputs = {real({3, 4}), real({3, 4})},
                   .call = [](In in) { return owned(in[0]).mul_(in[1]).mul_(3); },
                   .also = {{{0}, {0}}, {{}, {}}, {{3, 4}, {4}}}});
  cases.push_back({.name = "copy_",
                   .inputs = {real({3, 4}), real({3, 4})},
                   .call = [](In in) { return owned(in[0]).copy_(in[1]); },
                   .also = {{{0}, {0}}, {{}, {}}, {{3, 4}, {4}}}});
  cases.push_back({.name = "fill_",
                   .covers = {"fill_", "zero_"},
                   .inputs = {real({3, 4})},
                   .call =
                       [](In in) {
                         return std::vector<Tensor>{owned(in[0]).fill_(2.5), owned(in[0]).zero_(), in[0] + 1};
                       },
                   .also = {{{0}}, {{}}}});
  cases.push_back({.name = "fill_of_a_view",
                   .covers = {"fill_"},
                   .inputs = {fixed({6, 5})},
                   .call =
                       [](In in) {
                         Tensor y = in[0].clone();
                         y.slice(0, 0, {}, 2).fill_(3);
                         y.transpose(0, 1).slice(0, 1, 3).add_(in[0].transpose(0, 1).slice(0, 1, 3)).mul_(2);
                         return y;
                       },
                   .no_gradient = "its input has none"});
  return cases;
}

}  // namespace weft::testing
