#include "kernels/cuda/cudnn_graph.h"

#include <algorithm>
#include <utility>

#include "kernels/base/device_memory.h"
#include "kernels/base/error.h"

namespace weft::cuda {
namespace {

// The names of the three arrays within a plan.
constexpr int64_t kInput = 'x', kWeight = 'w', kOutput = 'y';
constexpr int64_t kMaxWorkspace = int64_t{1} << 30;

cudnnDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return CUDNN_DATA_DOUBLE;
    case DType::f32: return CUDNN_DATA_FLOAT;
    case DType::bf16: return CUDNN_DATA_BFLOAT16;
    case DType::f16: return CUDNN_DATA_HALF;
    default: fail(ErrorCode::unsupported, "conv2d", "expected f32, f64, bf16 or f16, got {}", name(dtype));
  }
}

CudnnDescriptor tensor(int64_t id, DType dtype, int64_t alignment, std::array<int64_t, 4> sizes) {
  const int64_t strides[] = {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1};
  CudnnDescriptor result(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  result.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type_of(dtype));
  result.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, sizes.data());
  result.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, strides);
  result.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  result.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, alignment);
  result.finalize();
  return result;
}

// Groups need no entry: they follow from the channels of input and weight.
CudnnDescriptor convolution(const Conv2dShape& shape, DType dtype) {
  const int64_t dimensions = 2;
  const int64_t paddings[] = {shape.padding_height, shape.padding_width};
  const int64_t strides[] = {shape.stride_height, shape.stride_width};
  const int64_t dilations[] = {shape.dilation_height, shape.dilation_width};
  CudnnDescriptor result(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  result.set(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, dimensions);
  result.set(CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE,
             dtype == DType::f64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
  result.set(CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
  result.set(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, paddings);
  result.set(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, paddings);
  result.set(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, strides);
  result.set(CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, dilations);
  result.finalize();
  return result;
}

// The attributes under which the operation of a pass takes its parts.
struct OperationNames {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t convolution, input, weight, output, alpha, beta;
};
OperationNames names_of(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::forward:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    case ConvolutionPass::backward_input:
      return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    case ConvolutionPass::backward_weight: break;
  }
  return {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
          CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
}

// Whether the engine of a configuration keeps what the header promises.
bool acceptable(cudnnBackendDescriptor_t config, bool full_f32) {
  const CudnnDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t target = engine.get();
  int64_t count = 0;
  WEFT_CUDA_CHECK(
      cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &target));
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  WEFT_CUDA_CHECK(cudnnBackendGetAttribute(target, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                           static_cast<int64_t>(notes.size()), &count, notes.data()));
  return std::none_of(notes.begin(), notes.begin() + count, [&](cudnnBackendNumericalNote_t note) {
    return note == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC ||
           (full_f32 && (note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE || note == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS));
  });
}

// The library's configurations of the graph, best first.
std::vector<CudnnDescriptor> configurations(const CudnnDescriptor& graph, cudnnBackendHeurMode_t mode) {
  CudnnDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  std::vector<CudnnDescriptor> result;
  if (!heuristics.try_finalize()) return result;
  int64_t count = 0;
  WEFT_CUDA_CHECK(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                           CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr));
  std::vector<cudnnBackendDescriptor_t> found;
  for (int64_t i = 0; i < count; ++i) {
    result.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    found.push_back(result.back().get());
  }
  if (count == 0) return result;
  WEFT_CUDA_CHECK(cudnnBackendGetAttribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                           CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, found.data()));
  while (static_cast<int64_t>(result.size()) > count) result.pop_back();
  return result;
}

int64_t workspace_of(const CudnnDescriptor& plan) {
  int64_t bytes = 0, count = 0;
  WEFT_CUDA_CHECK(cudnnBackendGetAttribute(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                           &count, &bytes));
  return bytes;
}

// The first configuration that builds, in the order of preference of the library.
CudnnDescriptor build_plan(cudnnHandle_t handle, ConvolutionPass pass, const Conv2dShape& shape, DType dtype,
                           int64_t alignment, bool tf32) {
  const CudnnDescriptor input =
      tensor(kInput, dtype, alignment, {shape.batch, shape.in_channels, shape.in_height, shape.in_width});
  const CudnnDescriptor weight =
      tensor(kWeight, dtype, alignment,
             {shape.out_channels, shape.in_channels / shape.groups, shape.kernel_height, shape.kernel_width});
  const CudnnDescriptor output =
      tensor(kOutput, dtype, alignment, {shape.batch, shape.out_channels, shape.out_height(), shape.out_width()});
  const CudnnDescriptor window = convolution(shape, dtype);

  const OperationNames names = names_of(pass);
  CudnnDescriptor operation(names.type);
  operation.set(names.convolution, window);
  operation.set(names.input, input);
  operation.set(names.weight, weight);
  operation.set(names.output, output);
  if (dtype == DType::f64) {
    operation.set(names.alpha, CUDNN_TYPE_DOUBLE, 1.0);
    operation.set(names.beta, CUDNN_TYPE_DOUBLE, 0.0);
  } else {
    operation.set(names.alpha, CUDNN_TYPE_FLOAT, 1.0f);
    operation.set(names.beta, CUDNN_TYPE_FLOAT, 0.0f);
  }
  operation.finalize();
  CudnnDescriptor graph(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
  graph.finalize();

  const bool full_f32 = dtype == DType::f32 && !tf32;
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    for (const CudnnDescriptor& config : configurations(graph, mode)) {
      if (!acceptable(config.get(), full_f32)) continue;
      CudnnDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
      if (plan.try_finalize() && workspace_of(plan) <= kMaxWorkspace) return plan;
    }
  }
  fail(ErrorCode::unsupported, "conv2d",
       "cuDNN has no engine for {} input [{}, {}, {}, {}], weight [{}, {}, {}, {}], {} groups", name(dtype),
       shape.batch, shape.in_channels, shape.in_height, shape.in_width, shape.out_channels,
       shape.in_channels / shape.groups, shape.kernel_height, shape.kernel_width, shape.groups);
}

}  // namespace

ConvolutionPlan::ConvolutionPlan(cudnnHandle_t handle, ConvolutionPass pass, const Conv2dShape& shape, DType dtype,
                                 int64_t alignment, bool tf32)
    : plan_(build_plan(handle, pass, shape, dtype, alignment, tf32)), workspace_(workspace_of(plan_)) {}

void ConvolutionPlan::run(cudnnHandle_t handle, Stream stream, const void* input, const void* weight,
                          const void* output) const {
  const ScratchBuffer scratch(stream, workspace_);
  const int64_t ids[] = {kInput, kWeight, kOutput};
  const void* arrays[] = {input, weight, output};
  void* workspace = scratch.as<void>();
  CudnnDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 3, ids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 3, arrays);
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  pack.finalize();
  WEFT_CUDA_CHECK(cudnnBackendExecute(handle, plan_.get(), pack.get()));
}

}  // namespace weft::cuda
