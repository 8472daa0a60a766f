#include "distributed/accelerator/accelerator.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "autograd/ops/ops.h"
#include "distributed/launch/environment.h"
#include "kernels/base/log.h"
#include "optim/clip.h"
#include "tensor/random.h"

namespace weft {
namespace {

std::string checked_precision(std::string value) {
  if (value.empty()) {
    const char* variable = std::getenv("ACCELERATE_MIXED_PRECISION");
    value = variable && *variable ? variable : "no";
  }
  const bool known = value == "no" || value == "fp16" || value == "bf16" || value == "fp8";
  WEFT_CHECK(known, "accelerator", "mixed_precision is \"{}\"; it can be no, fp16, bf16 or fp8", value);
  if (value != "no")
    fail(ErrorCode::unsupported, "accelerator", "mixed_precision {} is not in this version; use no", value);
  return value;
}

GradientAccumulationPlugin checked_plugin(const AcceleratorOptions& options) {
  GradientAccumulationPlugin plugin = options.gradient_accumulation_plugin.value_or(GradientAccumulationPlugin{});
  if (options.gradient_accumulation_steps) {
    WEFT_CHECK(!options.gradient_accumulation_plugin || plugin.num_steps == *options.gradient_accumulation_steps,
               "accelerator", "gradient_accumulation_steps is {}, the plugin's num_steps {}; give one of them",
               *options.gradient_accumulation_steps, plugin.num_steps);
    plugin.num_steps = *options.gradient_accumulation_steps;
  } else if (!options.gradient_accumulation_plugin) {
    if (const char* variable = std::getenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS"); variable && *variable) {
      char* end = nullptr;
      plugin.num_steps = std::strtoll(variable, &end, 10);
      WEFT_CHECK(*end == '\0', "accelerator", "ACCELERATE_GRADIENT_ACCUMULATION_STEPS is \"{}\", expected a number",
                 variable);
    }
  }
  WEFT_CHECK(plugin.num_steps >= 1, "accelerator", "gradient_accumulation_steps must be at least 1, got {}",
             plugin.num_steps);
  return plugin;
}

}  // namespace

Accelerator::Accelerator(AcceleratorOptions options) : options_(std::move(options)) {
  options_.mixed_precision = checked_precision(options_.mixed_precision);
  state_ = std::make_shared<GradientState>();
  state_->plugin = checked_plugin(options_);
  options_.dataloader_config.split_batches = options_.dataloader_config.split_batches || options_.split_batches;
  if (options_.project_config.project_dir.empty()) options_.project_config.project_dir = options_.project_dir;
  if (options_.group.defined()) {
    group_ = options_.group;
    local_rank_ = group_.rank();
    local_size_ = group_.size();
  } else {
    group_ = ProcessGroup::from_environment();
    const LaunchEnvironment environment = LaunchEnvironment::from_environment();
    local_rank_ = environment.local_rank;
    local_size_ = environment.local_world_size;
  }
}

Accelerator::~Accelerator() { free_memory(); }

void Accelerator::attach(nn::ModuleBase& module, bool evaluation_mode) {
  for (const PreparedModel& model : models_)
    if (model.module == &module) return;
  if (options_.device_placement) module.to(device());
  PreparedModel model{&module, nullptr};
  const std::vector<Tensor> parameters = module.parameters();
  const bool trains = std::any_of(parameters.begin(), parameters.end(),
                                  [](const Tensor& parameter) { return parameter.requires_grad(); });
  if (use_distributed() && trains && !evaluation_mode)
    model.ddp = std::make_unique<ddp::DistributedDataParallel>(module, group_, options_.ddp);
  models_.push_back(std::move(model));
}

PreparedOptimizer Accelerator::prepare_optimizer(optim::Optimizer& optimizer) {
  if (std::find(optimizers_.begin(), optimizers_.end(), &optimizer) == optimizers_.end())
    optimizers_.push_back(&optimizer);
  return PreparedOptimizer(optimizer, state_);
}

PreparedScheduler Accelerator::prepare_scheduler(optim::LRScheduler& scheduler) {
  if (std::find(schedulers_.begin(), schedulers_.end(), &scheduler) == schedulers_.end())
    schedulers_.push_back(&scheduler);
  return PreparedScheduler(scheduler, state_,
                           {.num_processes = num_processes(),
                            .split_batches = options_.dataloader_config.split_batches,
                            .step_with_optimizer = options_.step_scheduler_with_optimizer});
}

data::DataLoader Accelerator::prepare_data_loader(const data::DataLoader& loader) {
  for (const data::DataLoader& prepared : loaders_)
    if (&prepared.parts() == &loader.parts()) return prepared;
  const DataLoaderConfiguration& config = options_.dataloader_config;
  // All ranks must draw the same permutation: that of rank 0's seed.
  Tensor seed = empty({1}, DType::i64);
  seed.data<int64_t>()[0] = static_cast<int64_t>(config.data_seed.value_or(loader.seed()));
  group_.broadcast(seed, 0).wait();
  loader.set_seed(static_cast<uint64_t>(seed.item<int64_t>()));
  data::DataLoaderShard shard(loader, {.rank = process_index(),
                                       .world_size = num_processes(),
                                       .split_batches = config.split_batches,
                                       .even_batches = config.even_batches,
                                       .allow_uneven = config.allow_uneven,
                                       .shard_iterable_dataset = config.shard_iterable_dataset,
                                       .device = options_.device_placement ? device() : Device::cpu()});
  // The loader tells the loop when a pass runs. The hooks belong to the loader, so they must not own it.
  const data::detail::LoaderParts* key = &shard.parts();
  const size_t index = loaders_.size();
  loaders_.push_back(shard);
  std::weak_ptr<GradientState> weak = state_;
  shard.set_pass_hooks(
      [this, weak, key, index] {
        const auto state = weak.lock();
        if (!state) return;
        state->passes.push_back({key, [this, index] { return loaders_[index].end_of_dataloader(); },
                                 [this, index] { return loaders_[index].remainder(); },
                                 [this, index] { return loaders_[index].real_samples(); }});
      },
      [weak, key](bool) {
        const auto state = weak.lock();
        if (!state) return;
        const auto pass = std::find_if(state->passes.rbegin(), state->passes.rend(),
                                       [key](const GradientState::Pass& p) { return p.loader == key; });
        if (pass != state->passes.rend()) state->passes.erase(std::next(pass).base());
      });
  return shard;
}

ddp::DistributedDataParallel* Accelerator::ddp_of(nn::ModuleBase* module) const {
  for (const PreparedModel& model : models_)
    if (model.module == module) return model.ddp.get();
  return nullptr;
}

Accelerator::Accumulation Accelerator::start_accumulation(std::vector<nn::ModuleBase*> models) {
  const GradientAccumulationPlugin& plugin = state_->plugin;
  if (plugin.sync_with_dataloader && state_->end_of_dataloader()) {
    step_ = 0;
    state_->sync_gradients = true;
  } else {
    ++step_;
    state_->sync_gradients = step_ % plugin.num_steps == 0;
  }
  Accumulation guard;
  for (nn::ModuleBase* module : models) {
    ddp::DistributedDataParallel* ddp = ddp_of(module);
    if (ddp && !state_->sync_gradients && !plugin.sync_each_batch) guard.models_.push_back(ddp->no_sync());
  }
  return guard;
}

Accelerator::Accumulation Accelerator::no_sync(nn::ModuleBase& model) {
  Accumulation guard;
  if (ddp::DistributedDataParallel* ddp = ddp_of(&model)) guard.models_.push_back(ddp->no_sync());
  return guard;
}

Accelerator::Accumulation Accelerator::trigger_sync_in_backward(nn::ModuleBase& model) {
  Accumulation guard;
  if (ddp::DistributedDataParallel* ddp = ddp_of(&model)) guard.models_.push_back(ddp->trigger_sync_in_backward());
  return guard;
}

void Accelerator::backward(const Tensor& loss) {
  const int64_t steps = state_->plugin.num_steps;
  (steps == 1 ? loss : loss / steps).backward();
}

void Accelerator::set_gradient_accumulation_steps(int64_t steps) {
  WEFT_CHECK(steps >= 1, "accelerator", "gradient_accumulation_steps must be at least 1, got {}", steps);
  state_->plugin.num_steps = steps;
}

double Accelerator::clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type) {
  if (!sync_gradients()) return 0;
  return optim::clip_grad_norm_(parameters, max_norm, {.norm_type = norm_type});
}

void Accelerator::clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value) {
  if (sync_gradients()) optim::clip_grad_value_(parameters, clip_value);
}

Tree Accelerator::reduce(const Tree& tree, TreeReduce reduction, double scale) const {
  if (scale != 1 && !std::exchange(warned_of_scale_, true))
    warn("reduce: scale = {} has no effect: as in Accelerate it is for XLA devices", scale);
  return weft::reduce(group_, tree, reduction);
}

Tree Accelerator::gather_for_metrics(const Tree& tree, bool use_gather_object) const {
  const bool only_tensors = !use_gather_object && all_tensors(tree);
  const Tree all = only_tensors ? gather(tree) : gather_object(tree);
  const int64_t real = state_->real_samples();
  if (real < 0) return all;
  if (!only_tensors) {
    Tree cut = Tree::list();
    for (int64_t i = 0; i < std::min(real, all.size()); ++i) cut.push_back(all[i]);
    return cut;
  }
  return all.map_tensors([real](const Tensor& x) { return x.size(0) > real ? x.narrow(0, 0, real) : x; });
}

Tree Accelerator::pad_input_tensors(const Tree& tree, int64_t, int num_processes, int64_t dim) const {
  return pad_to_multiple(tree, num_processes, dim);
}

bool Accelerator::check_trigger() {
  const Tensor flag = full({1}, trigger_ ? 1 : 0, DType::i64);
  group_.all_reduce(flag, Reduce::max).wait();
  if (flag.item<int64_t>() == 0) return false;
  trigger_ = false;
  return true;
}

void Accelerator::print_line(const std::string& line) const {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void Accelerator::check_index(int index, int count) {
  WEFT_CHECK(index >= 0 && index < count, "on_process", "process {} does not exist: there are {}", index, count);
}

Accelerator::First::First(const ProcessGroup& group, bool leads) : group_(group), leads_(leads) {
  if (!leads_) {
    group_.barrier().wait();
    group_ = ProcessGroup();
  }
}

Accelerator::First::~First() {
  if (!leads_ || !group_.defined()) return;
  try {
    group_.barrier().wait();
  } catch (const Error&) {  // the group remembers it, and the next operation throws it
  }
}

void Accelerator::free_memory() {
  for (const data::DataLoader& loader : loaders_) loader.set_pass_hooks({}, {});
  models_.clear();
  optimizers_.clear();
  schedulers_.clear();
  loaders_.clear();
  custom_.clear();
  state_->passes.clear();
  step_ = 0;
}

void set_seed(uint64_t seed, bool device_specific, int rank) {
  manual_seed(seed + (device_specific ? static_cast<uint64_t>(rank) : 0));
}

}  // namespace weft
