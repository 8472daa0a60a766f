#include "nn/layers/attention.h"

#include "autograd/ops/ops.h"
#include "nn/init.h"

namespace weft::nn {
namespace {

constexpr const char* kName = "MultiheadAttention";

const MultiheadAttentionOptions& checked(MultiheadAttentionOptions& options) {
  WEFT_CHECK(options.embed_dim > 0 && options.num_heads > 0 && options.embed_dim % options.num_heads == 0, kName,
             "expected an embed_dim that is a multiple of the heads, got {} and {}", options.embed_dim,
             options.num_heads);
  WEFT_CHECK(options.dropout >= 0 && options.dropout <= 1, kName, "expected a probability of dropout, got {}",
             options.dropout);
  if (options.kdim == 0) options.kdim = options.embed_dim;
  if (options.vdim == 0) options.vdim = options.embed_dim;
  return options;
}

// Both masks as one for scaled_dot_product_attention, where true is a key that is seen; undefined without either.
Tensor joined_mask(const MultiheadAttentionCall& call, const Shape& scores) {
  const auto checked_mask = [](const Tensor& mask) {
    WEFT_CHECK(mask.dtype() == DType::boolean || is_floating(mask.dtype()), kName,
               "expected a mask of bool or floating point, got {}", describe(mask));
    return mask.dtype() == DType::boolean ? logical_not(mask) : mask;
  };
  Tensor padding, pairs;
  if (call.key_padding_mask.defined()) {
    WEFT_CHECK(call.key_padding_mask.shape() == Shape({scores[0], scores[3]}), kName,
               "expected a key_padding_mask [{}, {}], got {}", scores[0], scores[3], describe(call.key_padding_mask));
    padding = checked_mask(call.key_padding_mask).unsqueeze(1).unsqueeze(1);
  }
  if (call.attn_mask.defined()) {
    const Tensor& mask = call.attn_mask;
    WEFT_CHECK(mask.shape() == Shape({scores[2], scores[3]}) ||
                   mask.shape() == Shape({scores[0] * scores[1], scores[2], scores[3]}),
               kName, "expected an attn_mask [{}, {}] or [{}, {}, {}], got {}", scores[2], scores[3],
               scores[0] * scores[1], scores[2], scores[3], describe(mask));
    pairs = checked_mask(mask.dim() == 2 ? mask : mask.reshape(scores));
  }
  if (!padding.defined() || !pairs.defined()) return padding.defined() ? padding : pairs;
  if (padding.dtype() == DType::boolean && pairs.dtype() == DType::boolean) return logical_and(padding, pairs);
  const auto added = [](const Tensor& mask, const Tensor& other) {
    if (mask.dtype() != DType::boolean) return mask;
    return where(mask, zeros({}, {.dtype = other.dtype(), .device = mask.device()}),
                 -std::numeric_limits<double>::infinity());
  };
  return added(padding, pairs) + added(pairs, padding);
}

}  // namespace

MultiheadAttention::MultiheadAttention(ModuleBase* parent, std::string name, MultiheadAttentionOptions options)
    : Module(parent, std::move(name)),
      options_(checked(options)),
      out_proj(this, "out_proj",
               {.in = options.embed_dim, .out = options.embed_dim, .bias = options.bias, .dtype = options.dtype}) {
  const int64_t width = options_.embed_dim;
  const auto weight = [&](const char* its_name, Tensor& slot, bool present, const Shape& shape) {
    register_parameter(its_name, slot, present ? empty(shape, options_.dtype) : Tensor());
    if (present) init::xavier_uniform_(slot);
  };
  const bool together = options_.kdim == width && options_.vdim == width;
  weight("in_proj_weight", in_proj_weight, together, {3 * width, width});
  weight("q_proj_weight", q_proj_weight, !together, {width, width});
  weight("k_proj_weight", k_proj_weight, !together, {width, options_.kdim});
  weight("v_proj_weight", v_proj_weight, !together, {width, options_.vdim});
  register_parameter("in_proj_bias", in_proj_bias, options_.bias ? zeros({3 * width}, options_.dtype) : Tensor());
  if (options_.bias) init::zeros_(out_proj.bias);
}

std::pair<Tensor, Tensor> MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                                      const MultiheadAttentionCall& call) {
  WEFT_CHECK((query.dim() == 2 || query.dim() == 3) && key.dim() == query.dim() && value.dim() == query.dim(), kName,
             "expected query, key and value of two or three dimensions, got {}, {}, {}", describe(query), describe(key),
             describe(value));
  if (query.dim() == 2) {
    MultiheadAttentionCall one = call;
    if (call.key_padding_mask.defined()) one.key_padding_mask = call.key_padding_mask.unsqueeze(0);
    auto [y, weights] = batched(query.unsqueeze(0), key.unsqueeze(0), value.unsqueeze(0), one);
    return {y.squeeze(0), weights.defined() ? weights.squeeze(0) : weights};
  }
  if (options_.batch_first) return batched(query, key, value, call);
  auto [y, weights] = batched(query.transpose(0, 1), key.transpose(0, 1), value.transpose(0, 1), call);
  return {y.transpose(0, 1), weights};
}

std::pair<Tensor, Tensor> MultiheadAttention::batched(const Tensor& query, const Tensor& key, const Tensor& value,
                                                      const MultiheadAttentionCall& call) {
  const int64_t width = options_.embed_dim, heads = options_.num_heads;
  WEFT_CHECK(query.size(2) == width && key.size(2) == options_.kdim && value.size(2) == options_.vdim &&
                 key.size(0) == query.size(0) && value.size(0) == query.size(0) && key.size(1) == value.size(1),
             kName, "expected widths {}, {} and {} and equal batches and key and value times, got {}, {}, {}", width,
             options_.kdim, options_.vdim, describe(query), describe(key), describe(value));
  const auto bias = [&](int64_t which) {
    return in_proj_bias.defined() ? in_proj_bias.slice(0, which * width, (which + 1) * width) : Tensor();
  };
  Tensor q, k, v;
  if (!in_proj_weight.defined()) {
    q = linear(query, q_proj_weight, bias(0));
    k = linear(key, k_proj_weight, bias(1));
    v = linear(value, v_proj_weight, bias(2));
  } else if (query.is(key) && key.is(value)) {  // self-attention: one product
    const std::vector<Tensor> all = chunk(linear(query, in_proj_weight, in_proj_bias), 3, -1);
    q = all[0], k = all[1], v = all[2];
  } else {
    const auto weight = [&](int64_t which) { return in_proj_weight.slice(0, which * width, (which + 1) * width); };
    q = linear(query, weight(0), bias(0));
    k = linear(key, weight(1), bias(1));
    v = linear(value, weight(2), bias(2));
  }
  q = split_heads(q, heads), k = split_heads(k, heads), v = split_heads(v, heads);
  const AttentionOptions options{.causal = call.is_causal,
                                 .mask = joined_mask(call, {q.size(0), heads, q.size(2), k.size(2)}),
                                 .dropout = training() ? options_.dropout : 0};
  if (!call.need_weights) return {out_proj(merge_heads(scaled_dot_product_attention(q, k, v, options))), Tensor()};
  const Tensor weights = attention_weights(q, k, options);
  const Tensor y = out_proj(merge_heads(matmul(weights, v)));
  return {y, call.average_attn_weights ? mean(weights, {1}) : weights};
}

}  // namespace weft::nn
