// Rows of the losses, and of the lengths and angles of vectors.
#include "tests/autograd/op_cases.h"

namespace weft::testing {
namespace {

using Reduction = LossReduction;

void add_classification(std::vector<OpCase>& cases, const std::string& suffix, Reduction r) {
  cases.push_back({.name = "cross_entropy_" + suffix,
                   .covers = {"cross_entropy"},
                   .inputs = {real({4, 5}), index_below(5, {4})},
                   .call = [r](In in) { return cross_entropy(in[0], in[1], {.reduction = r}); },
                   .also = {{{70, 130}, {70}}, {{5, 2000}, {5}}},
                   .tolerance = {1e-4, 1e-4}});
  cases.push_back({.name = "cross_entropy_weighted_" + suffix,
                   .covers = {"cross_entropy"},
                   .inputs = {real({6, 4}), index_below(4, {6}), fixed({4}, 0.5, 2)},
                   .call =
                       [r](In in) {
                         return cross_entropy(
                             in[0], in[1],
                             {.weight = in[2], .ignore_index = 1, .label_smoothing = 0.1, .reduction = r});
                       },
                   .tolerance = {1e-4, 1e-4}});
  cases.push_back({.name = "cross_entropy_of_probabilities_" + suffix,
                   .covers = {"cross_entropy"},
                   .inputs = {real({4, 5, 2}), real({4, 5, 2}, 0, 1), fixed({5}, 0.5, 2)},
                   .call =
                       [r](In in) {
                         return std::vector<Tensor>{
                             cross_entropy(in[0], in[1], {.reduction = r}),
                             cross_entropy(in[0], in[1], {.weight = in[2], .label_smoothing = 0.1, .reduction = r})};
                       },
                   .also = {{{5}, {5}, {5}}, {{70, 130}, {70, 130}, {130}}},
                   .tolerance = {1e-4, 1e-4}});
  cases.push_back({.name = "nll_loss_" + suffix,
                   .covers = {"nll_loss"},
                   .inputs = {real({4, 5}), index_below(5, {4})},
                   .call = [r](In in) { return nll_loss(in[0], in[1], {.reduction = r}); },
                   .also = {{{5}, {}}, {{2, 5, 3}, {2, 3}}, {{70, 130}, {70}}}});
  cases.push_back(
      {.name = "nll_loss_weighted_" + suffix,
       .covers = {"nll_loss"},
       .inputs = {real({2, 4, 3}), index_below(4, {2, 3}), fixed({4}, 0.5, 2)},
       .call = [r](In in) { return nll_loss(in[0], in[1], {.weight = in[2], .ignore_index = 1, .reduction = r}); },
       .also = {{{6, 4}, {6}, {4}}}});
}

void add_elements(std::vector<OpCase>& cases, const std::string& suffix, Reduction r) {
  const auto add = [&](const std::string& name, OpInput x, OpInput target, OpCall call) {
    cases.push_back({.name = name + "_" + suffix,
                     .covers = {name},
                     .inputs = {std::move(x), std::move(target)},
                     .call = std::move(call),
                     .also = {{{}, {}}, {{0}, {0}}, {{5, 83}, {5, 83}}}});
  };
  add("mse_loss", real({4, 5}), real({4, 5}), [r](In in) { return mse_loss(in[0], in[1], r); });
  add("l1_loss", real({4, 5}), real({4, 5}), [r](In in) { return l1_loss(in[0], in[1], r); });
  add("smooth_l1_loss", real({4, 5}), real({4, 5}), [r](In in) {
    return std::vector<Tensor>{smooth_l1_loss(in[0], in[1], 0.7, r), smooth_l1_loss(in[0], in[1], 0, r)};
  });
  add("huber_loss", real({4, 5}), real({4, 5}), [r](In in) { return huber_loss(in[0], in[1], 0.7, r); });
  add("binary_cross_entropy", real({4, 5}, 0.1, 0.9), real({4, 5}, 0, 1),
      [r](In in) { return binary_cross_entropy(in[0], in[1], {.reduction = r}); });
  add("binary_cross_entropy_with_logits", real({4, 5}), real({4, 5}, 0, 1),
      [r](In in) { return binary_cross_entropy_with_logits(in[0], in[1], {.reduction = r}); });
  add("kl_div", real({4, 5}), real({4, 5}, 0.2, 1), [r](In in) { return kl_div(in[0], in[1], r); });
  add("kl_div_log_target", real({4, 5}), real({4, 5}), [r](In in) { return kl_div(in[0], in[1], r, true); });
  cases.back().covers = {"kl_div"};
  cases.push_back({.name = "binary_cross_entropy_weighted_" + suffix,
                   .covers = {"binary_cross_entropy", "binary_cross_entropy_with_logits"},
                   .inputs = {real({4, 5}, 0.1, 0.9), real({4, 5}, 0, 1), real({4, 1}, 0.5, 2), real({5}, 0.5, 2)},
                   .call =
                       [r](In in) {
                         return std::vector<Tensor>{
                             binary_cross_entropy(in[0], in[1], {.weight = in[2], .reduction = r}),
                             binary_cross_entropy_with_logits(in[0], in[1],
                                                              {.weight = in[2], .pos_weight = in[3], .reduction = r})};
                       },
                   .also = {{{0, 5}, {0, 5}, {1}, {5}}}});
  cases.push_back({.name = "cosine_embedding_loss_" + suffix,
                   .covers = {"cosine_embedding_loss"},
                   .inputs = {real({5, 4}), real({5, 4}), index_below(2, {5})},
                   .call = [r](In in) { return cosine_embedding_loss(in[0], in[1], in[2] * 2 - 1, 0.1, r); },
                   .also = {{{4}, {4}, {}}, {{40, 70}, {40, 70}, {40}}}});
}

}  // namespace

std::vector<OpCase> loss_cases() {
  std::vector<OpCase> cases;
  for (const auto& [suffix, reduction] :
       {std::pair{"none", Reduction::none}, std::pair{"sum", Reduction::sum}, std::pair{"mean", Reduction::mean}}) {
    add_classification(cases, suffix, reduction);
    add_elements(cases, suffix, reduction);
  }
  cases.push_back({.name = "kl_div_batchmean",
                   .covers = {"kl_div"},
                   .inputs = {real({4, 5}), real({4, 5}, 0.2, 1)},
                   .call = [](In in) { return kl_div(in[0], in[1], Reduction::batchmean); },
                   .also = {{{}, {}}}});
  cases.push_back({.name = "cross_entropy_of_images",
                   .covers = {"cross_entropy"},
                   .inputs = {real({2, 4, 3}), index_below(4, {2, 3})},
                   .call = [](In in) { return cross_entropy(in[0], in[1]); },
                   .tolerance = {1e-4, 1e-4}});
  cases.push_back({.name = "cross_entropy_of_one",
                   .covers = {"cross_entropy"},
                   .inputs = {real({5}), index_below(5, {})},
                   .call = [](In in) { return cross_entropy(in[0], in[1]); }});
  cases.push_back({.name = "cosine_similarity",
                   .inputs = {real({3, 4, 2}), real({4, 1})},
                   .call = [](In in) { return cosine_similarity(in[0], in[1]); },
                   .also = {{{0, 4, 2}, {4, 1}}, {{30, 70, 2}, {30, 70, 2}}}});
  cases.push_back({.name = "normalize",
                   .inputs = {real({3, 4})},
                   .call =
                       [](In in) {
                         return std::vector<Tensor>{normalize(in[0]), normalize(in[0], 1, 0), normalize(in[0], 3)};
                       },
                   .also = {{{0, 4}}, {{30, 70}}}});
  return cases;
}

}  // namespace weft::testing
