#include "autograd/ops/multihead_attention.h"

#include "autograd/ops/ops.h"

namespace weft {

Tensor split_heads(const Tensor& x, int64_t heads) {
  WEFT_CHECK(x.dim() == 3 && heads > 0 && x.size(2) % heads == 0, "split_heads",
             "expected [batch, time, a multiple of {} heads], got {}", heads, describe(x));
  return x.reshape({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

Tensor merge_heads(const Tensor& x) {
  WEFT_CHECK(x.dim() == 4, "merge_heads", "expected [batch, heads, time, dim], got {}", describe(x));
  return x.transpose(1, 2).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

Tensor multihead_self_attention(const Tensor& x, const Tensor& in_weight, const Tensor& in_bias,
                                const Tensor& out_weight, const Tensor& out_bias, const MultiheadOptions& options) {
  if (x.dim() == 2)
    return multihead_self_attention(x.unsqueeze(0), in_weight, in_bias, out_weight, out_bias,
                                    {.heads = options.heads, .attention = options.attention})
        .squeeze(0);
  WEFT_CHECK(
      x.dim() == 3 && in_weight.dim() == 2 && in_weight.size(0) == 3 * x.size(2) && options.heads > 0 &&
          x.size(2) % options.heads == 0,
      "multihead_self_attention",
      "expected x [batch, time, width], a weight [3 width, width] and a width that is a multiple of {} heads, got {} "
      "and {}",
      options.heads, describe(x), describe(in_weight));
  if (!options.batch_first) {
    MultiheadOptions batched = options;
    batched.batch_first = true;
    return multihead_self_attention(x.transpose(0, 1), in_weight, in_bias, out_weight, out_bias, batched)
        .transpose(0, 1);
  }
  const std::vector<Tensor> qkv = chunk(linear(x, in_weight, in_bias), 3, -1);
  const Tensor y = scaled_dot_product_attention(split_heads(qkv[0], options.heads), split_heads(qkv[1], options.heads),
                                                split_heads(qkv[2], options.heads), options.attention);
  return linear(merge_heads(y), out_weight, out_bias);
}

}  // namespace weft
