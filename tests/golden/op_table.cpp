// Every op by its name in the golden files, called through the public API with torch's parameters translated.
#include <array>
#include <limits>

#include "tests/golden/case.h"

namespace weft::testing {
namespace {

using Arguments = const OpArguments&;
using Tensors = std::vector<Tensor>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

LossReduction reduction(const Params& params) {
  const std::string& name = params.text("reduction");
  if (name == "mean") return LossReduction::mean;
  if (name == "sum") return LossReduction::sum;
  if (name == "batchmean") return LossReduction::batchmean;
  if (name == "none") return LossReduction::none;
  throw Skip{fmt::format("the reduction {}", name)};
}

OpFunction unary(Tensor (*op)(const Tensor&)) {
  return [op](Arguments a) { return Tensors{op(a.in.at(0))}; };
}
OpFunction binary(Tensor (*op)(const Operand&, const Operand&)) {
  return [op](Arguments a) { return Tensors{op(a.in.at(0), a.in.at(1))}; };
}
OpFunction products(Tensor (*op)(const Tensor&, const Tensor&)) {
  return [op](Arguments a) { return Tensors{op(a.in.at(0), a.in.at(1))}; };
}
OpFunction along(Tensor (*op)(const Tensor&, int64_t dim)) {
  return [op](Arguments a) { return Tensors{op(a.in.at(0), a.params.integer("dim"))}; };
}
OpFunction over_dims(Tensor (*op)(const Tensor&, const Shape&, bool)) {
  return [op](Arguments a) { return Tensors{op(a.in.at(0), a.params.list("dim"), a.params.flag("keepdim"))}; };
}
OpFunction spread(Tensor (*op)(const Tensor&, const Shape&, double, bool)) {
  return [op](Arguments a) {
    return Tensors{op(a.in.at(0), a.params.list("dim"), a.params.real("correction", 1), a.params.flag("keepdim"))};
  };
}
OpFunction extreme(Tensor (*all)(const Tensor&), ValuesAndIndices (*one)(const Tensor&, int64_t, bool)) {
  return [all, one](Arguments a) {
    const bool keepdim = a.params.flag("keepdim");
    if (!a.params.has("dim")) return Tensors{all(a.in.at(0))};
    const auto [values, indices] = one(a.in.at(0), a.params.integer("dim"), keepdim);
    return Tensors{values, indices};
  };
}
OpFunction place_of_extreme(Tensor (*all)(const Tensor&), Tensor (*one)(const Tensor&, int64_t, bool)) {
  return [all, one](Arguments a) {
    const bool keepdim = a.params.flag("keepdim");
    return Tensors{a.params.has("dim") ? one(a.in.at(0), a.params.integer("dim"), keepdim) : all(a.in.at(0))};
  };
}
OpFunction triangle(Tensor (*op)(const Tensor&, int64_t)) {
  return [op](Arguments a) { return Tensors{op(a.in.at(0), a.params.integer("diagonal"))}; };
}

Tensors sort_of(Arguments a) {
  const auto [values, indices] = sort(a.in.at(0), a.params.integer("dim"), a.params.flag("descending"));
  return {values, indices};
}
Tensors topk_of(Arguments a) {
  a.params.flag("sorted");  // always
  const auto [values, indices] =
      topk(a.in.at(0), a.params.integer("k"), a.params.integer("dim"), a.params.flag("largest", true));
  return {values, indices};
}
Tensors split_of(Arguments a) {
  const int64_t dim = a.params.integer("dim");
  if (a.params.get("split_size").is_int()) return split(a.in.at(0), a.params.integer("split_size"), dim);
  return split(a.in.at(0), a.params.list("split_size").vector(), dim);
}
Tensors arange_of(Arguments a) {
  const bool whole = a.params.get("start").is_int() && a.params.get("end").is_int() && a.params.get("step").is_int();
  return {arange(a.params.real("start"), a.params.real("end"), a.params.real("step"), whole ? i64 : f32)};
}
Tensors unique_of(Arguments a) {
  const Unique result = unique(a.in.at(0));
  return {result.values, result.inverse, result.counts};
}
Tensors cross_entropy_of(Arguments a) {
  CrossEntropyLossOptions options;
  options.reduction = reduction(a.params);
  options.label_smoothing = a.params.real("label_smoothing", 0);
  options.ignore_index = a.params.integer("ignore_index", -100);
  if (a.params.flag("weight")) options.weight = a.in.at(2);
  return {cross_entropy(a.in.at(0), a.in.at(1), options)};
}
Tensors nll_loss_of(Arguments a) {
  NllLossOptions options;
  options.reduction = reduction(a.params);
  options.ignore_index = a.params.integer("ignore_index", -100);
  if (a.params.flag("weight")) options.weight = a.in.at(2);
  return {nll_loss(a.in.at(0), a.in.at(1), options)};
}
Tensors bce_of(Arguments a) {
  BinaryCrossEntropyOptions options;
  options.reduction = reduction(a.params);
  if (a.params.flag("weight")) options.weight = a.in.at(2);
  return {binary_cross_entropy(a.in.at(0), a.in.at(1), options)};
}
Tensors bce_with_logits_of(Arguments a) {
  BinaryCrossEntropyWithLogitsOptions options;
  options.reduction = reduction(a.params);
  size_t next = 2;
  if (a.params.flag("weight")) options.weight = a.in.at(next++);
  if (a.params.flag("pos_weight")) options.pos_weight = a.in.at(next++);
  return {binary_cross_entropy_with_logits(a.in.at(0), a.in.at(1), options)};
}
OpFunction pairwise(Tensor (*op)(const Tensor&, const Tensor&, LossReduction)) {
  return [op](Arguments a) { return Tensors{op(a.in.at(0), a.in.at(1), reduction(a.params))}; };
}
// --- convolution and pooling: a parameter is one number for all dimensions, or a list ---------------------------------

std::array<int64_t, 2> pair_of(const Params& params, const std::string& name, int64_t otherwise) {
  const Shape values = params.list(name);
  if (values.empty()) return {otherwise, otherwise};
  return {values[0], values[values.size() > 1 ? 1 : 0]};
}
int64_t single_of(const Params& params, const std::string& name, int64_t otherwise) {
  const Shape values = params.list(name);
  return values.empty() ? otherwise : values[0];
}
Tensor input_or_none(Arguments a, size_t i) { return i < a.in.size() ? a.in[i] : Tensor(); }
bool says(const Params& params, const std::string& name, const std::string& text) {
  return params.has(name) && params.get(name).is_string() && params.text(name) == text;
}
int64_t groups_of(Arguments a) { return a.params.has("groups") ? a.params.integer("groups") : 1; }

Tensors conv2d_of(Arguments a) {
  Conv2dOptions options{.stride = pair_of(a.params, "stride", 1),
                        .padding = {0, 0},
                        .dilation = pair_of(a.params, "dilation", 1),
                        .groups = groups_of(a)};
  options.same_padding = says(a.params, "padding", "same");
  if (!options.same_padding && !says(a.params, "padding", "valid")) options.padding = pair_of(a.params, "padding", 0);
  return {conv2d(a.in.at(0), a.in.at(1), input_or_none(a, 2), options)};
}
Tensors conv1d_of(Arguments a) {
  Conv1dOptions options{.stride = single_of(a.params, "stride", 1),
                        .padding = 0,
                        .dilation = single_of(a.params, "dilation", 1),
                        .groups = groups_of(a)};
  options.same_padding = says(a.params, "padding", "same");
  if (!options.same_padding && !says(a.params, "padding", "valid")) options.padding = single_of(a.params, "padding", 0);
  return {conv1d(a.in.at(0), a.in.at(1), input_or_none(a, 2), options)};
}
Tensors conv_transpose2d_of(Arguments a) {
  return {conv_transpose2d(a.in.at(0), a.in.at(1), input_or_none(a, 2),
                           {.stride = pair_of(a.params, "stride", 1),
                            .padding = pair_of(a.params, "padding", 0),
                            .output_padding = pair_of(a.params, "output_padding", 0),
                            .dilation = pair_of(a.params, "dilation", 1),
                            .groups = groups_of(a)})};
}
Tensors conv_transpose1d_of(Arguments a) {
  return {conv_transpose1d(a.in.at(0), a.in.at(1), input_or_none(a, 2),
                           {.stride = single_of(a.params, "stride", 1),
                            .padding = single_of(a.params, "padding", 0),
                            .output_padding = single_of(a.params, "output_padding", 0),
                            .dilation = single_of(a.params, "dilation", 1),
                            .groups = groups_of(a)})};
}

Pool2dOptions pool2d_options(const Params& params, bool max) {
  Pool2dOptions options{.kernel = pair_of(params, "kernel_size", 0),
                        .stride = pair_of(params, "stride", 0),
                        .padding = pair_of(params, "padding", 0),
                        .ceil_mode = params.flag("ceil_mode")};
  if (max) {
    options.dilation = pair_of(params, "dilation", 1);
  } else {
    options.count_include_pad = params.flag("count_include_pad", true);
    if (params.has("divisor_override")) options.divisor_override = params.integer("divisor_override");
  }
  return options;
}
Pool1dOptions pool1d_options(const Params& params, bool max) {
  Pool1dOptions options{.kernel = single_of(params, "kernel_size", 0),
                        .stride = single_of(params, "stride", 0),
                        .padding = single_of(params, "padding", 0),
                        .ceil_mode = params.flag("ceil_mode")};
  if (max)
    options.dilation = single_of(params, "dilation", 1);
  else
    options.count_include_pad = params.flag("count_include_pad", true);
  return options;
}
Tensors with_indices(Arguments a, const std::pair<Tensor, Tensor>& pooled) {
  if (a.params.flag("return_indices")) return {pooled.first, pooled.second};
  return {pooled.first};
}
Tensors max_pool2d_of(Arguments a) {
  return with_indices(a, max_pool2d_with_indices(a.in.at(0), pool2d_options(a.params, true)));
}
Tensors max_pool1d_of(Arguments a) {
  return with_indices(a, max_pool1d_with_indices(a.in.at(0), pool1d_options(a.params, true)));
}
// null is the input's size.
std::array<int64_t, 2> output_size_of(const Params& params) {
  const Tree& size = params.get("output_size");
  if (size.is_int()) return {size.as_int(), size.as_int()};
  const auto one = [&](int64_t i) { return size[i].is_null() ? -1 : size[i].as_int(); };
  return {one(0), one(size.size() > 1 ? 1 : 0)};
}

Tensors interpolate_of(Arguments a) {
  if (a.params.flag("antialias")) throw Skip{"interpolate with antialias"};
  InterpolateOptions options;
  options.size = a.params.list("size");
  if (a.params.has("scale_factor")) {
    const Tree& factor = a.params.get("scale_factor");
    if (factor.is_list())
      for (const Tree& value : factor.as_list()) options.scale_factor.push_back(golden_number(value));
    else
      options.scale_factor = {golden_number(factor)};
  }
  if (a.params.has("mode")) options.mode = a.params.text("mode");
  options.align_corners = a.params.flag("align_corners");
  options.recompute_scale_factor = a.params.flag("recompute_scale_factor");
  return {interpolate(a.in.at(0), options)};
}
FoldOptions fold_options(const Params& params) {
  return {.kernel = pair_of(params, "kernel_size", 1),
          .stride = pair_of(params, "stride", 1),
          .padding = pair_of(params, "padding", 0),
          .dilation = pair_of(params, "dilation", 1)};
}

Tensors embedding_of(Arguments a) {
  const Tensor& weight = a.in.at(1);
  int64_t padding = -1;  // none
  if (a.params.has("padding_idx")) {
    padding = a.params.integer("padding_idx");
    if (padding < 0) padding += weight.size(0);  // torch counts from the end
  }
  return {embedding(weight, a.in.at(0), padding)};
}
Tensors layer_norm_of(Arguments a) {
  return {layer_norm(a.in.at(0), a.params.list("normalized_shape"), a.in.size() > 1 ? a.in[1] : Tensor(),
                     a.in.size() > 2 ? a.in[2] : Tensor(), a.params.real("eps"))};
}
Tensors rms_norm_of(Arguments a) {
  // torch's None is the machine epsilon of the dtype.
  const double epsilon =
      a.in.at(0).dtype() == f64 ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  return {rms_norm(a.in.at(0), a.params.list("normalized_shape"), a.in.size() > 1 ? a.in[1] : Tensor(),
                   a.params.real("eps", epsilon))};
}
// x, running_mean, running_var, weight, bias, the latter ones as far as given.
Tensors batch_norm_of(Arguments a) {
  const auto input = [&](size_t i) { return input_or_none(a, i); };
  const bool affine = a.params.flag("affine", a.in.size() > 3);
  const Tensor y = batch_norm(input(0), input(1), input(2), affine ? input(3) : Tensor(), affine ? input(4) : Tensor(),
                              a.params.flag("training"), a.params.real("momentum", 0.1), a.params.real("eps", 1e-5));
  if (a.in.size() < 3) return {y};
  return {y, input(1), input(2)};
}
Tensors group_norm_of(Arguments a) {
  return {group_norm(a.in.at(0), a.params.integer("num_groups"), a.in.size() > 1 ? a.in[1] : Tensor(),
                     a.in.size() > 2 ? a.in[2] : Tensor(), a.params.real("eps", 1e-5))};
}
Tensors instance_norm_of(Arguments a) {
  const auto input = [&](size_t i) { return input_or_none(a, i); };
  return {instance_norm(input(0), input(1), input(2), input(3), input(4), a.params.flag("use_input_stats", true),
                        a.params.real("momentum", 0.1), a.params.real("eps", 1e-5))};
}
Tensors attention_of(Arguments a) {
  a.params.flag("enable_gqa");  // the shapes say it
  AttentionOptions options;
  options.causal = a.params.flag("is_causal");
  if (a.params.has("scale")) options.scale = a.params.real("scale");
  options.dropout = a.params.real("dropout_p", 0);
  if (a.params.has("mask")) options.mask = a.in.at(3);
  return {scaled_dot_product_attention(a.in.at(0), a.in.at(1), a.in.at(2), options)};
}
Tensors rope_of(Arguments a) {
  return {rope(a.in.at(0), a.in.at(1),
               {.dim = a.params.integer("dim"),
                .base = a.params.real("base", 10000),
                .interleaved = a.params.flag("interleaved")})};
}
Tensors multihead_of(Arguments a) {
  const auto input = [&](size_t i) { return i < a.in.size() ? a.in[i] : Tensor(); };
  return {multihead_self_attention(input(0), input(1), input(2), input(3), input(4),
                                   {.heads = a.params.integer("heads"),
                                    .batch_first = a.params.flag("batch_first", true),
                                    .attention = {.causal = a.params.flag("causal")}})};
}
// The inputs of a recurrent network by torch's names.
struct RecurrentArguments {
  Tensor x, h0, c0;
  std::vector<RecurrentWeights> weights;
  RecurrentOptions options;
};
RecurrentArguments recurrent_arguments(Arguments a) {
  a.params.integer("hidden_size");  // the weights say it
  a.params.flag("bias");
  RecurrentArguments r;
  r.options = {.num_layers = a.params.integer("num_layers"),
               .bidirectional = a.params.flag("bidirectional"),
               .batch_first = a.params.flag("batch_first"),
               .dropout = a.params.real("dropout", 0),
               .training = a.params.flag("training")};
  a.params.has("proj_size");
  const std::vector<Tree>& names = a.params.get("input_names").as_list();
  const auto input = [&](const std::string& name) {
    for (size_t i = 0; i < names.size(); ++i)
      if (names[i].as_string() == name) return a.in.at(i);
    return Tensor();
  };
  r.x = input("x");
  r.h0 = input("h0");
  r.c0 = input("c0");
  for (int64_t layer = 0; layer < r.options.num_layers; ++layer)
    for (const char* direction : {"", "_reverse"}) {
      if (*direction && !r.options.bidirectional) continue;
      const std::string end = fmt::format("_l{}{}", layer, direction);
      r.weights.push_back({input("weight_ih" + end), input("weight_hh" + end), input("bias_ih" + end),
                           input("bias_hh" + end), input("weight_hr" + end)});
    }
  return r;
}
Tensors lstm_of(Arguments a) {
  const RecurrentArguments r = recurrent_arguments(a);
  const RecurrentResult result = lstm(r.x, r.h0, r.c0, r.weights, r.options);
  return {result.output, result.h, result.c};
}
OpFunction recurrent(RecurrentResult (*op)(const Tensor&, const Tensor&, const std::vector<RecurrentWeights>&,
                                           const RecurrentOptions&)) {
  return [op](Arguments a) {
    const RecurrentArguments r = recurrent_arguments(a);
    const RecurrentResult result = op(r.x, r.h0, r.weights, r.options);
    return Tensors{result.output, result.h};
  };
}

// clang-format off
const std::vector<std::pair<std::string_view, OpFunction>>& op_table() {
  static const std::vector<std::pair<std::string_view, OpFunction>> table = {
      // pointwise
      {"neg", unary(neg)}, {"exp", unary(exp)}, {"log", unary(log)}, {"sqrt", unary(sqrt)}, {"rsqrt", unary(rsqrt)},
      {"reciprocal", unary(reciprocal)}, {"square", unary(square)}, {"tanh", unary(tanh)}, {"sigmoid", unary(sigmoid)},
      {"relu", unary(relu)}, {"gelu", unary(gelu)}, {"gelu_tanh", unary(gelu_tanh)}, {"silu", unary(silu)},
      {"abs", unary(abs)}, {"erf", unary(erf)}, {"sin", unary(sin)}, {"cos", unary(cos)}, {"log1p", unary(log1p)},
      {"expm1", unary(expm1)}, {"sign", unary(sign)}, {"floor", unary(floor)}, {"ceil", unary(ceil)},
      {"round", unary(round)}, {"trunc", unary(trunc)}, {"isnan", unary(isnan)}, {"isfinite", unary(isfinite)},
      {"logical_not", unary(logical_not)},
      {"isinf", unary(isinf)}, {"tan", unary(tan)}, {"atan", unary(atan)}, {"mish", unary(mish)}, {"selu", unary(selu)},
      {"hardsigmoid", unary(hardsigmoid)}, {"hardswish", unary(hardswish)}, {"relu6", unary(relu6)},
      {"logsigmoid", unary(logsigmoid)}, {"bitwise_not", unary(bitwise_not)},
      {"hardtanh", [](Arguments a) { return Tensors{hardtanh(a.in.at(0), a.params.real("min_val", -1), a.params.real("max_val", 1))}; }},
      {"softplus", [](Arguments a) { return Tensors{softplus(a.in.at(0), a.params.real("beta", 1), a.params.real("threshold", 20))}; }},
      {"clamp", [](Arguments a) { return Tensors{clamp(a.in.at(0), a.params.real("min", -kInfinity), a.params.real("max", kInfinity))}; }},
      {"leaky_relu", [](Arguments a) { return Tensors{leaky_relu(a.in.at(0), a.params.real("negative_slope", 0.01))}; }},
      {"elu", [](Arguments a) { return Tensors{elu(a.in.at(0), a.params.real("alpha", 1))}; }},
      {"nan_to_num", [](Arguments a) { return Tensors{nan_to_num(a.in.at(0))}; }},
      {"cast", [](Arguments a) { return Tensors{a.in.at(0).to(golden_dtype(a.params.text("to")))}; }},
      {"add", [](Arguments a) { return Tensors{add(a.in.at(0), a.in.at(1))}; }},
      {"add_alpha", [](Arguments a) { return Tensors{add(a.in.at(0), a.in.at(1), a.params.real("alpha"))}; }},
      {"add_promote", [](Arguments a) { a.params.get("dtypes"); return Tensors{add(a.in.at(0), a.in.at(1))}; }},
      {"sub", [](Arguments a) { return Tensors{sub(a.in.at(0), a.in.at(1))}; }},
      {"mul", binary(mul)}, {"div", binary(div)}, {"pow", binary(pow)}, {"maximum", binary(maximum)},
      {"minimum", binary(minimum)}, {"remainder", binary(remainder)}, {"fmod", binary(fmod)}, {"eq", binary(eq)},
      {"ne", binary(ne)}, {"lt", binary(lt)}, {"le", binary(le)}, {"gt", binary(gt)}, {"ge", binary(ge)},
      {"logical_and", binary(logical_and)}, {"logical_or", binary(logical_or)},
      {"logical_xor", binary(logical_xor)}, {"bitwise_and", binary(bitwise_and)}, {"bitwise_or", binary(bitwise_or)},
      {"bitwise_xor", binary(bitwise_xor)}, {"atan2", binary(atan2)}, {"prelu", products(prelu)},
      {"pow_scalar", [](Arguments a) { return Tensors{pow(a.in.at(0), a.params.real("exponent"))}; }},
      {"div_mode", [](Arguments a) {
         const bool down = a.params.text("rounding_mode") == "floor";
         return Tensors{down ? floor_divide(a.in.at(0), a.in.at(1)) : trunc_divide(a.in.at(0), a.in.at(1))};
       }},
      {"lerp", [](Arguments a) { return Tensors{lerp(a.in.at(0), a.in.at(1), a.params.real("weight"))}; }},
      {"where", [](Arguments a) { return Tensors{where(a.in.at(0), a.in.at(1), a.in.at(2))}; }},
      {"addcmul", [](Arguments a) { return Tensors{addcmul(a.in.at(0), a.in.at(1), a.in.at(2), a.params.real("value", 1))}; }},
      {"addcdiv", [](Arguments a) { return Tensors{addcdiv(a.in.at(0), a.in.at(1), a.in.at(2), a.params.real("value", 1))}; }},
      // reductions
      {"sum", over_dims(sum)}, {"mean", over_dims(mean)}, {"prod", over_dims(prod)}, {"amax", over_dims(amax)},
      {"amin", over_dims(amin)}, {"logsumexp", over_dims(logsumexp)}, {"all", over_dims(all)}, {"any", over_dims(any)},
      {"var", spread(var)}, {"std", spread(weft::std)},
      {"norm", [](Arguments a) { return Tensors{norm(a.in.at(0), a.params.real("ord", 2), a.params.list("dim"), a.params.flag("keepdim"))}; }},
      {"max", extreme(max, max)}, {"min", extreme(min, min)}, {"argmax", place_of_extreme(argmax, argmax)},
      {"argmin", place_of_extreme(argmin, argmin)}, {"cumsum", along(cumsum)}, {"cumprod", along(cumprod)},
      // products
      {"matmul", products(matmul)}, {"bmm", products(bmm)}, {"outer", products(outer)}, {"dot", products(dot)},
      {"linear", [](Arguments a) { return Tensors{linear(a.in.at(0), a.in.at(1), a.in.size() > 2 ? a.in[2] : Tensor())}; }},
      {"addmm", [](Arguments a) { return Tensors{addmm(a.in.at(0), a.in.at(1), a.in.at(2), a.params.real("beta", 1), a.params.real("alpha", 1))}; }},
      {"einsum", [](Arguments a) { return Tensors{einsum(a.params.text("equation"), a.in)}; }},
      // layers
      {"softmax", along(softmax)}, {"log_softmax", along(log_softmax)}, {"cross_entropy", cross_entropy_of},
      {"layer_norm", layer_norm_of}, {"rms_norm", rms_norm_of}, {"batch_norm", batch_norm_of}, {"group_norm", group_norm_of},
      {"instance_norm", instance_norm_of}, {"embedding", embedding_of},
      {"cross_entropy_prob", cross_entropy_of}, {"nll_loss", nll_loss_of}, {"bce", bce_of},
      {"bce_with_logits", bce_with_logits_of}, {"mse_loss", pairwise(mse_loss)}, {"l1_loss", pairwise(l1_loss)},
      {"smooth_l1_loss", [](Arguments a) { return Tensors{smooth_l1_loss(a.in.at(0), a.in.at(1), a.params.real("beta", 1), reduction(a.params))}; }},
      {"huber_loss", [](Arguments a) { return Tensors{huber_loss(a.in.at(0), a.in.at(1), a.params.real("delta", 1), reduction(a.params))}; }},
      {"kl_div", [](Arguments a) { return Tensors{kl_div(a.in.at(0), a.in.at(1), reduction(a.params), a.params.flag("log_target"))}; }},
      {"cosine_similarity", [](Arguments a) { return Tensors{cosine_similarity(a.in.at(0), a.in.at(1), a.params.integer("dim", 1), a.params.real("eps", 1e-8))}; }},
      {"normalize", [](Arguments a) { return Tensors{normalize(a.in.at(0), a.params.real("p", 2), a.params.integer("dim", 1), a.params.real("eps", 1e-12))}; }},
      {"cosine_embedding_loss", [](Arguments a) { return Tensors{cosine_embedding_loss(a.in.at(0), a.in.at(1), a.in.at(2), a.params.real("margin", 0), reduction(a.params))}; }},
      {"dropout", [](Arguments a) { return Tensors{dropout(a.in.at(0), a.params.real("p"), a.params.flag("training", true))}; }},
      {"dropout_mask", [](Arguments a) { return Tensors{dropout_with_mask(a.in.at(0), a.in.at(1), a.params.real("p"))}; }},
      {"conv2d", conv2d_of}, {"conv1d", conv1d_of}, {"conv_transpose2d", conv_transpose2d_of},
      {"conv_transpose1d", conv_transpose1d_of}, {"max_pool2d", max_pool2d_of}, {"max_pool1d", max_pool1d_of},
      {"avg_pool2d", [](Arguments a) { return Tensors{avg_pool2d(a.in.at(0), pool2d_options(a.params, false))}; }},
      {"avg_pool1d", [](Arguments a) { return Tensors{avg_pool1d(a.in.at(0), pool1d_options(a.params, false))}; }},
      {"adaptive_avg_pool2d", [](Arguments a) { return Tensors{adaptive_avg_pool2d(a.in.at(0), output_size_of(a.params))}; }},
      {"adaptive_avg_pool1d", [](Arguments a) { return Tensors{adaptive_avg_pool1d(a.in.at(0), output_size_of(a.params)[0])}; }},
      {"adaptive_max_pool2d", [](Arguments a) { return with_indices(a, adaptive_max_pool2d_with_indices(a.in.at(0), output_size_of(a.params))); }},
      {"interpolate", interpolate_of},
      {"im2col", [](Arguments a) { return Tensors{im2col(a.in.at(0), fold_options(a.params))}; }},
      {"col2im", [](Arguments a) { return Tensors{col2im(a.in.at(0), output_size_of(a.params), fold_options(a.params))}; }},
      {"sdpa", attention_of},
      {"scaled_dot_product_attention", attention_of}, {"rope", rope_of}, {"multihead_self_attention", multihead_of},
      {"lstm", lstm_of}, {"gru", recurrent(gru)}, {"rnn_tanh", recurrent(rnn_tanh)}, {"rnn_relu", recurrent(rnn_relu)},
      // by index
      {"gather", [](Arguments a) { return Tensors{gather(a.in.at(0), a.params.integer("dim"), a.in.at(1))}; }},
      {"scatter", [](Arguments a) { return Tensors{scatter(a.in.at(0), a.params.integer("dim"), a.in.at(1), a.in.at(2))}; }},
      {"scatter_value", [](Arguments a) { return Tensors{scatter(a.in.at(0), a.params.integer("dim"), a.in.at(1), a.params.real("value"))}; }},
      {"scatter_add", [](Arguments a) { return Tensors{scatter_add(a.in.at(0), a.params.integer("dim"), a.in.at(1), a.in.at(2))}; }},
      {"index_select", [](Arguments a) { return Tensors{index_select(a.in.at(0), a.params.integer("dim"), a.in.at(1))}; }},
      {"index_add", [](Arguments a) { return Tensors{index_add(a.in.at(0), a.params.integer("dim"), a.in.at(1), a.in.at(2), a.params.real("alpha", 1))}; }},
      {"index", [](Arguments a) { return Tensors{index(a.in.at(0), {a.in.at(1)})}; }},
      {"index2", [](Arguments a) { return Tensors{index(a.in.at(0), {a.in.at(1), a.in.at(2)})}; }},
      {"masked_fill", [](Arguments a) { return Tensors{masked_fill(a.in.at(0), a.in.at(1), a.params.real("value"))}; }},
      {"masked_select", products(masked_select)},
      {"nonzero", unary(nonzero)}, {"bincount", unary(bincount)}, {"unique", unique_of},
      {"one_hot", [](Arguments a) { return Tensors{one_hot(a.in.at(0), a.params.integer("num_classes"))}; }},
      // arrangement
      {"cat", [](Arguments a) { return Tensors{cat(a.in, a.params.integer("dim"))}; }},
      {"stack", [](Arguments a) { return Tensors{stack(a.in, a.params.integer("dim"))}; }},
      {"split", split_of},
      {"chunk", [](Arguments a) { return chunk(a.in.at(0), a.params.integer("chunks"), a.params.integer("dim")); }},
      {"flip", [](Arguments a) { return Tensors{flip(a.in.at(0), a.params.list("dims"))}; }},
      {"roll", [](Arguments a) { return Tensors{roll(a.in.at(0), a.params.list("shifts"), a.params.list("dims"))}; }},
      {"tril", triangle(tril)}, {"triu", triangle(triu)},
      {"pad", [](Arguments a) { return Tensors{pad(a.in.at(0), a.params.list("pad").vector(), a.params.text("mode"), a.params.real("value", 0))}; }},
      {"repeat", [](Arguments a) { return Tensors{repeat(a.in.at(0), a.params.list("repeats"))}; }},
      {"repeat_interleave", [](Arguments a) { return Tensors{repeat_interleave(a.in.at(0), a.params.integer("repeats"), a.params.integer("dim"))}; }},
      {"unfold", [](Arguments a) { return Tensors{unfold(a.in.at(0), a.params.integer("dim"), a.params.integer("size"), a.params.integer("step"))}; }},
      {"meshgrid", [](Arguments a) { return meshgrid(a.in); }},
      {"sort", sort_of}, {"topk", topk_of},
      {"argsort", [](Arguments a) { return Tensors{argsort(a.in.at(0), a.params.integer("dim"), a.params.flag("descending"))}; }},
      // views and factories
      {"narrow", [](Arguments a) { return Tensors{a.in.at(0).narrow(a.params.integer("dim"), a.params.integer("start"), a.params.integer("length"))}; }},
      {"select", [](Arguments a) { return Tensors{a.in.at(0).select(a.params.integer("dim"), a.params.integer("index"))}; }},
      {"unsqueeze", [](Arguments a) { return Tensors{a.in.at(0).unsqueeze(a.params.integer("dim"))}; }},
      {"squeeze", [](Arguments a) { return Tensors{a.params.has("dim") ? a.in.at(0).squeeze(a.params.integer("dim")) : a.in.at(0).squeeze()}; }},
      {"permute", [](Arguments a) { return Tensors{a.in.at(0).permute(a.params.list("dims"))}; }},
      {"transpose", [](Arguments a) { return Tensors{a.in.at(0).transpose(a.params.integer("dim0"), a.params.integer("dim1"))}; }},
      {"expand", [](Arguments a) { return Tensors{a.in.at(0).expand(a.params.list("size"))}; }},
      {"reshape", [](Arguments a) { return Tensors{a.in.at(0).reshape(a.params.list("shape"))}; }},
      {"flatten", [](Arguments a) { return Tensors{a.in.at(0).flatten(a.params.integer("start_dim"), a.params.integer("end_dim"))}; }},
      {"diagonal", [](Arguments a) { return Tensors{diagonal(a.in.at(0), a.params.integer("offset"))}; }},
      {"arange", arange_of},
      {"linspace", [](Arguments a) { return Tensors{linspace(a.params.real("start"), a.params.real("end"), a.params.integer("steps"))}; }},
  };
  return table;
}
// clang-format on

}  // namespace

OpFunction find_op(const std::string& name) {
  for (const auto& [known, function] : op_table())
    if (known == name) return function;
  return {};
}

}  // namespace weft::testing
