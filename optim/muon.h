// Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon/) in PyTorch's form: the momentum of a matrix is
// replaced by the nearest orthogonal matrix, found by Newton-Schulz iterations in bf16. For the hidden matrices of a
// network; embeddings, heads and vectors are for AdamW.
#pragma once
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "optim/grouped.h"

namespace weft::optim {

struct MuonOptions {
  double lr = 1e-3;
  double weight_decay = 0.1;  // decoupled
  double momentum = 0.95;
  bool nesterov = true;
  double ns_a = 3.4445;  // x -> a x + b x³ + c x⁵ on the singular values, ns_steps times
  double ns_b = -4.775;
  double ns_c = 2.0315;
  double eps = 1e-7;
  int64_t ns_steps = 5;
  std::string adjust_lr_fn =
      "original";  // lr · sqrt(max(1, rows / columns)), or "match_rms_adamw": lr · 0.2 sqrt(max(rows, columns)) (Liu et al. 2025, arXiv:2502.16982)
  static constexpr auto fields() {
    using O = MuonOptions;
    return std::make_tuple(std::make_pair("lr", &O::lr), std::make_pair("weight_decay", &O::weight_decay),
                           std::make_pair("momentum", &O::momentum), std::make_pair("nesterov", &O::nesterov),
                           std::make_pair("ns_a", &O::ns_a), std::make_pair("ns_b", &O::ns_b),
                           std::make_pair("ns_c", &O::ns_c), std::make_pair("eps", &O::eps),
                           std::make_pair("ns_steps", &O::ns_steps), std::make_pair("adjust_lr_fn", &O::adjust_lr_fn));
  }
};

struct MuonState {
  Tensor momentum_buffer;
  template <class F>
  void visit(F&& f) {
    f("momentum_buffer", momentum_buffer);
  }
};

class Muon : public GroupedOptimizer<MuonOptions, MuonState> {
 public:
  Muon(NamedParameters parameters, MuonOptions options = {})
      : Muon(std::vector<Group>{{std::move(parameters), std::move(options)}}) {}
  Muon(const std::vector<Tensor>& parameters, MuonOptions options = {})
      : Muon(with_positions(parameters), std::move(options)) {}
  explicit Muon(std::vector<Group> groups);
  void step() override;
};

}  // namespace weft::optim
