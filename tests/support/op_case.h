// OpCase: a row of the table of all operations. A row says how to call one; every test of tests/autograd/
// op_case_test.cpp is derived from it: the f32 result against f64, gradients of both orders against finite differences,
// layouts, empty and 0-d inputs, NaN and infinity, f16 and bf16, meta, equal bits when repeated, and each device against
// the CPU.
//
//   {.name = "softmax", .inputs = {real({3, 7})}, .call = [](In in) { return softmax(in[0], 1); }, .also = {{{2, 0}}}}
//
// The rows are in tests/autograd/op_cases*.cpp; a test there demands one for every public function of autograd/ops.
#pragma once
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "autograd/ops/ops.h"

namespace weft::testing {

// How one input of an op is made.
struct OpInput {
  enum class Kind {
    real,   // of the dtype under test, with a gradient
    fixed,  // of the dtype under test, without
    index,  // i64, whole numbers from low to high - 1
    flag,   // bool
  };
  Kind kind = Kind::real;
  Shape shape;
  double low = -2;
  double high = 2;
  bool distinct = false;  // all elements well apart, so that no finite difference changes their order
};

inline OpInput real(Shape shape, double low = -2, double high = 2) {
  return {OpInput::Kind::real, std::move(shape), low, high, false};
}
inline OpInput distinct(Shape shape, double low = -2, double high = 2) {
  return {OpInput::Kind::real, std::move(shape), low, high, true};
}
inline OpInput fixed(Shape shape, double low = -2, double high = 2) {
  return {OpInput::Kind::fixed, std::move(shape), low, high, false};
}
inline OpInput index_below(int64_t size, Shape shape) {
  return {OpInput::Kind::index, std::move(shape), 0, static_cast<double>(size), false};
}
inline OpInput permutation_of(int64_t size) {
  return {OpInput::Kind::index, {size}, 0, static_cast<double>(size), true};
}
inline OpInput flags(Shape shape) { return {OpInput::Kind::flag, std::move(shape), 0, 2, false}; }

using In = const std::vector<Tensor>&;

// The results as a list, whatever an op returns them as.
inline std::vector<Tensor> listed(Tensor y) { return {std::move(y)}; }
inline std::vector<Tensor> listed(std::vector<Tensor> y) { return y; }
inline std::vector<Tensor> listed(std::pair<Tensor, Tensor> y) { return {std::move(y.first), std::move(y.second)}; }
inline std::vector<Tensor> listed(ValuesAndIndices y) { return {std::move(y.values), std::move(y.indices)}; }
inline std::vector<Tensor> listed(Unique y) { return {std::move(y.values), std::move(y.inverse), std::move(y.counts)}; }

// Any function of the inputs, as one that returns a list.
class OpCall {
 public:
  OpCall() = default;
  template <class F, class = std::enable_if_t<std::is_invocable_v<F&, In>>>
  OpCall(F f) : f_([f = std::move(f)](In in) { return listed(f(in)); }) {}
  std::vector<Tensor> operator()(In in) const { return f_(in); }

 private:
  std::function<std::vector<Tensor>(In)> f_;
};

// |got - want| <= atol + rtol · |want|
struct OpTolerance {
  double rtol = 0;
  double atol = 0;
};

struct OpCase {
  std::string name{};                 // of the row, unique
  std::vector<std::string> covers{};  // the functions it stands for; none: the one of this name
  std::vector<OpInput> inputs{};
  OpCall call{};
  // Other shapes of the inputs, empty and 0-d ones among them: results and gradients must have the right shapes and
  // agree between dtypes and devices.
  std::vector<std::vector<Shape>> also{};
  std::string no_gradient{};             // why no result has a gradient
  std::string no_differences{};          // why finite differences do not give the gradient
  std::string no_second_order{};         // why the gradient of the gradient is not tested
  std::string no_special{};              // why NaN and infinity are not tested
  std::string no_half{};                 // why it does not take f16 and bf16
  std::string no_meta{};                 // why its shapes cannot be known without values
  std::string fixed_sizes{};             // why op_property_test varies no sizes
  OpTolerance tolerance = {2e-5, 1e-5};  // of f32 against f64
};

// Every row.
std::vector<OpCase> op_cases();

// The inputs of a row, the same in every call with this seed; `shapes`: others than the row's own.
std::vector<Tensor> make_inputs(const OpCase& c, DType dtype, const std::vector<Shape>& shapes = {},
                                uint64_t seed = 20);

// Results, and the gradients of sum(result · w) with irregular weights w by the inputs of kind real (undefined where the
// results do not depend on one).
struct OpRun {
  std::vector<Tensor> outputs;
  std::vector<Tensor> gradients;
};
OpRun run_case(const OpCase& c, const std::vector<Tensor>& inputs, bool create_graph = false);

// The sizes above 1 that a row's inputs have, and what becomes of each. Sizes that are equal in a row belong together, as
// the inner ones of a product, and change together; 1 stays, for it stands for a broadcast dimension.
using Sizes = std::map<int64_t, int64_t>;
Sizes sizes_of(const OpCase& c);
OpCase resized(const OpCase& c, const Sizes& sizes);
// Not so where there is nothing to point at, or a permutation has another length than its dimension.
bool indices_fit(const OpCase& c);

// Where two runs differ: shapes, values beyond the tolerance, infinities and NaN at other places. Empty where they agree.
std::string difference(const Tensor& got, const Tensor& want, OpTolerance tolerance);
std::string difference(const OpRun& got, const OpRun& want, OpTolerance tolerance);

// Floating-point tensors in another dtype.
std::vector<Tensor> converted(const std::vector<Tensor>& in, DType dtype);
// Of f16 and bf16 against f32 of the same rounded inputs: results are rounded once, gradients also where they pass from
// op to op.
OpTolerance half_tolerance(const OpCase& c, DType dtype);
// On another device, strides and all.
Tensor moved(const Tensor& x, Device device);

// The same values in other memory: dimensions reversed in storage, or every second element of a larger block.
enum class Layout { reversed, spaced };
Tensor with_layout(const Tensor& x, Layout layout);

}  // namespace weft::testing
