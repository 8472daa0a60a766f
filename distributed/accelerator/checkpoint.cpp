// Accelerator::save_state and load_state.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>

#include "distributed/accelerator/accelerator.h"
#include "kernels/base/log.h"
#include "tensor/factory.h"
#include "tensor/file.h"
#include "tensor/random.h"
#include "tensor/safetensors.h"
#include "tensor/tree_file.h"

namespace weft {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPrefix = "checkpoint_";

std::string numbered(std::string_view stem, size_t index) {
  return index == 0 ? fmt::format("{}.safetensors", stem) : fmt::format("{}_{}.safetensors", stem, index);
}

Tensor bytes_tensor(const std::vector<uint8_t>& bytes) { return tensor(bytes); }

Tree random_state() {
  const RandomStream& stream = random_stream();
  return Tree::map({{"generator", bytes_tensor(default_generator().save())},
                    {"stream", Tree::map({{"seed", std::bit_cast<int64_t>(stream.seed)},
                                          {"step", int64_t{stream.step}},
                                          {"op", int64_t{stream.op}},
                                          {"sample_offset", std::bit_cast<int64_t>(stream.sample_offset)}})}});
}

void restore_random_state(const Tree& tree) {
  const Tensor bytes = tree.at("generator").as_tensor().contiguous();
  const uint8_t* data = bytes.data<uint8_t>();
  const Tree& saved = tree.at("stream");
  const RandomStream stream{.seed = std::bit_cast<uint64_t>(saved.at("seed").as_int()),
                            .step = static_cast<uint32_t>(saved.at("step").as_int()),
                            .op = static_cast<uint32_t>(saved.at("op").as_int()),
                            .sample_offset = std::bit_cast<uint64_t>(saved.at("sample_offset").as_int())};
  default_generator().load(std::vector<uint8_t>(data, data + bytes.numel()));
  random_stream() = stream;
}

// The numbers of the complete checkpoints in `folder`, rising. Others' files and temporary folders do not count.
std::vector<int64_t> checkpoint_numbers(const fs::path& folder) {
  std::vector<int64_t> numbers;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kPrefix) || !entry.is_directory()) continue;
    int64_t number = 0;
    const char* begin = name.data() + kPrefix.size();
    const char* end = name.data() + name.size();
    if (const auto [at, code] = std::from_chars(begin, end, number); code == std::errc() && at == end)
      numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// A reader that finds an index takes the shards it names rather than model.safetensors.
void remove_shards(const fs::path& folder) {
  fs::remove(folder / "model.safetensors.index.json");
  std::vector<fs::path> shards;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    // model-00001-of-00003.safetensors
    const std::string name = entry.path().filename().string();
    int number = 0, count = 0, length = 0;
    if (std::sscanf(name.c_str(), "model-%5d-of-%5d.safetensors%n", &number, &count, &length) == 2 &&
        length == static_cast<int>(name.size()))
      shards.push_back(entry.path());
  }
  for (const fs::path& shard : shards) fs::remove(shard);
}

// Runs f and makes sure that all ranks know of a failure on any of them: then all throw, the first rank's reason.
template <class F>
void on_all_ranks(const ProcessGroup& group, const char* op, F&& f) {
  std::string failure;
  try {
    f();
  } catch (const std::exception& error) {
    failure = error.what();
    if (failure.empty()) failure = "unknown reason";
  }
  const std::vector<std::string> failures = group.all_gather_bytes(failure);
  for (size_t rank = 0; rank < failures.size(); ++rank)
    if (!failures[rank].empty()) fail(ErrorCode::io, op, "rank {} failed: {}", rank, failures[rank]);
}

}  // namespace

fs::path Accelerator::checkpoints_folder() const { return project_dir() / "checkpoints"; }

// What rank 0 writes for all.
void Accelerator::write_state(const fs::path& folder) const {
  for (size_t i = 0; i < models_.size(); ++i)
    save_safetensors(models_[i].module->state_dict(), folder / numbered("model", i), {{"format", "pt"}});
  for (size_t i = 0; i < optimizers_.size(); ++i)
    save_tree(optimizers_[i]->state_dict(), folder / numbered("optimizer", i));
  for (size_t i = 0; i < schedulers_.size(); ++i)
    save_tree(schedulers_[i]->state_dict(), folder / numbered("scheduler", i));
  for (size_t i = 0; i < loaders_.size(); ++i) save_tree(loaders_[i].state_dict(), folder / numbered("dataloader", i));
  for (size_t i = 0; i < custom_.size(); ++i)
    save_tree(custom_[i].save(), folder / fmt::format("custom_checkpoint_{}.safetensors", i));
  save_tree(Tree::map({{"step", step_}, {"num_processes", num_processes()}}), folder / "accelerator.safetensors");
}

fs::path Accelerator::save_state(const fs::path& asked) {
  ProjectConfiguration& project = options_.project_config;
  fs::path folder = asked;
  if (folder.empty()) {
    WEFT_CHECK(project.automatic_checkpoint_naming && !project.project_dir.empty(), "save_state",
               "name a folder, or set project_dir and automatic_checkpoint_naming");
    folder = checkpoints_folder() / fmt::format("{}{}", kPrefix, project.iteration);
  }
  // Rank 0 makes a temporary folder, all write into it, rank 0 gives it its name.
  std::optional<AtomicFolder> made;
  std::string temporary;
  on_all_ranks(group_, "save_state", [&] {
    if (!is_main_process()) return;
    if (asked.empty()) {
      fs::create_directories(checkpoints_folder());
      WEFT_CHECK(!fs::exists(folder), "save_state",
                 "{} exists already; set project_config.iteration to the next free number", folder.string());
    } else if (folder.has_parent_path()) {
      fs::create_directories(folder.parent_path());
    }
    made.emplace(folder);
    temporary = made->path().string();
  });
  temporary = group_.broadcast_bytes(temporary, 0);
  on_all_ranks(group_, "save_state", [&] {
    if (is_main_process()) write_state(temporary);
    save_tree(random_state(), fs::path(temporary) / fmt::format("random_states_{}.safetensors", process_index()));
  });
  on_all_ranks(group_, "save_state", [&] {
    if (!is_main_process()) return;
    made->commit();
    if (asked.empty()) remove_old_checkpoints();
  });
  if (asked.empty()) ++project.iteration;
  return folder;
}

// Keeps total_limit checkpoints: the one just written, and before it those with the next lower numbers. A folder with a
// higher number is left over from another run; it goes first.
void Accelerator::remove_old_checkpoints() const {
  const ProjectConfiguration& project = options_.project_config;
  if (!project.total_limit) return;
  std::vector<int64_t> numbers = checkpoint_numbers(checkpoints_folder());
  std::stable_partition(numbers.begin(), numbers.end(), [&](int64_t n) { return n > project.iteration; });
  const auto limit = static_cast<size_t>(std::max<int64_t>(*project.total_limit, 1));
  for (size_t i = 0; i + limit < numbers.size(); ++i)
    fs::remove_all(checkpoints_folder() / fmt::format("{}{}", kPrefix, numbers[i]));
}

void Accelerator::load_state(const fs::path& asked) {
  ProjectConfiguration& project = options_.project_config;
  fs::path folder = asked;
  if (folder.empty()) {
    WEFT_CHECK(project.automatic_checkpoint_naming && !project.project_dir.empty(), "load_state",
               "name a folder, or set project_dir and automatic_checkpoint_naming");
    const std::vector<int64_t> numbers = checkpoint_numbers(checkpoints_folder());
    if (numbers.empty())
      fail(ErrorCode::not_found, "load_state", "there is no checkpoint in {}", checkpoints_folder().string());
    folder = checkpoints_folder() / fmt::format("{}{}", kPrefix, numbers.back());
    project.iteration = numbers.back() + 1;
  }
  on_all_ranks(group_, "load_state", [&] {
    if (!fs::is_directory(folder)) fail(ErrorCode::not_found, "load_state", "{} is no folder", folder.string());
    // Everything is read before anything is changed.
    const auto read_trees = [&](std::string_view stem, size_t count) {
      std::vector<Tree> trees;
      for (size_t i = 0; i < count; ++i) trees.push_back(load_tree(folder / numbered(stem, i)));
      return trees;
    };
    std::vector<StateDict> models;
    for (size_t i = 0; i < models_.size(); ++i)
      models.push_back(load_safetensors(folder / numbered("model", i)).tensors);
    const std::vector<Tree> optimizers = read_trees("optimizer", optimizers_.size());
    const std::vector<Tree> schedulers = read_trees("scheduler", schedulers_.size());
    const std::vector<Tree> loaders = read_trees("dataloader", loaders_.size());
    std::vector<Tree> custom;
    for (size_t i = 0; i < custom_.size(); ++i)
      custom.push_back(load_tree(folder / fmt::format("custom_checkpoint_{}.safetensors", i)));
    const Tree own = load_tree(folder / "accelerator.safetensors");

    for (size_t i = 0; i < models_.size(); ++i) models_[i].module->load_state_dict(models[i]);
    for (size_t i = 0; i < optimizers_.size(); ++i) optimizers_[i]->load_state_dict(optimizers[i]);
    for (size_t i = 0; i < schedulers_.size(); ++i) schedulers_[i]->load_state_dict(schedulers[i]);
    for (size_t i = 0; i < loaders_.size(); ++i) loaders_[i].load_state_dict(loaders[i]);
    for (size_t i = 0; i < custom_.size(); ++i) custom_[i].load(custom[i]);
    step_ = own.at("step").as_int();
  });
  // A lost random state changes what comes next, but nothing that was learned.
  const fs::path random = folder / fmt::format("random_states_{}.safetensors", process_index());
  try {
    restore_random_state(load_tree(random));
  } catch (const Error& error) {
    warn("load_state: rank {} goes on with its present random state, as {} could not be restored: {}", process_index(),
         random.string(), error.what());
  }
}

void Accelerator::save_model(const nn::ModuleBase& model, const fs::path& folder) const {
  on_all_ranks(group_, "save_model", [&] {
    if (!is_local_main_process()) return;
    fs::create_directories(folder);
    save_safetensors(model.state_dict(), folder / "model.safetensors", {{"format", "pt"}});
    remove_shards(folder);
  });
}

}  // namespace weft
