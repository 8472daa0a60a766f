// Wrong calls: each is a weft::Error that names the operation and what it got (shapes, dtypes, devices, numbers), before
// anything is computed. One row a mistake; a new op adds those that its parameters allow.
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "weft/weft.h"

namespace weft {
namespace {

struct WrongCall {
  std::string name;
  std::function<void()> call;
  std::string op;                 // as the error has it
  std::vector<std::string> says;  // parts of its text
};
void PrintTo(const WrongCall& row, std::ostream* out) { *out << row.name; }

Tensor f(const Shape& shape) { return zeros(shape); }
Tensor whole(const Shape& shape) { return zeros(shape, i64); }
Tensor at(int64_t index) { return tensor(std::vector<int64_t>{index}); }
Tensor flags(const Shape& shape) { return zeros(shape, DType::boolean); }
Tensor tracked(const Shape& shape) { return ones(shape).requires_grad_(); }
Tensor on_meta(const Shape& shape) { return zeros(shape, {.device = meta_device}); }

const std::vector<WrongCall> kShapes = {
    // Operands that do not broadcast.
    {"add_sizes",
     [] {
       add(f({2, 3}), f({2, 4}));
     },
     "add",
     {"[2, 3]", "[2, 4]"}},
    {"sub_sizes", [] { sub(f({3}), f({4})); }, "sub", {"[3]", "[4]"}},
    {"mul_sizes",
     [] {
       mul(f({2, 1, 3}), f({2, 2, 2}));
     },
     "mul",
     {"[2, 1, 3]", "[2, 2, 2]"}},
    {"div_sizes",
     [] {
       div(f({5}), f({2, 4}));
     },
     "div",
     {"[5]", "[2, 4]"}},
    {"pow_sizes", [] { pow(f({2}), f({3})); }, "pow", {"[2]", "[3]"}},
    {"maximum_sizes", [] { maximum(f({2}), f({3})); }, "maximum", {"[2]", "[3]"}},
    {"minimum_sizes", [] { minimum(f({2}), f({3})); }, "minimum", {"[2]", "[3]"}},
    {"remainder_sizes", [] { remainder(f({2}), f({3})); }, "remainder", {"[2]", "[3]"}},
    {"fmod_sizes", [] { fmod(f({2}), f({3})); }, "fmod", {"[2]", "[3]"}},
    {"floor_divide_sizes", [] { floor_divide(f({2}), f({3})); }, "floor_divide", {"[2]", "[3]"}},
    {"eq_sizes", [] { eq(f({2}), f({3})); }, "eq", {"[2]", "[3]"}},
    {"lt_sizes",
     [] {
       lt(f({2, 2}), f({3, 3}));
     },
     "lt",
     {"[2, 2]", "[3, 3]"}},
    {"logical_and_sizes", [] { logical_and(flags({2}), flags({3})); }, "logical_and", {"[2]", "[3]"}},
    {"lerp_sizes", [] { lerp(f({2}), f({3}), 0.5); }, "lerp", {"[2]", "[3]"}},
    {"where_sizes", [] { where(flags({2}), f({3}), f({3})); }, "where", {"[2]", "[3]"}},
    {"addcmul_sizes", [] { addcmul(f({2}), f({3}), f({3})); }, "addcmul", {"[2]", "[3]"}},
    {"addcdiv_sizes", [] { addcdiv(f({2}), f({3}), f({3})); }, "addcdiv", {"[2]", "[3]"}},
    // Products.
    {"matmul_inner",
     [] {
       matmul(f({2, 3}), f({4, 5}));
     },
     "matmul",
     {"[2, 3]", "[4, 5]"}},
    {"matmul_vectors", [] { matmul(f({2}), f({3})); }, "matmul", {"[2]", "[3]"}},
    {"matmul_batches",
     [] {
       matmul(f({2, 3, 4}), f({3, 4, 5}));
     },
     "matmul",
     {"[2]", "[3]"}},
    {"matmul_zero_dim", [] { matmul(f({}), f({3})); }, "matmul", {"[]"}},
    {"bmm_batches",
     [] {
       bmm(f({2, 3, 4}), f({3, 4, 5}));
     },
     "bmm",
     {"[2, 3, 4]", "[3, 4, 5]"}},
    {"bmm_dims",
     [] {
       bmm(f({3, 4}), f({4, 5}));
     },
     "bmm",
     {"[3, 4]"}},
    {"bmm_inner",
     [] {
       bmm(f({2, 3, 4}), f({2, 5, 4}));
     },
     "bmm",
     {"[2, 3, 4]", "[2, 5, 4]"}},
    {"linear_features",
     [] {
       linear(f({2, 3}), f({5, 4}));
     },
     "linear",
     {"[2, 3]", "[5, 4]"}},
    {"linear_bias",
     [] {
       linear(f({2, 4}), f({5, 4}), f({4}));
     },
     "linear",
     {"[4]"}},
    {"linear_weight_dims",
     [] {
       linear(f({2, 4}), f({4}));
     },
     "linear",
     {"[4]"}},
    {"linear_transposed_features",
     [] {
       linear_transposed(f({2, 3}), f({4, 5}));
     },
     "linear_transposed",
     {"[2, 3]"}},
    {"addmm_input",
     [] {
       addmm(f({7}), f({2, 3}), f({3, 5}));
     },
     "addmm",
     {"[7]"}},
    {"addmm_inner",
     [] {
       addmm(f({5}), f({2, 3}), f({4, 5}));
     },
     "addmm",
     {"[2, 3]", "[4, 5]"}},
    {"outer_dims",
     [] {
       outer(f({2, 2}), f({3}));
     },
     "outer",
     {"[2, 2]"}},
    {"dot_sizes", [] { dot(f({2}), f({3})); }, "dot", {"[2]", "[3]"}},
    {"dot_dims",
     [] {
       dot(f({2, 2}), f({2, 2}));
     },
     "dot",
     {"[2, 2]"}},
    {"einsum_letters",
     [] {
       einsum("ij,jk->ik", {f({2, 3}), f({3})});
     },
     "einsum",
     {"ij,jk->ik", "[3]"}},
    {"einsum_sizes",
     [] {
       einsum("ij,jk->ik", {f({2, 3}), f({4, 5})});
     },
     "einsum",
     {"3", "[4, 5]"}},
    {"einsum_count",
     [] {
       einsum("ij,jk->ik", {f({2, 3})});
     },
     "einsum",
     {"2", "1"}},
    {"einsum_unknown",
     [] {
       einsum("ij->ik", {f({2, 3})});
     },
     "einsum",
     {"'k'"}},
    {"einsum_character",
     [] {
       einsum("i1->i", {f({2, 3})});
     },
     "einsum",
     {"'1'"}},
    // Layers' ops.
    {"conv2d_channels",
     [] {
       conv2d(f({1, 3, 8, 8}), f({4, 2, 3, 3}));
     },
     "conv2d",
     {"[1, 3, 8, 8]", "[4, 2, 3, 3]"}},
    {"conv2d_dims",
     [] {
       conv2d(f({8, 8}), f({4, 1, 3, 3}));
     },
     "conv2d",
     {"[8, 8]"}},
    {"conv2d_window",
     [] {
       conv2d(f({1, 1, 2, 2}), f({1, 1, 3, 3}));
     },
     "conv2d",
     {"3"}},
    {"conv2d_groups",
     [] {
       conv2d(f({1, 3, 8, 8}), f({4, 1, 3, 3}), {}, {.groups = 2});
     },
     "conv2d",
     {"2"}},
    {"conv2d_stride",
     [] {
       conv2d(f({1, 1, 8, 8}), f({1, 1, 3, 3}), {}, {.stride = {0, 1}});
     },
     "conv2d",
     {"0"}},
    {"conv2d_bias",
     [] {
       conv2d(f({1, 1, 8, 8}), f({4, 1, 3, 3}), f({3}));
     },
     "conv2d",
     {"[3]"}},
    {"max_pool2d_dims",
     [] {
       max_pool2d(f({4, 4}));
     },
     "max_pool2d",
     {"[4, 4]"}},
    {"max_pool2d_window",
     [] {
       max_pool2d(f({1, 1, 4, 4}), {.kernel = {5, 5}});
     },
     "max_pool2d",
     {"5"}},
    {"max_pool2d_padding",
     [] {
       max_pool2d(f({1, 1, 4, 4}), {.kernel = {2, 2}, .padding = {2, 2}});
     },
     "max_pool2d",
     {"2"}},
    {"avg_pool2d_dims", [] { avg_pool2d(f({4})); }, "avg_pool2d", {"[4]"}},
    {"layer_norm_shape",
     [] {
       layer_norm(f({2, 3}), {4});
     },
     "layer_norm",
     {"[2, 3]", "[4]"}},
    {"layer_norm_weight",
     [] {
       layer_norm(f({2, 3}), {3}, f({2}));
     },
     "layer_norm",
     {"[2]"}},
    {"layer_norm_bias",
     [] {
       layer_norm(f({2, 3}), {3}, f({3}), f({4}));
     },
     "layer_norm",
     {"[4]"}},
    {"layer_norm_nothing",
     [] {
       layer_norm(f({2, 3}), {});
     },
     "layer_norm",
     {"[]"}},
    {"rms_norm_shape",
     [] {
       rms_norm(f({2, 3}), {2});
     },
     "rms_norm",
     {"[2, 3]", "[2]"}},
    {"rms_norm_weight",
     [] {
       rms_norm(f({2, 3}), {3}, f({4}));
     },
     "rms_norm",
     {"[4]"}},
    {"attention_dims",
     [] { scaled_dot_product_attention(f({3}), f({3}), f({3})); },
     "scaled_dot_product_attention",
     {"[3]"}},
    {"attention_heads",
     [] {
       scaled_dot_product_attention(f({1, 3, 4, 8}), f({1, 2, 4, 8}), f({1, 2, 4, 8}));
     },
     "scaled_dot_product_attention",
     {"3", "2"}},
    {"attention_head_dim",
     [] {
       scaled_dot_product_attention(f({1, 2, 4, 8}), f({1, 2, 4, 6}), f({1, 2, 4, 6}));
     },
     "scaled_dot_product_attention",
     {"[1, 2, 4, 8]", "[1, 2, 4, 6]"}},
    {"attention_keys",
     [] {
       scaled_dot_product_attention(f({1, 2, 4, 8}), f({1, 2, 5, 8}), f({1, 2, 6, 8}));
     },
     "scaled_dot_product_attention",
     {"[1, 2, 5, 8]", "[1, 2, 6, 8]"}},
    {"attention_mask",
     [] {
       scaled_dot_product_attention(f({1, 2, 4, 8}), f({1, 2, 4, 8}), f({1, 2, 4, 8}), {.mask = f({3, 4})});
     },
     "scaled_dot_product_attention",
     {"[3, 4]"}},
    {"cross_entropy_target",
     [] {
       cross_entropy(f({3, 5}), whole({4}));
     },
     "cross_entropy",
     {"[3, 5]", "[4]"}},
    {"cross_entropy_weight",
     [] {
       cross_entropy(f({3, 5}), whole({3}), {.weight = f({4})});
     },
     "cross_entropy",
     {"[4]"}},
    {"mse_loss_sizes", [] { mse_loss(f({3}), f({4})); }, "mse_loss", {"[3]", "[4]"}},
    {"dropout_mask_sizes", [] { dropout_with_mask(f({3}), f({4}), 0.5); }, "dropout_with_mask", {"[3]", "[4]"}},
    // Joining, moving, viewing.
    {"cat_sizes",
     [] {
       cat({f({2, 3}), f({2, 4})});
     },
     "cat",
     {"[2, 3]", "[2, 4]"}},
    {"cat_dims",
     [] {
       cat({f({2, 3}), f({2})});
     },
     "cat",
     {"[2, 3]", "[2]"}},
    {"cat_of_nothing", [] { cat({}); }, "cat", {"at least one"}},
    {"stack_sizes",
     [] {
       stack({f({2}), f({3})});
     },
     "stack",
     {"[2]", "[3]"}},
    {"stack_of_nothing", [] { stack({}); }, "stack", {"at least one"}},
    {"split_sizes",
     [] {
       split(f({5}), {2, 2});
     },
     "split",
     {"5"}},
    {"split_size", [] { split(f({5}), -1); }, "split", {"-1"}},
    {"chunk_count", [] { chunk(f({5}), 0); }, "chunk", {"0"}},
    {"reshape_count",
     [] {
       reshape(f({2, 3}), {4});
     },
     "reshape",
     {"[2, 3]", "[4]"}},
    {"reshape_two_unknown",
     [] {
       reshape(f({2, 3}), {-1, -1});
     },
     "reshape",
     {"[-1, -1]"}},
    {"reshape_remainder",
     [] {
       reshape(f({2, 3}), {-1, 4});
     },
     "reshape",
     {"[2, 3]", "[-1, 4]"}},
    {"expand_size",
     [] {
       expand(f({2, 3}), {4, 3});
     },
     "expand",
     {"[2, 3]", "[4, 3]"}},
    {"expand_fewer_dims",
     [] {
       expand(f({2, 3}), {3});
     },
     "expand",
     {"[2, 3]", "[3]"}},
    {"permute_count",
     [] {
       permute(f({2, 3}), {0});
     },
     "permute",
     {"[0]"}},
    {"permute_twice",
     [] {
       permute(f({2, 3}), {0, 0});
     },
     "permute",
     {"[0, 0]"}},
    {"flatten_order",
     [] {
       flatten(f({2, 3, 4}), 2, 1);
     },
     "flatten",
     {"2", "1"}},
    {"tril_dims", [] { tril(f({3})); }, "tril", {"[3]"}},
    {"triu_dims", [] { triu(f({3})); }, "triu", {"[3]"}},
    {"pad_odd", [] { pad(f({3}), {1}); }, "pad", {"1"}},
    {"pad_many",
     [] {
       pad(f({3}), {1, 1, 1, 1});
     },
     "pad",
     {"1 dimensions", "4"}},
    {"pad_mode",
     [] {
       pad(f({3}), {1, 1}, "mirror");
     },
     "pad",
     {"mirror"}},
    {"pad_reflect",
     [] {
       pad(f({3}), {3, 0}, "reflect");
     },
     "pad",
     {"3"}},
    {"pad_cut",
     [] {
       pad(f({3}), {-2, -2});
     },
     "pad",
     {"-2"}},
    {"repeat_fewer_dims",
     [] {
       repeat(f({2, 3}), {2});
     },
     "repeat",
     {"1 repeats", "[2, 3]"}},
    {"repeat_negative", [] { repeat(f({2}), {-1}); }, "repeat", {"-1"}},
    {"repeat_interleave_negative", [] { repeat_interleave(f({2}), -1, 0); }, "repeat_interleave", {"-1"}},
    {"unfold_size", [] { unfold(f({3}), 0, 4, 1); }, "unfold", {"4"}},
    {"unfold_step", [] { unfold(f({3}), 0, 2, 0); }, "unfold", {"0"}},
    {"roll_counts",
     [] {
       roll(f({2, 3}), {1}, {0, 1});
     },
     "roll",
     {"1 shifts", "2 dimensions"}},
    {"meshgrid_dims",
     [] {
       meshgrid({f({2, 2})});
     },
     "meshgrid",
     {"[2, 2]"}},
    {"topk_k", [] { topk(f({3}), 4); }, "topk", {"4"}},
    {"as_strided_range", [] { as_strided(f({4}), {3}, {2}, 0); }, "as_strided", {"[3]", "[2]"}},
    {"as_strided_offset", [] { as_strided(f({4}), {2}, {1}, -1); }, "as_strided", {"-1"}},
    {"diagonal_same",
     [] {
       diagonal(f({2, 2}), 0, 1, 1);
     },
     "diagonal",
     {"1"}},
    {"bincount_dims",
     [] {
       bincount(whole({2, 2}));
     },
     "bincount",
     {"[2, 2]"}},
    {"item_many", [] { (void)f({2}).item(); }, "item", {"[2]"}},
    {"max_of_nothing", [] { max(f({0})); }, "max", {"[0]"}},
    {"min_of_nothing", [] { min(f({0})); }, "min", {"[0]"}},
    {"argmax_of_nothing", [] { argmax(f({0})); }, "argmax", {"[0]"}},
    {"amax_of_nothing",
     [] {
       amax(f({0, 2}), {0});
     },
     "amax",
     {"[0, 2]"}},
    {"amin_of_nothing",
     [] {
       amin(f({2, 0}), {1});
     },
     "amin",
     {"[2, 0]"}},
    {"copy_sizes", [] { f({3}).copy_(f({2})); }, "copy_", {"[2]", "[3]"}},
    {"add_in_place_grows",
     [] {
       f({3}).add_(f({2, 3}));
     },
     "add_",
     {"[2, 3]", "[3]"}},
    {"mul_in_place_sizes", [] { f({3}).mul_(f({2})); }, "mul_", {"[2]", "[3]"}},
    {"empty_negative",
     [] {
       empty({2, -1});
     },
     "empty",
     {"-1"}},
    {"zeros_negative", [] { zeros({-3}); }, "empty", {"-3"}},
    {"eye_negative", [] { eye(-1); }, "eye", {"-1"}},
    {"linspace_steps", [] { linspace(0, 1, -1); }, "linspace", {"-1"}},
    {"arange_step", [] { arange(0, 3, 0); }, "arange", {"0"}},
    {"arange_direction", [] { arange(0, 3, -1); }, "arange", {"-1"}},
    {"randint_range", [] { randint(3, 3, {2}); }, "randint", {"3"}},
    {"randperm_negative", [] { randperm(-1); }, "randperm", {"-1"}},
};

const std::vector<WrongCall> kPlaces = {
    // Dimensions and indices out of range.
    {"softmax_dim",
     [] {
       softmax(f({2, 3}), 2);
     },
     "softmax",
     {"2", "-2 to 1"}},
    {"softmax_dim_negative",
     [] {
       softmax(f({2, 3}), -3);
     },
     "softmax",
     {"-3"}},
    {"log_softmax_dim", [] { log_softmax(f({3}), 1); }, "log_softmax", {"1"}},
    {"sum_dim",
     [] {
       sum(f({2, 3}), {2});
     },
     "sum",
     {"2"}},
    {"sum_dim_twice",
     [] {
       sum(f({2, 3}), {0, 0});
     },
     "sum",
     {"[0, 0]"}},
    {"sum_dim_twice_negative",
     [] {
       sum(f({2, 3}), {1, -1});
     },
     "sum",
     {"[1, -1]"}},
    {"mean_dim", [] { mean(f({2}), {1}); }, "mean", {"1"}},
    {"prod_dim", [] { prod(f({2}), {-2}); }, "prod", {"-2"}},
    {"var_dim", [] { var(f({2}), {1}); }, "var", {"1"}},
    {"std_dim", [] { weft::std(f({2}), {1}); }, "std", {"1"}},
    {"amax_dim", [] { amax(f({2}), {1}); }, "amax", {"1"}},
    {"max_dim", [] { max(f({2}), 1); }, "max", {"1"}},
    {"argmin_dim", [] { argmin(f({2}), 5); }, "argmin", {"5"}},
    {"logsumexp_dim", [] { logsumexp(f({2}), {1}); }, "logsumexp", {"1"}},
    {"norm_dim", [] { norm(f({2}), 2, {1}); }, "norm", {"1"}},
    {"all_dim", [] { all(flags({2}), {1}); }, "all", {"1"}},
    {"cumsum_dim", [] { cumsum(f({2}), 1); }, "cumsum", {"1"}},
    {"cumprod_dim", [] { cumprod(f({2}), -2); }, "cumprod", {"-2"}},
    {"sort_dim", [] { sort(f({2}), 1); }, "sort", {"1"}},
    {"argsort_dim", [] { argsort(f({2}), 1); }, "argsort", {"1"}},
    {"topk_dim", [] { topk(f({2}), 1, 3); }, "topk", {"3"}},
    {"cat_dim",
     [] {
       cat({f({2}), f({2})}, 1);
     },
     "cat",
     {"1"}},
    {"stack_dim",
     [] {
       stack({f({2}), f({2})}, 2);
     },
     "stack",
     {"2"}},
    {"split_dim", [] { split(f({2}), 1, 1); }, "split", {"1"}},
    {"unbind_dim", [] { unbind(f({2}), 1); }, "unbind", {"1"}},
    {"flip_dim", [] { flip(f({2}), {1}); }, "flip", {"1"}},
    {"roll_dim", [] { roll(f({2}), {1}, {1}); }, "roll", {"1"}},
    {"transpose_dim",
     [] {
       transpose(f({2, 3}), 0, 2);
     },
     "transpose",
     {"2"}},
    {"permute_dim",
     [] {
       permute(f({2, 3}), {0, 2});
     },
     "permute",
     {"2"}},
    {"unsqueeze_dim", [] { unsqueeze(f({2}), 3); }, "unsqueeze", {"3"}},
    {"squeeze_dim", [] { squeeze(f({2}), 1); }, "squeeze", {"1"}},
    {"flatten_dim", [] { flatten(f({2}), 1); }, "flatten", {"1"}},
    {"slice_dim", [] { slice(f({2}), 1, 0, 1); }, "slice", {"1"}},
    {"slice_step", [] { slice(f({2}), 0, 0, 1, 0); }, "slice", {"0"}},
    {"slice_step_negative", [] { slice(f({2}), 0, 0, 1, -1); }, "slice", {"-1"}},
    {"narrow_start", [] { narrow(f({4}), 0, 5, 1); }, "narrow", {"5"}},
    {"narrow_length", [] { narrow(f({4}), 0, 2, 3); }, "narrow", {"3"}},
    {"narrow_negative", [] { narrow(f({4}), 0, 0, -1); }, "narrow", {"-1"}},
    {"select_index", [] { select(f({4}), 0, 4); }, "select", {"4"}},
    {"select_index_negative", [] { select(f({4}), 0, -5); }, "select", {"-5"}},
    {"select_of_scalar", [] { (void)f({})[0]; }, "select", {"0"}},
    {"diagonal_dim",
     [] {
       diagonal(f({2, 2}), 0, 0, 2);
     },
     "diagonal",
     {"2"}},
    {"gather_dim",
     [] {
       gather(f({2, 2}), 2, whole({2, 2}));
     },
     "gather",
     {"2"}},
    {"gather_index", [] { gather(f({2}), 0, at(5)); }, "gather", {"5", "2"}},
    {"gather_index_dims",
     [] {
       gather(f({2, 2}), 0, whole({2}));
     },
     "gather",
     {"[2, 2]", "[2]"}},
    {"gather_index_size",
     [] {
       gather(f({2, 2}), 0, whole({2, 3}));
     },
     "gather",
     {"[2, 3]"}},
    {"scatter_index", [] { scatter(f({2}), 0, at(2), f({1})); }, "scatter", {"2"}},
    {"scatter_source", [] { scatter(f({4}), 0, whole({3}), f({2})); }, "scatter", {"[3]", "[2]"}},
    {"scatter_add_index", [] { scatter_add(f({2}), 0, at(-3), f({1})); }, "scatter_add", {"-3"}},
    {"index_select_index", [] { index_select(f({2}), 0, at(7)); }, "index_select", {"7"}},
    {"index_select_dims",
     [] {
       index_select(f({2}), 0, whole({1, 1}));
     },
     "index_select",
     {"[1, 1]"}},
    {"index_add_source",
     [] {
       index_add(f({4, 2}), 0, whole({3}), f({2, 2}));
     },
     "index_add",
     {"[2, 2]"}},
    {"index_out_of_range",
     [] {
       index(f({2, 3}), {at(0), at(3)});
     },
     "index",
     {"3"}},
    {"index_too_many",
     [] {
       index(f({2}), {whole({1}), whole({1})});
     },
     "index",
     {"2", "[2]"}},
    {"index_sizes",
     [] {
       index(f({4, 4}), {whole({2}), whole({3})});
     },
     "index",
     {"[2]", "[3]"}},
    {"index_mask_size", [] { index(f({4}), {flags({3})}); }, "index", {"[3]", "[4]"}},
    {"masked_fill_mask", [] { masked_fill(f({4}), flags({3}), 0); }, "masked_fill", {"[3]", "[4]"}},
    {"masked_select_mask", [] { masked_select(f({4}), flags({3})); }, "masked_select", {"[3]", "[4]"}},
    {"take_along_dim_index", [] { take_along_dim(f({2}), at(2), 0); }, "take_along_dim", {"2"}},
    {"take_along_dim_sizes",
     [] {
       take_along_dim(f({2, 3}), whole({4, 3}), 1);
     },
     "take_along_dim",
     {"[2, 1]", "[4, 1]"}},
    {"take_along_dim_dims",
     [] {
       take_along_dim(f({2, 3}), whole({3}), 1);
     },
     "take_along_dim",
     {"[2, 3]", "[3]"}},
    {"scatter_reduce_name",
     [] { scatter_reduce(f({2}), 0, whole({2}), f({2}), "max"); },
     "scatter_reduce",
     {"max", "amax"}},
    {"scatter_reduce_index", [] { scatter_reduce(f({2}), 0, at(2), f({1}), "sum"); }, "scatter_reduce", {"2"}},
    {"scatter_reduce_source",
     [] { scatter_reduce(f({4}), 0, whole({3}), f({2}), "prod"); },
     "scatter_reduce",
     {"[3]", "[2]"}},
    {"index_copy_index", [] { index_copy(f({2}), 0, at(-1), f({1})); }, "index_copy", {"-1"}},
    {"index_copy_source",
     [] {
       index_copy(f({4, 2}), 0, whole({3}), f({2, 2}));
     },
     "index_copy",
     {"[3, 2]", "[2, 2]"}},
    {"index_fill_index", [] { index_fill(f({2}), 0, at(-3), 1); }, "index_fill", {"-3"}},
    {"index_fill_value", [] { index_fill(f({2}), 0, at(0), f({1})); }, "index_fill", {"[1]"}},
    {"index_put_index",
     [] {
       index_put(f({2, 3}), {at(0), at(3)}, f({}));
     },
     "index_put",
     {"3"}},
    {"index_put_values",
     [] {
       index_put(f({2, 3}), {whole({4})}, f({5, 3}));
     },
     "index_put",
     {"[4, 3]", "[5, 3]"}},
    {"index_put_mask_size", [] { index_put(f({4}), {flags({3})}, f({})); }, "index_put", {"[3]", "[4]"}},
    {"masked_scatter_mask", [] { masked_scatter(f({4}), flags({3}), f({4})); }, "masked_scatter", {"[4]", "[3]"}},
    {"masked_scatter_source",
     [] { masked_scatter(f({4}), ones({4}, DType::boolean), f({3})); },
     "masked_scatter",
     {"4", "3"}},
    {"embedding_index",
     [] {
       embedding(f({10, 4}), at(10));
     },
     "embedding",
     {"10"}},
    {"embedding_index_negative",
     [] {
       embedding(f({10, 4}), at(-1));
     },
     "embedding",
     {"-1"}},
    {"embedding_weight", [] { embedding(f({10}), whole({2})); }, "embedding", {"[10]"}},
    {"cross_entropy_class",
     [] {
       cross_entropy(f({1, 3}), at(3));
     },
     "cross_entropy",
     {"3"}},
    {"one_hot_class", [] { one_hot(at(4), 3); }, "one_hot", {"4", "3"}},
    {"one_hot_negative", [] { one_hot(at(-1), 3); }, "one_hot", {"-1"}},
    {"bincount_negative", [] { bincount(at(-2)); }, "bincount", {"-2"}},
    {"view_index",
     [] {
       (void)f({2, 3}).view<float>()(2, 0);
     },
     "view",
     {"2"}},
    // Parameters out of range.
    {"dropout_p", [] { dropout(f({2}), 1.5); }, "dropout", {"1.5"}},
    {"dropout_p_negative", [] { dropout(f({2}), -0.1); }, "dropout", {"-0.1"}},
    {"label_smoothing",
     [] {
       cross_entropy(f({1, 3}), whole({1}), {.label_smoothing = 2});
     },
     "cross_entropy",
     {"2"}},
};

const std::vector<WrongCall> kTypes = {
    {"matmul_dtypes",
     [] {
       matmul(f({2, 2}), f({2, 2}).to(f64));
     },
     "matmul",
     {"f32", "f64"}},
    {"linear_dtypes",
     [] {
       linear(f({2, 2}), f({2, 2}).to(bf16));
     },
     "linear",
     {"f32", "bf16"}},
    {"matmul_of_bool",
     [] {
       matmul(flags({2, 2}), flags({2, 2}));
     },
     "matmul",
     {"bool"}},
    {"conv2d_dtypes",
     [] {
       conv2d(f({1, 1, 4, 4}), f({1, 1, 2, 2}).to(f64));
     },
     "conv2d",
     {"f64"}},
    {"attention_dtypes",
     [] {
       scaled_dot_product_attention(f({1, 1, 2, 4}), f({1, 1, 2, 4}).to(f64), f({1, 1, 2, 4}));
     },
     "scaled_dot_product_attention",
     {"f64"}},
    {"softmax_of_integers", [] { softmax(whole({2}), 0); }, "softmax", {"i64"}},
    {"log_softmax_of_integers", [] { log_softmax(whole({2}), 0); }, "log_softmax", {"i64"}},
    {"layer_norm_of_integers",
     [] {
       layer_norm(whole({2, 3}), {3});
     },
     "layer_norm",
     {"i64"}},
    {"rms_norm_of_integers",
     [] {
       rms_norm(whole({2, 3}), {3});
     },
     "rms_norm",
     {"i64"}},
    {"mean_of_integers", [] { mean(whole({2})); }, "mean", {"i64"}},
    {"var_of_integers", [] { var(whole({2})); }, "var", {"i64"}},
    {"std_of_bool", [] { weft::std(flags({2})); }, "std", {"bool"}},
    {"norm_of_integers", [] { norm(whole({2})); }, "norm", {"i64"}},
    {"dropout_of_integers", [] { dropout(whole({2}), 0.5); }, "dropout", {"i64"}},
    {"where_condition", [] { where(f({2}), f({2}), f({2})); }, "where", {"f32"}},
    {"masked_fill_mask_type", [] { masked_fill(f({2}), f({2}), 0); }, "masked_fill", {"f32"}},
    {"masked_select_mask_type", [] { masked_select(f({2}), whole({2})); }, "masked_select", {"i64"}},
    {"gather_index_type", [] { gather(f({2}), 0, f({2})); }, "gather", {"f32"}},
    {"scatter_index_type", [] { scatter(f({2}), 0, f({2}), f({2})); }, "scatter", {"f32"}},
    {"scatter_dtypes", [] { scatter(f({2}), 0, whole({2}), f({2}).to(f64)); }, "scatter", {"f64"}},
    {"index_select_type", [] { index_select(f({2}), 0, f({1})); }, "index_select", {"f32"}},
    {"scatter_reduce_dtypes",
     [] { scatter_reduce(f({2}), 0, whole({2}), whole({2}), "sum"); },
     "scatter_reduce",
     {"f32", "i64"}},
    {"index_copy_dtypes", [] { index_copy(f({2}), 0, at(0), whole({1})); }, "index_copy", {"i64"}},
    {"index_put_dtypes", [] { index_put(f({2}), {at(0)}, whole({1})); }, "index_put", {"i64"}},
    {"index_put_type", [] { index_put(f({2}), {f({1})}, f({1})); }, "index_put", {"f32"}},
    {"index_fill_type", [] { index_fill(f({2}), 0, f({1}), 1); }, "index_fill", {"f32"}},
    {"masked_scatter_type", [] { masked_scatter(f({2}), f({2}), f({2})); }, "masked_scatter", {"bool", "f32"}},
    {"index_type", [] { index(f({2}), {f({1})}); }, "index", {"f32"}},
    {"embedding_index_type",
     [] {
       embedding(f({3, 2}), f({2}));
     },
     "embedding",
     {"f32"}},
    {"cross_entropy_target_type",
     [] {
       cross_entropy(f({2, 3}), f({2}));
     },
     "cross_entropy",
     {"f32"}},
    {"cross_entropy_of_integers",
     [] {
       cross_entropy(whole({2, 3}), whole({2}));
     },
     "cross_entropy",
     {"i64"}},
    {"one_hot_type", [] { one_hot(f({2}), 3); }, "one_hot", {"f32"}},
    {"bincount_type", [] { bincount(f({2})); }, "bincount", {"f32"}},
    {"data_type", [] { (void)f({2}).data<double>(); }, "data", {"f64", "f32"}},
    {"requires_grad_of_integers", [] { whole({2}).requires_grad_(); }, "requires_grad_", {"i64"}},
    {"neg_of_bool", [] { neg(flags({2})); }, "neg", {"bool"}},
    {"add_in_place_type", [] { whole({2}).add_(f({2})); }, "add_", {"f32", "i64"}},
    // Tensors that are nothing, or elsewhere.
    {"undefined_operand", [] { add(Tensor(), f({2})); }, "add", {"undefined"}},
    {"undefined_matmul",
     [] {
       matmul(f({2, 2}), Tensor());
     },
     "tensor",
     {"undefined"}},
    {"undefined_shape", [] { (void)Tensor().shape(); }, "tensor", {"undefined"}},
    {"devices_add", [] { add(f({2}), on_meta({2})); }, "add", {"cpu", "meta"}},
    {"devices_matmul",
     [] {
       matmul(f({2, 2}), on_meta({2, 2}));
     },
     "matmul",
     {"cpu", "meta"}},
    {"devices_cat",
     [] {
       cat({f({2}), on_meta({2})});
     },
     "cat",
     {"meta"}},
    {"devices_index",
     [] { index_select(f({2}), 0, zeros({1}, {.dtype = i64, .device = meta_device})); },
     "index_select",
     {"meta"}},
    {"data_of_meta", [] { (void)on_meta({2}).data<float>(); }, "data", {"meta"}},
    {"item_of_meta", [] { (void)on_meta({}).item(); }, "data", {"meta"}},
    {"nonzero_of_meta", [] { nonzero(on_meta({2})); }, "nonzero", {"meta"}},
    {"meta_to_cpu", [] { (void)on_meta({2}).to(cpu_device); }, "to", {"meta"}},
};

const std::vector<WrongCall> kGradients = {
    {"in_place_on_saved",
     [] {
       const Tensor x = tracked({2}), y = exp(x), z = y * y;
       y.add_(ones({2}));
       z.backward(ones({2}));
     },
     "mul",
     {"version"}},
    {"in_place_on_leaf", [] { tracked({2}).add_(ones({2})); }, "add_", {"leaf"}},
    {"in_place_fill_on_leaf", [] { tracked({2}).fill_(1); }, "fill_", {"leaf"}},
    {"in_place_on_view_of_leaf", [] { tracked({4}).slice(0, 0, 2).add_(ones({2})); }, "add_", {"view"}},
    {"in_place_on_expanded", [] { f({1}).expand({3}).add_(ones({3})); }, "add_", {"expand"}},
    {"backward_twice",
     [] {
       const Tensor y = sum(exp(tracked({2})));
       y.backward();
       y.backward();
     },
     "backward",
     {"retain_graph"}},
    {"backward_of_many", [] { exp(tracked({2})).backward(); }, "backward", {"[2]"}},
    {"backward_of_constant", [] { f({}).backward(); }, "backward", {"require"}},
    {"backward_gradient_shape", [] { exp(tracked({2})).backward(ones({3})); }, "backward", {"[3]", "[2]"}},
    {"grad_unused",
     [] {
       const Tensor x = tracked({2}), other = tracked({2});
       grad({sum(x)}, {other});
     },
     "grad",
     {"allow_unused"}},
    {"grad_of_constant", [] { grad({sum(tracked({2}))}, {f({2})}); }, "grad", {"require"}},
    {"set_grad_shape", [] { tracked({2}).set_grad(ones({3})); }, "set_grad", {"[3]", "[2]"}},
    {"set_grad_dtype", [] { tracked({2}).set_grad(ones({2}, f64)); }, "set_grad", {"f64"}},
    {"hook_without_gradient",
     [] { (void)f({2}).register_hook([](const Tensor& g) { return g; }); },
     "register_hook",
     {"require"}},
    {"gradcheck_f32", [] { gradcheck([](const Tensor& x) { return exp(x); }, ones({2})); }, "gradcheck", {"f32"}},
};

std::vector<WrongCall> all_rows() {
  std::vector<WrongCall> all;
  for (const auto* part : {&kShapes, &kPlaces, &kTypes, &kGradients}) all.insert(all.end(), part->begin(), part->end());
  return all;
}

class WrongCalls : public ::testing::TestWithParam<WrongCall> {};

TEST_P(WrongCalls, NameTheOpAndWhatItGot) {
  const WrongCall& row = GetParam();
  try {
    row.call();
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.op(), row.op) << text;
    for (const std::string& part : row.says) EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
    EXPECT_EQ(text.find('\n'), std::string::npos) << "more than one line: " << text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, WrongCalls, ::testing::ValuesIn(all_rows()),
                         [](const ::testing::TestParamInfo<WrongCall>& info) { return info.param.name; });

TEST(WrongCallsTable, IsLong) { EXPECT_GE(all_rows().size(), 150u); }

}  // namespace
}  // namespace weft
