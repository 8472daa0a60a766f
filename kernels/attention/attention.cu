// The table of attention on a device: which engine does the work, and the statistics of the backward pass.
#include "kernels/attention/attention_device.h"
#include "kernels/base/device_memory.h"
#include "kernels/device_table.h"

namespace weft::WEFT_DEVICE {
namespace {

void check(const AttentionShape& shape, DType dtype) {
  if (dtype != DType::f32 && dtype != DType::f64 && dtype != DType::f16 && dtype != DType::bf16)
    fail(ErrorCode::unsupported, "attention", "expected f32, f64, f16 or bf16, got {}", name(dtype));
  WEFT_CHECK(shape.kv_heads > 0 && shape.heads % shape.kv_heads == 0, "attention",
             "the number of heads, {}, is no multiple of the number of key-value heads, {}", shape.heads,
             shape.kv_heads);
  WEFT_CHECK(shape.mask.data == nullptr || shape.mask.dtype == DType::boolean || shape.mask.dtype == dtype, "attention",
             "expected a mask of dtype bool or {}, got {}", name(dtype), name(shape.mask.dtype));
}

bool on_tensor_cores(const AttentionShape& shape, DType dtype) {
  return size_of(dtype) == 2 && shape.head_dim <= kLargestMmaDim && shape.value_dim <= kLargestMmaDim;
}

template <class Operand>
bool is_aligned(const Operand& x, int64_t dim, DType dtype) {
  const int64_t width = 16 / size_of(dtype);
  return reinterpret_cast<uintptr_t>(x.data) % 16 == 0 && dim % width == 0 && x.batch_stride % width == 0 &&
         x.head_stride % width == 0 && x.time_stride % width == 0;
}

void forward(Stream stream, DType dtype, const AttentionShape& shape, AttentionInput q, AttentionInput k,
             AttentionInput v, AttentionOutput o, void* logsumexp) {
  if (shape.batch == 0 || shape.heads == 0 || shape.queries == 0) return;
  check(shape, dtype);
  const ForwardProblem problem{
      .shape = shape,
      .q = q,
      .k = k,
      .v = v,
      .o = o,
      .logsumexp = logsumexp,
      .scale2 = shape.scale * kLog2E,
      .aligned = is_aligned(q, shape.head_dim, dtype) && is_aligned(k, shape.head_dim, dtype) &&
                 is_aligned(v, shape.value_dim, dtype) && is_aligned(o, shape.value_dim, dtype),
  };
  (on_tensor_cores(shape, dtype) ? attention_forward_mma : attention_forward_plain)(stream, dtype, problem);
}

// A warp a query, padding included.
template <class T>
__global__ void __launch_bounds__(128)
    query_statistics(AttentionShape shape, AttentionInput o, AttentionInput grad_o, const ComputeType<T>* logsumexp,
                     ComputeType<T>* logsumexp2, ComputeType<T>* delta, int64_t padded_queries, bool aligned) {
  using C = ComputeType<T>;
  constexpr int width = kPackWidth<T>;
  const int64_t row = WarpGroup::row();
  const int64_t item = row / padded_queries, query = row % padded_queries;
  if (item >= shape.batch * shape.heads) return;
  const int64_t batch = item / shape.heads, head = item % shape.heads;
  C sum = 0;
  if (query < shape.queries) {
    const auto left = input_rows<T>(o, batch, head, query, shape.queries, shape.value_dim, aligned);
    const auto right = input_rows<T>(grad_o, batch, head, query, shape.queries, shape.value_dim, aligned);
    for (int column = WarpGroup::thread() * width; column < left.dim; column += 32 * width) {
      const Pack<T, width> a = left.template load<width>(0, column), b = right.template load<width>(0, column);
      WEFT_UNROLL
      for (int e = 0; e < width; ++e) sum += widen(a[e]) * widen(b[e]);
    }
  }
  sum = WarpGroup::sum(sum);
  if (WarpGroup::thread() != 0) return;
  delta[row] = sum;
  const C value = query < shape.queries ? logsumexp[item * shape.queries + query] : kNegativeInfinity<C>;
  logsumexp2[row] = value == kNegativeInfinity<C> ? -kNegativeInfinity<C> : static_cast<C>(kLog2E) * value;
}

void backward(Stream stream, DType dtype, const AttentionShape& shape, AttentionInput q, AttentionInput k,
              AttentionInput v, AttentionInput o, const void* logsumexp, AttentionInput grad_o, AttentionOutput dq,
              AttentionOutput dk, AttentionOutput dv) {
  if (shape.batch == 0 || shape.heads == 0) return;
  check(shape, dtype);
  const int64_t padded_queries = attention_tiles(shape.queries, kQueryPadding) * kQueryPadding;
  const int64_t rows = shape.batch * shape.heads * padded_queries;
  const ScratchBuffer statistics(stream, std::max<int64_t>(1, 2 * rows * (dtype == DType::f64 ? 8 : 4)));
  BackwardProblem problem{
      .shape = shape,
      .q = q,
      .k = k,
      .v = v,
      .grad_o = grad_o,
      .dq = dq,
      .dk = dk,
      .dv = dv,
      .logsumexp2 = statistics.as<void>(),
      .delta = statistics.as<char>() + rows * (dtype == DType::f64 ? 8 : 4),
      .padded_queries = padded_queries,
      .scale2 = shape.scale * kLog2E,
      .aligned = is_aligned(q, shape.head_dim, dtype) && is_aligned(k, shape.head_dim, dtype) &&
                 is_aligned(v, shape.value_dim, dtype) && is_aligned(grad_o, shape.value_dim, dtype) &&
                 is_aligned(dq, shape.head_dim, dtype) && is_aligned(dk, shape.head_dim, dtype) &&
                 is_aligned(dv, shape.value_dim, dtype),
  };
  if (rows > 0)
    visit_device_floating(dtype, "attention", [&](auto type) {
      using T = typename decltype(type)::type;
      using C = ComputeType<T>;
      C* const logsumexp2 = statistics.as<C>();
      const bool aligned = is_aligned(o, shape.value_dim, dtype) && is_aligned(grad_o, shape.value_dim, dtype);
      launch(query_statistics<T>, WarpGroup::grid(rows), WarpGroup::block(), 0, stream, shape, o, grad_o,
             static_cast<const C*>(logsumexp), logsumexp2, logsumexp2 + rows, padded_queries, aligned);
    });
  (on_tensor_cores(shape, dtype) ? attention_backward_mma : attention_backward_plain)(stream, dtype, problem);
}

}  // namespace

extern constinit const AttentionKernels attention_kernels = {.forward = forward, .backward = backward};

}  // namespace weft::WEFT_DEVICE
