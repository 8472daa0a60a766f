// What goes into one launch of the kernels of kernels/optimizer: slices by dtype and device, nearly always all of one.
#pragma once
#include <vector>

#include "kernels/optimizer/optimizer.h"
#include "tensor/tensor.h"

namespace weft::optim {

// Keeps its memory from step to step.
template <class Slice>
class LaunchLists {
 public:
  void clear() {
    for (List& list : lists_) list.slices.clear();
  }
  std::vector<Slice>& like(const Tensor& t) {
    for (List& list : lists_)
      if (list.dtype == t.dtype() && list.device == t.device()) return list.slices;
    return lists_.emplace_back(List{t.dtype(), t.device(), {}}).slices;
  }
  // f(dtype, device, slices) for every list that holds some.
  template <class F>
  void for_each(F&& f) const {
    for (const List& list : lists_)
      if (!list.slices.empty()) f(list.dtype, list.device, list.slices);
  }

 private:
  struct List {
    DType dtype;
    Device device;
    std::vector<Slice> slices;
  };
  std::vector<List> lists_;
};

// One launch a list.
void launch_rule(const LaunchLists<OptimizerSlice>& lists, const OptimizerRule& rule);

}  // namespace weft::optim
