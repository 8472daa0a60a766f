// What an Accelerator can be told. Fields and defaults are those of Hugging Face's Accelerator.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "distributed/comm/process_group.h"
#include "distributed/ddp/ddp.h"

namespace weft {

// How many batches make one update, and what that means for the rest.
struct GradientAccumulationPlugin {
  int64_t num_steps = 1;
  // Accepted, as Accelerate has it, where it too changes no learning rate: the schedule moves with the updates.
  bool adjust_scheduler = true;
  bool sync_with_dataloader = true;  // the end of a loader is always an update
  bool sync_each_batch = false;      // reduce gradients on every batch (less memory kept, more sent)
};

// How prepared loaders share a dataset among ranks; see data/shard.h.
struct DataLoaderConfiguration {
  bool split_batches = false;
  bool even_batches = true;
  std::optional<uint64_t> data_seed = {};  // of the shuffle; default: rank 0's loader's own
  bool shard_iterable_dataset = true;
  // An addition of Weft's, with split_batches: batches need not divide by the number of ranks.
  bool allow_uneven = false;
};

struct ProjectConfiguration {
  std::filesystem::path project_dir;
  std::filesystem::path logging_dir;         // default: project_dir
  bool automatic_checkpoint_naming = false;  // save_state() into project_dir/checkpoints/checkpoint_<iteration>
  std::optional<int64_t> total_limit = {};   // keep this many of them
  int64_t iteration = 0;                     // number of the next one
};

struct AcceleratorOptions {
  // Where the models compute. Accelerate chooses it itself; here it is said: a program that runs on a laptop, too, has no
  // surprise. With several ranks the group must be able to send what lies there.
  Device device = Device::cpu();
  bool device_placement = true;  // prepare moves models and batches there
  bool split_batches = false;
  // "no", or one of fp16, bf16, fp8, which this version refuses; default: ACCELERATE_MIXED_PRECISION, else no.
  std::string mixed_precision = "";
  // Default: ACCELERATE_GRADIENT_ACCUMULATION_STEPS, else 1. Together with the plugin both must say the same.
  std::optional<int64_t> gradient_accumulation_steps = {};
  std::optional<GradientAccumulationPlugin> gradient_accumulation_plugin = {};
  DataLoaderConfiguration dataloader_config = {};
  std::filesystem::path project_dir = {};
  ProjectConfiguration project_config = {};
  bool step_scheduler_with_optimizer = true;
  ddp::Options ddp = {};
  ProcessGroup group = {};  // default: ProcessGroup::from_environment()
};

}  // namespace weft
