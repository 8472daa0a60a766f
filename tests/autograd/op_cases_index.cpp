// Rows of the ops that choose, place, join and order elements.
#include "tests/autograd/op_cases.h"

namespace weft::testing {
namespace {

const char* const kWhole = "its result is whole numbers";
const char* const kCounts = "how many elements there are depends on the values";

}  // namespace

std::vector<OpCase> index_cases() {
  std::vector<OpCase> cases;
  // --- by index
  for (const int64_t dim : {0, 1, 2}) {
    const std::string suffix = fmt::format("_dim{}", dim);
    const Shape x = {4, 3, 5};
    Shape few = {2, 3, 4}, rows = x;
    few[static_cast<int>(dim)] = 6;
    rows[static_cast<int>(dim)] = 7;
    const int64_t size = x[static_cast<int>(dim)];
    cases.push_back({.name = "gather" + suffix,
                     .covers = {"gather"},
                     .inputs = {real(x), index_below(size, few)},
                     .call =
                         [dim](In in) {
                           return std::vector<Tensor>{gather(in[0], dim, in[1]), gather(in[0], dim, in[1].to(i32))};
                         },
                     .also = {{x, {0, 3, 4}}}});
    // Positions repeat, so that the order of writing matters.
    cases.push_back({.name = "scatter" + suffix,
                     .covers = {"scatter"},
                     .inputs = {real(x), index_below(size, few), real(few)},
                     .call = [dim](In in) { return scatter(in[0], dim, in[1], in[2]); },
                     .also = {{x, {0, 3, 4}, {0, 3, 4}}}});
    cases.push_back({.name = "scatter_add" + suffix,
                     .covers = {"scatter_add"},
                     .inputs = {real(x), index_below(size, few), real(few)},
                     .call = [dim](In in) { return scatter_add(in[0], dim, in[1], in[2]); },
                     .also = {{x, {0, 3, 4}, {0, 3, 4}}}});
    cases.push_back({.name = "index_select" + suffix,
                     .covers = {"index_select"},
                     .inputs = {real(x), index_below(size, {7})},
                     .call = [dim](In in) { return index_select(in[0], dim, in[1]); },
                     .also = {{x, {0}}, {x, {}}, {{40, 33, 70}, {100}}}});
    cases.push_back({.name = "index_add" + suffix,
                     .covers = {"index_add"},
                     .inputs = {real(x), index_below(size, {7}), real(rows)},
                     .call = [dim](In in) { return index_add(in[0], dim, in[1], in[2], 1.5); }});
  }
  cases.push_back({.name = "scatter_of_a_number",
                   .covers = {"scatter"},
                   .inputs = {real({4, 5}), index_below(4, {2, 5})},
                   .call = [](In in) { return scatter(in[0], 0, in[1], 2.5); }});
  cases.push_back({.name = "scatter_from_a_larger_source",
                   .covers = {"scatter", "scatter_add"},
                   .inputs = {real({4, 5}), index_below(4, {2, 3}), real({3, 5})},
                   .call = [](In in) {
                     return std::vector<Tensor>{scatter(in[0], 0, in[1], in[2]), scatter_add(in[0], 0, in[1], in[2])};
                   }});
  cases.push_back(
      {.name = "scatter_add_of_many",
       .covers = {"scatter_add", "index_add"},
       .inputs = {real({3}), index_below(3, {40}), real({40})},
       .call =
           [](In in) {
             return std::vector<Tensor>{scatter_add(in[0], 0, in[1], in[2]), index_add(in[0], 0, in[1], in[2])};
           },
       .also = {{{3}, {5000}, {5000}}},
       .no_half = "a long sum is rounded once a piece where its source is rounded",
       .tolerance = {1e-4, 1e-3}});
  cases.push_back(
      {.name = "index", .inputs = {real({4, 3, 5}), index_below(3, {2, 2}), index_below(5, {2})}, .call = [](In in) {
         return std::vector<Tensor>{index(in[0], {in[1]}), index(in[0], {{}, in[1], in[2]}),
                                    index(in[0], {in[1] - 3, {}, in[2]})};
       }});
  cases.push_back({.name = "take_along_dim",
                   .inputs = {real({4, 1, 5}), index_below(5, {1, 3, 2}), index_below(20, {3, 2})},
                   .call = [](In in) {
                     return std::vector<Tensor>{take_along_dim(in[0], in[1], 2), take_along_dim(in[0], in[2])};
                   }});
  // Positions repeat: the last value counts, or all are added.
  for (const bool accumulate : {false, true}) {
    const std::string suffix = accumulate ? "_added" : "";
    cases.push_back(
        {.name = "index_put" + suffix,
         .covers = {"index_put"},
         .inputs = {real({4, 3, 5}), index_below(3, {2, 2}), index_below(5, {2}), real({2, 3, 5}), real({4, 1, 2})},
         .call =
             [accumulate](In in) {
               return std::vector<Tensor>{index_put(in[0], {in[1]}, in[3], accumulate),
                                          index_put(in[0], {{}, in[1], in[2]}, in[4], accumulate),
                                          index_put(in[0], {in[1] - 3, {}, in[2]},
                                                    select(in[3], 0, 0).slice(0, 0, 2).slice(1, 0, 3), accumulate),
                                          index_put(in[0], {{}, {}, in[2]}, in[4], accumulate)};
             },
         .fixed_sizes = "the values fit what several indices choose together"});
    cases.push_back({.name = "index_put_by_mask" + suffix,
                     .covers = {"index_put"},
                     .inputs = {real({4, 5}), flags({4}), real({5})},
                     .call = [accumulate](In in) { return index_put(in[0], {in[1]}, in[2], accumulate); },
                     .no_meta = kCounts});
  }
  // Two dimensions; places that nothing is written to, that one and that several elements are written to.
  for (const char* reduce : {"sum", "prod", "mean", "amax", "amin"}) {
    for (const bool include_self : {true, false}) {
      const bool order = reduce[0] == 'a';
      cases.push_back({.name = std::string("scatter_reduce_") + reduce + (include_self ? "" : "_without_self"),
                       .covers = {"scatter_reduce"},
                       .inputs = {order ? distinct({5, 4}) : real({5, 4}), index_below(5, {7, 3}),
                                  order ? distinct({7, 4}, -2.1, 2.1) : real({7, 4})},
                       .call =
                           [reduce, include_self](In in) {
                             return std::vector<Tensor>{
                                 scatter_reduce(in[0], 0, in[1], in[2], reduce, include_self),
                                 scatter_reduce(transpose(in[0], 0, 1), 1, transpose(in[1], 0, 1),
                                                transpose(in[2], 0, 1), reduce, include_self)};
                           },
                       .also = {{{5, 4}, {0, 3}, {7, 4}}, {{5, 4}, {1, 4}, {1, 4}}, {{5, 4}, {300, 2}, {300, 4}}}});
    }
  }
  cases.push_back({.name = "scatter_reduce_of_one_number",
                   .covers = {"scatter_reduce"},
                   .inputs = {real({}), index_below(1, {}), real({})},
                   .call =
                       [](In in) {
                         std::vector<Tensor> all;
                         for (const char* reduce : {"sum", "prod", "mean", "amax", "amin"})
                           all.push_back(scatter_reduce(in[0], 0, in[1], in[2], reduce));
                         return all;
                       },
                   .fixed_sizes = "there are none"});
  for (const int64_t dim : {0, 1, 2}) {
    const std::string suffix = fmt::format("_dim{}", dim);
    const Shape x = {4, 3, 5};
    Shape rows = x;
    rows[static_cast<int>(dim)] = 7;
    const int64_t size = x[static_cast<int>(dim)];
    cases.push_back({.name = "index_copy" + suffix,
                     .covers = {"index_copy"},
                     .inputs = {real(x), index_below(size, {7}), real(rows)},
                     .call = [dim](In in) { return index_copy(in[0], dim, in[1], in[2]); }});
    cases.push_back(
        {.name = "index_fill" + suffix,
         .covers = {"index_fill"},
         .inputs = {real(x), index_below(size, {2}), real({})},
         .call =
             [dim](In in) {
               return std::vector<Tensor>{index_fill(in[0], dim, in[1], 2.5), index_fill(in[0], dim, in[1], in[2])};
             },
         .also = {{x, {0}, {}}, {x, {}, {}}}});
  }
  cases.push_back({.name = "masked_scatter",
                   .inputs = {real({4, 5}), flags({4, 5}), real({4, 5})},
                   .call = [](In in) { return masked_scatter(in[0], in[1], in[2]); },
                   .also = {{{0, 5}, {5}, {0}}, {{}, {}, {1}}, {{1, 5}, {4, 1}, {20}}, {{700, 5}, {700, 5}, {3500}}},
                   .fixed_sizes = "the source has as many elements as the mask has places"});
  cases.push_back({.name = "index_by_mask",
                   .covers = {"index"},
                   .inputs = {real({4, 5}), flags({4})},
                   .call = [](In in) { return index(in[0], {in[1]}); },
                   .no_meta = kCounts});
  cases.push_back({.name = "masked_fill",
                   .inputs = {real({4, 5}), flags({5})},
                   .call = [](In in) { return masked_fill(in[0], in[1], -7); },
                   .also = {{{0, 5}, {5}}, {{}, {}}}});
  cases.push_back({.name = "masked_select",
                   .inputs = {real({4, 5}), flags({5})},
                   .call = [](In in) { return masked_select(in[0], in[1]); },
                   .also = {{{0, 5}, {5}}, {{}, {}}, {{700, 5}, {700, 5}}},
                   .no_meta = kCounts});
  cases.push_back({.name = "nonzero",
                   .inputs = {flags({3, 4, 5})},
                   .call = [](In in) { return nonzero(in[0]); },
                   .also = {{{0, 2}}, {{}}, {{2000}}},
                   .no_gradient = kWhole,
                   .no_meta = kCounts});
  cases.push_back({.name = "one_hot",
                   .inputs = {index_below(4, {3, 2})},
                   .call =
                       [](In in) {
                         return std::vector<Tensor>{one_hot(in[0], 5), one_hot(in[0])};
                       },
                   .no_gradient = kWhole,
                   .no_meta = kCounts});
  cases.push_back({.name = "bincount",
                   .inputs = {index_below(6, {40})},
                   .call = [](In in) { return bincount(in[0]); },
                   .also = {{{0}}, {{3000}}},
                   .no_gradient = kWhole,
                   .no_meta = kCounts});

  // --- joining and moving
  cases.push_back({.name = "cat",
                   .inputs = {real({2, 3}), real({2, 1}), real({2, 4})},
                   .call =
                       [](In in) {
                         return cat({in[0], in[1], in[2]}, 1);
                       },
                   .also = {{{2, 0}, {2, 1}, {2, 0}}, {{30, 50}, {30, 2}, {30, 1}}}});
  cases.push_back({.name = "cat_of_vectors",
                   .covers = {"cat"},
                   .inputs = {real({0}), real({2}), real({3})},
                   .call =
                       [](In in) {
                         return cat({in[0], in[1], in[2]});
                       },
                   .also = {{{0}, {0}, {0}}}});
  cases.push_back({.name = "stack",
                   .inputs = {real({2, 3}), real({2, 3})},
                   .call =
                       [](In in) {
                         return stack({in[0], in[1]}, -1);
                       },
                   .also = {{{}, {}}, {{0}, {0}}}});
  cases.push_back({.name = "split",
                   .inputs = {real({4, 5})},
                   .call =
                       [](In in) {
                         std::vector<Tensor> parts = split(in[0], 2, 1);
                         for (const Tensor& t : split(in[0], {1, in[0].size(0) - 1})) parts.push_back(t);
                         return parts;
                       },
                   .also = {{{4, 0}}}});
  cases.push_back(
      {.name = "split_with_an_unused_part", .covers = {"split"}, .inputs = {real({4, 5})}, .call = [](In in) {
         return split(in[0], 2, 1).back() * 2;
       }});
  cases.push_back({.name = "chunk",
                   .inputs = {real({4, 5})},
                   .call = [](In in) { return chunk(in[0], 3, 1); },
                   .also = {{{4, 0}}}});
  cases.push_back(
      {.name = "unbind", .inputs = {real({3, 4})}, .call = [](In in) { return unbind(in[0], 1); }, .also = {{{0, 2}}}});
  cases.push_back({.name = "flip",
                   .inputs = {real({3, 4, 5})},
                   .call =
                       [](In in) {
                         return flip(in[0], {0, -1});
                       },
                   .also = {{{0, 2, 3}}}});
  cases.push_back({.name = "roll",
                   .inputs = {real({3, 4})},
                   .call =
                       [](In in) {
                         return std::vector<Tensor>{roll(in[0], {1, -2}, {0, 1}), roll(in[0], {5})};
                       },
                   .also = {{{0, 4}}}});
  cases.push_back({.name = "tril",
                   .inputs = {real({2, 4, 5})},
                   .call = [](In in) { return tril(in[0], 1); },
                   .also = {{{0, 4, 5}}}});
  cases.push_back({.name = "triu",
                   .inputs = {real({2, 4, 5})},
                   .call = [](In in) { return triu(in[0], -1); },
                   .also = {{{0, 4, 5}}}});
  cases.push_back({.name = "pad", .inputs = {real({3, 4})}, .call = [](In in) {
                     return std::vector<Tensor>{pad(in[0], {1, 2, -1, 0}, "constant", 7), pad(in[0], {3, 1}, "reflect"),
                                                pad(in[0], {0, 0, 2, 5}, "replicate")};
                   }});
  cases.push_back({.name = "repeat",
                   .inputs = {real({2, 3})},
                   .call =
                       [](In in) {
                         return std::vector<Tensor>{repeat(in[0], {2, 1, 3}), repeat(in[0], {1, 1})};
                       },
                   .also = {{{0, 3}}}});
  cases.push_back({.name = "repeat_interleave",
                   .inputs = {real({3, 2})},
                   .call = [](In in) { return repeat_interleave(in[0], 3, 0); },
                   .also = {{{0, 2}}}});
  cases.push_back({.name = "repeat_interleave_by_counts",
                   .covers = {"repeat_interleave"},
                   .inputs = {real({3, 2}), index_below(4, {3})},
                   .call = [](In in) { return repeat_interleave(in[0], in[1], 0); },
                   .also = {{{0, 2}, {0}}},
                   .no_meta = kCounts});

  // --- order
  for (const int64_t dim : {0, 1}) {
    const std::string suffix = fmt::format("_dim{}", dim);
    cases.push_back({.name = "sort" + suffix,
                     .covers = {"sort"},
                     .inputs = {distinct({5, 6})},
                     .call = [dim](In in) { return sort(in[0], dim, dim == 1); },
                     .also = {{{0, 3}}, {{3, 1}}, {{70, 90}}}});
    cases.push_back({.name = "argsort" + suffix,
                     .covers = {"argsort"},
                     .inputs = {distinct({5, 6})},
                     .call = [dim](In in) { return argsort(in[0], dim, dim == 0); },
                     .also = {{{0, 3}}, {{70, 90}}},
                     .no_gradient = kWhole});
    cases.push_back({.name = "topk" + suffix,
                     .covers = {"topk"},
                     .inputs = {distinct({5, 6})},
                     .call = [dim](In in) { return topk(in[0], 3, dim, dim == 0); },
                     .also = {{{3, 3}}, {{60, 40}}}});
  }
  cases.push_back({.name = "sort_of_one_number", .covers = {"sort"}, .inputs = {real({})}, .call = [](In in) {
                     return sort(in[0]);
                   }});
  cases.push_back({.name = "sort_of_repeated_numbers",
                   .covers = {"sort", "argsort", "topk"},
                   .inputs = {index_below(4, {3, 50})},
                   .call =
                       [](In in) {
                         std::vector<Tensor> all = listed(sort(in[0]));
                         for (const Tensor& t : listed(topk(in[0].to(i32), 5))) all.push_back(t);
                         all.push_back(argsort(in[0], 0, true));
                         return all;
                       },
                   .no_gradient = kWhole});
  cases.push_back({.name = "unique",
                   .inputs = {index_below(5, {4, 6})},
                   .call =
                       [](In in) {
                         std::vector<Tensor> all = listed(unique(in[0]));
                         for (const Tensor& t : listed(unique(in[0].to(f32) / 2))) all.push_back(t);
                         return all;
                       },
                   .also = {{{0}}, {{}}},
                   .no_gradient = "equal values stand for each other",
                   .no_half = "its inputs are whole numbers",
                   .no_meta = kCounts});
  return cases;
}

}  // namespace weft::testing
