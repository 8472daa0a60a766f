#include "optim/average.h"

#include "autograd/grad_mode.h"
#include "optim/grouped.h"

namespace weft::optim {

AveragedModel::AveragedModel(NamedParameters parameters, AverageOptions options)
    : parameters_(std::move(parameters)), options_(options) {
  WEFT_CHECK(!options_.decay || (*options_.decay >= 0 && *options_.decay <= 1), "averaged_model",
             "expected a decay in [0, 1], got {}", options_.decay.value_or(0));
  WEFT_CHECK(!parameters_.empty(), "averaged_model", "there are no parameters to average");
  NoGrad guard;
  OrderedMap<bool> names;
  for (const auto& [name, parameter] : parameters_) {
    WEFT_CHECK(!names.contains(name), "averaged_model", "two parameters are named {}", name);
    names[name] = true;
    const DType dtype = is_floating(parameter.dtype()) ? state_dtype(parameter) : parameter.dtype();
    Tensor average = empty(parameter.shape(), {.dtype = dtype, .device = parameter.device()});
    average.copy_(parameter.detach());
    averages_.emplace_back(name, std::move(average));
  }
}

AveragedModel::AveragedModel(const std::vector<Tensor>& parameters, AverageOptions options)
    : AveragedModel(with_positions(parameters), options) {}

void AveragedModel::update() {
  NoGrad guard;
  lists_.clear();
  std::vector<Tensor> values;  // alive until the launch
  for (size_t i = 0; i < averages_.size(); ++i) {
    const Tensor& average = averages_[i].second;
    const Tensor value = parameters_[i].second.detach();
    if (n_averaged_ == 0 || !is_floating(average.dtype())) {
      average.copy_(value);
      continue;
    }
    values.push_back(value.to(average.dtype()).contiguous());
    OptimizerSlice slice;
    slice.param = average.data();
    slice.grad = values.back().data();
    slice.size = average.numel();
    lists_.like(average).push_back(slice);
    average.storage()->bump_version();
  }
  const double equal = 1 / static_cast<double>(n_averaged_ + 1);
  launch_rule(lists_, Lerp{options_.decay ? 1 - *options_.decay : equal});
  ++n_averaged_;
}

void AveragedModel::copy_to() const {
  NoGrad guard;
  for (size_t i = 0; i < averages_.size(); ++i) parameters_[i].second.copy_(averages_[i].second);
}

void AveragedModel::swap() {
  NoGrad guard;
  for (size_t i = 0; i < averages_.size(); ++i) {
    const Tensor value = parameters_[i].second.detach().clone();
    parameters_[i].second.copy_(averages_[i].second);
    averages_[i].second.copy_(value);
  }
}

Tree AveragedModel::state_dict() const {
  Tree averages = Tree::map();
  for (const auto& [name, average] : averages_) averages[name] = average;
  return Tree::map({{"n_averaged", n_averaged_}, {"averages", std::move(averages)}});
}

void AveragedModel::load_state_dict(const Tree& state) {
  NoGrad guard;
  const Tree& averages = state.at("averages");
  WEFT_CHECK(averages.size() == static_cast<int64_t>(averages_.size()), "load_state_dict",
             "expected {} averages, got {}", averages_.size(), averages.size());
  for (const auto& [name, average] : averages_)
    WEFT_CHECK(averages.at(name).as_tensor().shape() == average.shape(), "load_state_dict",
               "the average of {} is {}, the saved one {}", name, describe(average),
               describe(averages.at(name).as_tensor()));
  const int64_t updates = state.at("n_averaged").as_int();
  for (const auto& [name, average] : averages_) average.copy_(averages.at(name).as_tensor());
  n_averaged_ = updates;
}

}  // namespace weft::optim
