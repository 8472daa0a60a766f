// Adafactor (Shazeer & Stern 2018, arXiv:1804.04235) in PyTorch's form: the second moment of a matrix is kept as its row
// and column means, so that the state of a [rows, columns] parameter has rows + columns elements; steps are relative to
// the parameter's size and clipped by their root mean square.
#pragma once
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "optim/grouped.h"

namespace weft::optim {

struct AdafactorOptions {
  double lr = 1e-2;                 // an upper bound of the relative step 1 / sqrt(t)
  double beta2_decay = -0.8;        // beta2 of step t is 1 - t^beta2_decay
  std::optional<double> eps1 = {};  // below the second moment; none: the epsilon of the dtype of the parameter
  double eps2 = 1e-3;               // below the scale of the parameter
  double d = 1;                     // clipping threshold of the root mean square of an update
  double weight_decay = 0;          // decoupled
  bool maximize = false;
  static constexpr auto fields() {
    using O = AdafactorOptions;
    return std::make_tuple(std::make_pair("lr", &O::lr), std::make_pair("beta2_decay", &O::beta2_decay),
                           std::make_pair("eps1", &O::eps1), std::make_pair("eps2", &O::eps2),
                           std::make_pair("d", &O::d), std::make_pair("weight_decay", &O::weight_decay),
                           std::make_pair("maximize", &O::maximize));
  }
};

struct AdafactorState {
  int64_t step = 0;
  Tensor row_var, col_var;  // [..., rows, 1] and [..., 1, columns], of parameters of two and more dimensions
  Tensor variance;          // of all others
  template <class F>
  void visit(F&& f) {
    f("step", step);
    f("row_var", row_var);
    f("col_var", col_var);
    f("variance", variance);
  }
  static Shape shape_of(std::string_view name, const Shape& parameter);
};

class Adafactor : public GroupedOptimizer<AdafactorOptions, AdafactorState> {
 public:
  Adafactor(NamedParameters parameters, AdafactorOptions options = {})
      : Adafactor(std::vector<Group>{{std::move(parameters), std::move(options)}}) {}
  Adafactor(const std::vector<Tensor>& parameters, AdafactorOptions options = {})
      : Adafactor(with_positions(parameters), std::move(options)) {}
  explicit Adafactor(std::vector<Group> groups);
  void step() override;
};

}  // namespace weft::optim
