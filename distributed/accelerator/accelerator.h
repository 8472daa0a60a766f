// Accelerator: one training loop for one process or many.
//
//   Accelerator accelerator({.gradient_accumulation_steps = 4});
//   auto [model, optimizer, loader, scheduler] = accelerator.prepare(net, opt, dl, sched);
//   for (auto& batch : loader) {
//     auto step = accelerator.accumulate(model);
//     Tensor loss = nn::cross_entropy(model(batch["input"]), batch["target"]);
//     accelerator.backward(loss);
//     if (accelerator.sync_gradients()) accelerator.clip_grad_norm_(model.parameters(), 1.0);
//     optimizer.step();
//     scheduler.step();
//     optimizer.zero_grad();
//   }
//   accelerator.save_state("checkpoint");
//
// It re-creates Hugging Face's Accelerator. Nothing is process-global: several live side by side on the threads of one
// process, each with its own ProcessGroup. What is prepared must live as long as it is used through it. Calls marked "collective" are made by every rank.
#pragma once
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <vector>

#include "data/shard.h"
#include "distributed/accelerator/operations.h"
#include "distributed/accelerator/options.h"
#include "distributed/accelerator/prepared.h"
#include "nn/module.h"

namespace weft {

class Accelerator {
 public:
  // Collective. Errors in the options throw invalid_argument that says which values are possible.
  explicit Accelerator(AcceleratorOptions options = {});
  ~Accelerator();
  Accelerator(const Accelerator&) = delete;
  Accelerator& operator=(const Accelerator&) = delete;

  // --- who and where --------------------------------------------------------------------------------------------
  const ProcessGroup& group() const { return group_; }
  Device device() const { return options_.device; }
  int process_index() const { return group_.rank(); }
  int local_process_index() const { return local_rank_; }
  int num_processes() const { return group_.size(); }
  bool is_main_process() const { return process_index() == 0; }
  bool is_local_main_process() const { return local_rank_ == 0; }
  bool is_last_process() const { return process_index() == num_processes() - 1; }
  bool use_distributed() const { return num_processes() > 1; }
  const std::string& mixed_precision() const { return options_.mixed_precision; }
  const std::filesystem::path& project_dir() const { return options_.project_config.project_dir; }
  int64_t save_iteration() const { return options_.project_config.iteration; }

  // --- prepare ----------------------------------------------------------------------------------------------------
  // Collective. Modules come back as they are (a reference), with DDP behind them when there are several ranks; optimizers,
  // schedules and loaders as handles that keep to the rules of the loop. In any mix and order; something prepared already
  // comes back unchanged.
  template <class... Objects>
  auto prepare(Objects&... objects) {
    return std::tuple<decltype(prepare_one(objects))...>{prepare_one(objects)...};  // braces: from left to right
  }
  template <class M>
  requires(std::is_base_of_v<nn::ModuleBase, M>) M& prepare_model(M& module, bool evaluation_mode = false) {
    attach(module, evaluation_mode);
    return module;
  }
  PreparedOptimizer prepare_optimizer(optim::Optimizer& optimizer);
  PreparedScheduler prepare_scheduler(optim::LRScheduler& scheduler);
  data::DataLoader prepare_data_loader(const data::DataLoader& loader);

  // --- the loop ---------------------------------------------------------------------------------------------------
  // While the guard lives the batch counts as one of gradient_accumulation_steps: gradients are reduced on every n-th of
  // them and, unless sync_with_dataloader is false, on the last of a loader.
  class [[nodiscard]] Accumulation {
   public:
    Accumulation(Accumulation&& other) noexcept = default;
    Accumulation& operator=(Accumulation&&) = delete;

   private:
    friend class Accelerator;
    Accumulation() = default;
    std::vector<ddp::DistributedDataParallel::SyncGuard> models_;
  };
  template <class... Models>
  Accumulation accumulate(Models&... models) {
    return start_accumulation({&models...});
  }
  // Divides by gradient_accumulation_steps(), always, and runs backward.
  void backward(const Tensor& loss);
  bool sync_gradients() const { return state_->sync_gradients; }
  // Batches since the last update that a loader's end forced.
  int64_t step() const { return step_; }
  int64_t gradient_accumulation_steps() const { return state_->plugin.num_steps; }
  void set_gradient_accumulation_steps(int64_t steps);
  // While the guard lives, forward and backward of `model` only add to local gradients.
  Accumulation no_sync(nn::ModuleBase& model);
  // While the guard lives, backward reduces the gradients of `model` even if its forward ran under no_sync.
  Accumulation trigger_sync_in_backward(nn::ModuleBase& model);
  // The total norm of the gradients, clipped to max_norm; while gradients are not synchronised nothing happens and it is 0.
  double clip_grad_norm_(const std::vector<Tensor>& parameters, double max_norm, double norm_type = 2);
  void clip_grad_value_(const std::vector<Tensor>& parameters, double clip_value);
  // This version has no loss scaling, so no step is ever skipped.
  bool optimizer_step_was_skipped() const { return false; }

  // --- across processes; collective, see operations.h ---------------------------------------------------------------
  Tensor gather(const Tensor& x) const { return weft::gather(group_, x).as_tensor(); }
  Tree gather(const Tree& tree) const { return weft::gather(group_, tree); }
  // gather, without the samples that were added to fill the last batch of the loader whose pass runs.
  Tensor gather_for_metrics(const Tensor& x) const { return gather_for_metrics(Tree(x)).as_tensor(); }
  // Anything but tensors, or use_gather_object, is gathered as gather_object does, and the list cut.
  Tree gather_for_metrics(const Tree& tree, bool use_gather_object = false) const;
  Tree gather_object(const Tree& object) const { return weft::gather_object(group_, object); }
  // `scale` is there for programs written for Accelerate, where too it only acts on XLA devices: here it warns.
  Tensor reduce(const Tensor& x, TreeReduce reduction = TreeReduce::sum, double scale = 1) const {
    return reduce(Tree(x), reduction, scale).as_tensor();
  }
  Tree reduce(const Tree& tree, TreeReduce reduction = TreeReduce::sum, double scale = 1) const;
  Tree broadcast(const Tree& tree, int from = 0) const { return weft::broadcast(group_, tree, from); }
  // Replaces the elements of `list` by those of rank `from`.
  void broadcast_object_list(Tree& list, int from = 0) const { list = weft::broadcast_object(group_, list, from); }
  Tree pad_across_processes(const Tree& tree, int64_t dim = 0, double pad_index = 0, bool pad_first = false) const {
    return weft::pad_across_processes(group_, tree, dim, pad_index, pad_first);
  }
  // Not collective: this rank's part.
  Tree split_between_processes(const Tree& inputs, bool apply_padding = false) const {
    return split_between(inputs, process_index(), num_processes(), apply_padding);
  }
  Tree pad_input_tensors(const Tree& tree, int64_t batch_size, int num_processes, int64_t dim = 0) const;
  void wait_for_everyone() const { group_.barrier().wait(); }
  // Any rank sets, every rank sees it at the next check (collective), then it is reset.
  void set_trigger() { trigger_ = true; }
  bool check_trigger();

  // --- who does what ------------------------------------------------------------------------------------------------
  // A line on stdout, once per host.
  template <class... Args>
  void print(fmt::format_string<Args...> text, Args&&... args) const {
    if (is_local_main_process()) print_line(fmt::format(text, std::forward<Args>(args)...));
  }
  // While the guard lives: the main process goes on at once, the others when its guard has gone. Collective.
  class [[nodiscard]] First {
   public:
    First(const ProcessGroup& group, bool leads);
    First(First&& other) noexcept : group_(std::move(other.group_)), leads_(std::exchange(other.leads_, false)) {}
    First& operator=(First&&) = delete;
    ~First();

   private:
    ProcessGroup group_;
    bool leads_;
  };
  First main_process_first() const { return First(group_, is_main_process()); }
  First local_main_process_first() const { return First(group_, is_local_main_process()); }
  // Functions that run on some ranks only: auto log = accelerator.on_main_process([&] { … }); log();
  template <class F>
  auto on_main_process(F f) const {
    return on_process(std::move(f), 0);
  }
  template <class F>
  auto on_local_main_process(F f) const {
    return on_local_process(std::move(f), 0);
  }
  template <class F>
  auto on_last_process(F f) const {
    return on_process(std::move(f), num_processes() - 1);
  }
  template <class F>
  auto on_process(F f, int index) const {
    check_index(index, num_processes());
    return only_if(process_index() == index, std::move(f));
  }
  template <class F>
  auto on_local_process(F f, int index) const {
    check_index(index, local_size_);
    return only_if(local_rank_ == index, std::move(f));
  }

  // --- state on disk; collective ------------------------------------------------------------------------------------
  // Everything that was prepared or registered, the random state of every rank, and the accumulation step, into a folder
  // that is written whole or not at all: models as model.safetensors, model_1.safetensors, … (Hugging Face's names),
  // optimizer.safetensors, scheduler.safetensors, dataloader.safetensors, custom_checkpoint_<i>.safetensors,
  // random_states_<rank>.safetensors, accelerator.safetensors. Without a folder: project_dir/checkpoints/checkpoint_<i>,
  // with automatic_checkpoint_naming. Returns the folder.
  std::filesystem::path save_state(const std::filesystem::path& folder = {});
  // Restores it, bit for bit. Without a folder: the newest of automatic naming. A random state that is missing or damaged is
  // a warning; anything else that does not fit is an error, and what was loaded before it stays loaded.
  void load_state(const std::filesystem::path& folder = {});
  // Any object with `Tree state_dict()` and `void load_state_dict(const Tree&)`.
  template <class T>
  void register_for_checkpointing(T& object) {
    static_assert(
        requires(T & t, const Tree& tree) {
          { t.state_dict() } -> std::convertible_to<Tree>;
          t.load_state_dict(tree);
        },
        "an object to checkpoint needs Tree state_dict() and load_state_dict(const Tree&)");
    custom_.push_back({[&object] { return Tree(object.state_dict()); },
                       [&object](const Tree& state) { object.load_state_dict(state); }});
  }
  // model.safetensors alone, as other tools read it. Shards and their index that a larger model left there go.
  void save_model(const nn::ModuleBase& model, const std::filesystem::path& folder) const;
  // The module that was handed to prepare: prepare gives it back itself.
  template <class M>
  M& unwrap_model(M& model) const {
    return model;
  }
  // Lets go of everything prepared and resets step() to 0.
  void free_memory();

 private:
  struct PreparedModel {
    nn::ModuleBase* module;
    std::unique_ptr<ddp::DistributedDataParallel> ddp;  // none on one rank, or for evaluation
  };
  struct Custom {
    std::function<Tree()> save;
    std::function<void(const Tree&)> load;
  };

  template <class M>
  requires(std::is_base_of_v<nn::ModuleBase, M>) M& prepare_one(M& module) { return prepare_model(module); }
  PreparedOptimizer prepare_one(optim::Optimizer& optimizer) { return prepare_optimizer(optimizer); }
  PreparedScheduler prepare_one(optim::LRScheduler& scheduler) { return prepare_scheduler(scheduler); }
  data::DataLoader prepare_one(data::DataLoader& loader) { return prepare_data_loader(loader); }
  PreparedOptimizer prepare_one(PreparedOptimizer& optimizer) { return optimizer; }
  PreparedScheduler prepare_one(PreparedScheduler& scheduler) { return scheduler; }

  void attach(nn::ModuleBase& module, bool evaluation_mode);
  Accumulation start_accumulation(std::vector<nn::ModuleBase*> models);
  ddp::DistributedDataParallel* ddp_of(nn::ModuleBase* module) const;
  void write_state(const std::filesystem::path& folder) const;
  std::filesystem::path checkpoints_folder() const;
  void remove_old_checkpoints() const;
  void print_line(const std::string& line) const;
  static void check_index(int index, int count);
  template <class F>
  static auto only_if(bool here, F f) {
    return [here, f = std::move(f)](auto&&... arguments) mutable {
      if (here) f(std::forward<decltype(arguments)>(arguments)...);
    };
  }

  AcceleratorOptions options_;
  ProcessGroup group_;
  int local_rank_ = 0;
  int local_size_ = 1;
  std::shared_ptr<GradientState> state_;
  int64_t step_ = 0;
  bool trigger_ = false;
  mutable bool warned_of_scale_ = false;
  std::vector<PreparedModel> models_;
  std::vector<optim::Optimizer*> optimizers_;
  std::vector<optim::LRScheduler*> schedulers_;
  std::vector<data::DataLoader> loaders_;
  std::vector<Custom> custom_;
};

// Seeds this thread's generator and the stream of dropout; device_specific adds the rank.
void set_seed(uint64_t seed, bool device_specific = false, int rank = 0);

}  // namespace weft
