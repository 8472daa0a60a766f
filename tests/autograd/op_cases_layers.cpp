// Rows of what layers are made of: products, softmax, norms, embedding, attention,
// dropout.
#include "tests/autograd/op_cases.h"

namespace weft::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const char* const kProducts = "where a zero meets an infinity depends on how a library cuts a product into tiles";

// Dropout with the same draws in every call.
template <class F>
auto with_fixed_draws(F f) {
  return [f](In in) {
    const RandomStream before = random_stream();
    random_stream() = {.seed = 7, .step = 3};
    auto result = f(in);
    random_stream() = before;
    return result;
  };
}

void add_products(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, std::vector<std::string> covers, std::vector<OpInput> inputs, OpCall call,
                       std::vector<std::vector<Shape>> also = {}) {
    cases.push_back({.name = std::move(name),
                     .covers = std::move(covers),
                     .inputs = std::move(inputs),
                     .call = std::move(call),
                     .also = std::move(also),
                     .no_special = kProducts,
                     .tolerance = {1e-4, 1e-4}});
  };
  const auto product = [](In in) { return matmul(in[0], in[1]); };
  add("matmul", {"matmul"}, {real({3, 4}), real({4, 5})}, product,
      {{{70, 33}, {33, 50}}, {{0, 4}, {4, 5}}, {{3, 0}, {0, 5}}, {{3, 4}, {4, 0}}});
  add("matmul_of_vectors", {"matmul"}, {real({4}), real({4})}, product, {{{0}, {0}}});
  add("matmul_vector_matrix", {"matmul"}, {real({4}), real({2, 4, 3})}, product);
  add("matmul_matrix_vector", {"matmul"}, {real({2, 3, 4}), real({4})}, product);
  add("matmul_batched", {"matmul"}, {real({2, 3, 4}), real({2, 4, 5})}, product, {{{0, 3, 4}, {0, 4, 5}}});
  add("matmul_broadcast", {"matmul"}, {real({2, 1, 3, 4}), real({3, 4, 2})}, product);
  add("matmul_of_transposed", {"matmul"}, {real({4, 3}), real({5, 4})},
      [](In in) { return matmul(in[0].t(), in[1].t()); });
  add("bmm", {"bmm"}, {real({3, 2, 4}), real({3, 4, 2})}, [](In in) { return bmm(in[0], in[1]); });
  add("linear", {"linear"}, {real({2, 3, 4}), real({5, 4}), real({5})},
      [](In in) { return linear(in[0], in[1], in[2]); },
      {{{2, 0, 4}, {5, 4}, {5}}, {{4}, {5, 4}, {5}}, {{40, 64}, {48, 64}, {48}}});
  add("linear_without_bias", {"linear"}, {real({3, 4}), real({5, 4})}, [](In in) { return linear(in[0], in[1]); });
  add("linear_transposed", {"linear_transposed"}, {real({2, 3, 4}), real({4, 5}), real({5})},
      [](In in) { return linear_transposed(in[0], in[1], in[2]); }, {{{40, 64}, {64, 48}, {48}}});
  add("addmm", {"addmm"}, {real({5}), real({3, 4}), real({4, 5})},
      [](In in) { return addmm(in[0], in[1], in[2], 0.5, 2); });
  add("addmm_without_input", {"addmm"}, {real({5}), real({3, 4}), real({4, 5})},
      [](In in) { return addmm(in[0], in[1], in[2], 0); });
  const auto einsum_of = [&](const std::string& name, const std::string& equation, std::vector<OpInput> inputs,
                             std::vector<std::vector<Shape>> also = {}) {
    add(
        "einsum_" + name, {"einsum"}, std::move(inputs), [equation](In in) { return einsum(equation, in); },
        std::move(also));
  };
  einsum_of("matrices", "ij,jk->ik", {real({3, 4}), real({4, 5})}, {{{0, 4}, {4, 5}}, {{3, 0}, {0, 5}}});
  einsum_of("batches", "...ij,...kj->...ik", {real({2, 1, 3, 4}), real({3, 2, 4})});
  einsum_of("implicit", "ba,ac", {real({3, 4}), real({4, 5})});
  einsum_of("trace", "ii", {real({4, 4})}, {{{0, 0}}});
  einsum_of("diagonal_and_sum", "iji,jk->i", {real({3, 2, 3}), real({2, 4})});
  einsum_of("chain", "ab,bc,cd,ad->b", {real({2, 3}), real({3, 4}), real({4, 2}), real({2, 2})});
  einsum_of("outer", "i,j,k->kji", {real({2}), real({3}), real({4})});
  einsum_of("broadcast", "ij,ij->ij", {real({3, 1}), real({1, 4})});
  einsum_of("of_numbers", ",->", {real({}), real({})});
  add("outer", {"outer"}, {real({3}), real({4})}, [](In in) { return outer(in[0], in[1]); }, {{{0}, {4}}});
  add("dot", {"dot"}, {real({6}), real({6})}, [](In in) { return dot(in[0], in[1]); }, {{{0}, {0}}});
}

void add_norms(std::vector<OpCase>& cases) {
  const std::vector<std::vector<Shape>> along_last = {{{0, 3, 5}}, {{2, 3, 1}}, {{3, 5, 70}}, {{2, 2, 1500}}};
  const auto softmax_like = [&](const std::string& name, auto f) {
    cases.push_back(
        {.name = name, .inputs = {real({2, 3, 5})}, .call = [f](In in) { return f(in[0], -1); }, .also = along_last});
    cases.push_back({.name = name + "_inner",
                     .covers = {name},
                     .inputs = {real({2, 3, 5})},
                     .call = [f](In in) { return f(in[0], 1); },
                     .also = {{{2, 0, 5}}, {{2, 40, 70}}}});
    cases.push_back({.name = name + "_zero_dim", .covers = {name}, .inputs = {real({})}, .call = [f](In in) {
                       return f(in[0], 0);
                     }});
    cases.push_back({.name = name + "_masked",
                     .covers = {name},
                     .inputs = {real({3, 6}), flags({6})},
                     .call =
                         [f](In in) {
                           const Tensor y = f(masked_fill(in[0], in[1], -kInfinity), 1);
                           return where(in[1], 0, y);
                         },
                     .no_special = "a masked NaN leaves a row that depends on the mask"});
  };
  softmax_like("softmax", [](const Tensor& x, int64_t dim) { return softmax(x, dim); });
  softmax_like("log_softmax", [](const Tensor& x, int64_t dim) { return log_softmax(x, dim); });

  const std::vector<std::vector<Shape>> rows = {{{0, 5}, {5}, {5}}, {{3, 2, 5}, {5}, {5}}};
  cases.push_back(
      {.name = "layer_norm",
       .inputs = {real({3, 5}), real({5}), real({5})},
       .call = [](In in) { return layer_norm(in[0], {in[1].size(0)}, in[1], in[2]); },
       .also = {{{0, 5}, {5}, {5}}, {{3, 2, 5}, {5}, {5}}, {{40, 96}, {96}, {96}}, {{3, 1500}, {1500}, {1500}}},
       .tolerance = {1e-4, 1e-4}});
  cases.push_back({.name = "layer_norm_plain",
                   .covers = {"layer_norm"},
                   .inputs = {distinct({3, 5})},
                   .call = [](In in) { return layer_norm(in[0], {in[0].size(1)}); },
                   .tolerance = {1e-4, 1e-4}});
  cases.push_back({.name = "layer_norm_over_two",
                   .covers = {"layer_norm"},
                   .inputs = {real({3, 2, 4}), real({2, 4})},
                   .call = [](In in) { return layer_norm(in[0], in[1].shape(), in[1], {}, 0.1); },
                   .tolerance = {1e-4, 1e-4}});
  cases.push_back({.name = "rms_norm",
                   .inputs = {real({3, 5}), real({5})},
                   .call = [](In in) { return rms_norm(in[0], {in[1].size(0)}, in[1]); },
                   .also = {{{0, 5}, {5}}, {{3, 2, 5}, {5}}, {{40, 96}, {96}}, {{3, 1500}, {1500}}},
                   .tolerance = {1e-4, 1e-4}});
  cases.push_back({.name = "rms_norm_plain", .covers = {"rms_norm"}, .inputs = {real({3, 5})}, .call = [](In in) {
                     return rms_norm(in[0], {in[0].size(1)});
                   }});
}

void add_channel_norms(std::vector<OpCase>& cases) {
  // Running statistics are written in place: each call gets its own.
  const auto add = [&](std::string name, std::string covers, std::vector<OpInput> inputs, OpCall call,
                       std::vector<std::vector<Shape>> also = {}) {
    cases.push_back({.name = std::move(name),
                     .covers = {std::move(covers)},
                     .inputs = std::move(inputs),
                     .call = std::move(call),
                     .also = std::move(also),
                     .tolerance = {1e-4, 1e-4}});
  };
  const OpInput weight = real({3}), bias = real({3}), mean = fixed({3}), var = fixed({3}, 0.5, 2);
  const auto images = [](int64_t n, int64_t c, int64_t h, int64_t w) {
    return std::vector<Shape>{{n, c, h, w}, {c}, {c}, {c}, {c}};
  };
  for (const bool training : {true, false})
    add(training ? "batch_norm" : "batch_norm_of_running", "batch_norm",
        {distinct({2, 3, 2, 4}), weight, bias, mean, var},
        [training](In in) { return batch_norm(in[0], in[3].clone(), in[4].clone(), in[1], in[2], training, 0.3); },
        {images(0, 3, 2, 4),
         images(3, 3, 20, 33),
         images(3, 70, 5, 8),
         {{9, 3}, {3}, {3}, {3}, {3}},
         {{130, 70}, {70}, {70}, {70}, {70}},
         {{4, 3, 7}, {3}, {3}, {3}, {3}}});
  add("batch_norm_plain", "batch_norm", {distinct({5, 3})},
      [](In in) { return batch_norm(in[0], {}, {}, {}, {}, true); });
  add("group_norm", "group_norm", {distinct({2, 6, 3, 2}), real({6}), real({6})},
      [](In in) { return group_norm(in[0], 2, in[1], in[2]); },
      {{{0, 6, 3, 2}, {6}, {6}}, {{3, 4}, {4}, {4}}, {{2, 8, 9, 40}, {8}, {8}}});
  add("group_norm_plain", "group_norm", {distinct({2, 6, 3})}, [](In in) { return group_norm(in[0], 3); });
  add("instance_norm", "instance_norm", {distinct({2, 3, 2, 4}), weight, bias, mean, var},
      [](In in) {
        return std::vector<Tensor>{instance_norm(in[0], in[3].clone(), in[4].clone(), in[1], in[2]),
                                   instance_norm(in[0], in[3], in[4], in[1], in[2], false), instance_norm(in[0])};
      },
      {images(0, 3, 2, 4), {{4, 3, 7}, {3}, {3}, {3}, {3}}});
}

void add_running_statistics(std::vector<OpCase>& cases) {
  cases.push_back({.name = "running_statistics",
                   .covers = {"batch_norm", "instance_norm"},
                   .inputs = {distinct({2, 3, 2, 4}), fixed({3}), fixed({3}, 0.5, 2)},
                   .call =
                       [](In in) {
                         std::vector<Tensor> all;
                         for (int i = 0; i < 4; ++i) all.push_back(in[i % 2 ? 2 : 1].clone());
                         batch_norm(in[0], all[0], all[1], {}, {}, true, 0.3);
                         instance_norm(in[0], all[2], all[3], {}, {}, true, 0.3);
                         return all;
                       },
                   .no_gradient = "the running statistics are no function of x to autograd",
                   .tolerance = {1e-4, 1e-4}});
}

void add_attention(std::vector<OpCase>& cases) {
  const auto add = [&](std::string name, std::vector<OpInput> inputs, OpCall call,
                       std::vector<std::vector<Shape>> also = {}) {
    cases.push_back({.name = "attention_" + name,
                     .covers = {"scaled_dot_product_attention"},
                     .inputs = std::move(inputs),
                     .call = std::move(call),
                     .also = std::move(also),
                     .no_special = kProducts,
                     .tolerance = {1e-4, 1e-4}});
  };
  const auto attend = [](In in, AttentionOptions options) {
    return scaled_dot_product_attention(in[0], in[1], in[2], options);
  };
  const OpInput q = real({1, 2, 3, 4}), k = real({1, 2, 5, 4}), v = real({1, 2, 5, 3});
  add("plain", {q, k, v}, [=](In in) { return attend(in, {}); },
      {{{0, 2, 3, 4}, {0, 2, 5, 4}, {0, 2, 5, 4}}, {{2, 3, 70, 16}, {2, 3, 90, 16}, {2, 3, 90, 16}}});
  add("causal", {real({2, 2, 4, 4}), real({2, 2, 4, 4}), real({2, 2, 4, 4})},
      [=](In in) { return attend(in, {.causal = true}); },
      {{{1, 2, 130, 32}, {1, 2, 130, 32}, {1, 2, 130, 32}}, {{1, 1, 65, 64}, {1, 1, 65, 64}, {1, 1, 65, 64}}});
  add("grouped", {real({1, 4, 3, 4}), k, v}, [=](In in) { return attend(in, {.scale = 0.3}); });
  add("one_head", {real({2, 3, 4}), real({2, 5, 4}), real({2, 5, 4})}, [=](In in) { return attend(in, {}); });
  add("flags", {q, k, v, flags({3, 5})}, [=](In in) { return attend(in, {.mask = in[3]}); });
  add("bias", {q, k, v, fixed({2, 3, 5})}, [=](In in) { return attend(in, {.mask = in[3]}); });
  add("learned_bias", {q, k, v, real({2, 1, 5})}, [=](In in) { return attend(in, {.mask = in[3]}); });
  add("window", {real({1, 2, 6, 4}), real({1, 2, 6, 4}), real({1, 2, 6, 3})},
      [=](In in) { return attend(in, {.causal = true, .window = 3}); });
  cases.push_back({.name = "attention_weights",
                   .inputs = {real({1, 4, 3, 4}), k, flags({3, 5})},
                   .call = [](In in) { return attention_weights(in[0], in[1], {.mask = in[2], .window = 4}); },
                   .also = {{{0, 2, 3, 4}, {0, 2, 5, 4}, {3, 5}}},
                   .no_special = kProducts,
                   .tolerance = {1e-4, 1e-4}});
  add("window_and_flags", {q, k, v, flags({3, 5})}, [=](In in) { return attend(in, {.mask = in[3], .window = 2}); });
  add("window_and_bias", {q, k, v, fixed({2, 3, 5})}, [=](In in) { return attend(in, {.mask = in[3], .window = 2}); });
  add("many_batches", {real({2, 1, 2, 3, 4}), real({2, 1, 2, 5, 4}), real({2, 1, 2, 5, 4}), flags({2, 1, 1, 3, 5})},
      [=](In in) { return attend(in, {.mask = in[3]}); });
  add("two_dimensions", {real({3, 4}), real({5, 4}), real({5, 2})}, [=](In in) { return attend(in, {}); });
  add("dropout", {q, k, v}, with_fixed_draws([=](In in) { return attend(in, {.causal = true, .dropout = 0.3}); }));
}

}  // namespace

std::vector<OpCase> layer_cases() {
  std::vector<OpCase> cases;
  add_products(cases);
  add_norms(cases);
  add_channel_norms(cases);
  add_running_statistics(cases);
  add_attention(cases);
  cases.push_back({.name = "embedding",
                   .inputs = {real({6, 4}), index_below(6, {3, 5})},
                   .call = [](In in) { return embedding(in[0], in[1]); },
                   .also = {{{6, 4}, {0}}, {{6, 4}, {}}, {{6, 33}, {700}}},
                   .tolerance = {1e-4, 1e-4}});
  cases.push_back({.name = "embedding_with_padding",
                   .covers = {"embedding"},
                   .inputs = {real({6, 4}), index_below(6, {9})},
                   .call = [](In in) { return embedding(in[0], in[1].to(i32), 2); },
                   .no_differences = "the padding row has no gradient by definition"});
  cases.push_back({.name = "dropout",
                   .inputs = {real({6, 7})},
                   .call = with_fixed_draws([](In in) {
                     return std::vector<Tensor>{dropout(in[0], 0.3), dropout(in[0], 1), dropout(in[0], 0.5, false)};
                   }),
                   .also = {{{0}}, {{}}, {{130, 33}}}});
  cases.push_back({.name = "channel_dropout",
                   .covers = {"dropout1d", "dropout2d"},
                   .inputs = {real({3, 4, 2}), real({3, 4, 2, 2})},
                   .call = with_fixed_draws([](In in) {
                     return std::vector<Tensor>{dropout1d(in[0], 0.3), dropout2d(in[0], 0.5), dropout2d(in[1], 0.4),
                                                dropout1d(in[0], 0.5, false)};
                   })});
  cases.push_back({.name = "alpha_dropout",
                   .inputs = {real({6, 7})},
                   .call = with_fixed_draws([](In in) {
                     return std::vector<Tensor>{alpha_dropout(in[0], 0.3), alpha_dropout(in[0], 1),
                                                alpha_dropout(in[0], 0.5, false)};
                   }),
                   .also = {{{0}}, {{}}, {{130, 33}}}});
  cases.push_back({.name = "dropout_with_mask", .inputs = {real({4, 5}), flags({4, 5})}, .call = [](In in) {
                     return dropout_with_mask(in[0], in[1], 0.25);
                   }});
  return cases;
}

}  // namespace weft::testing
