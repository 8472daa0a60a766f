// What the parts of a prepared training loop tell each other: whether this batch ends in an update, and whether the
// loader is at its end. Shared by an Accelerator and everything it prepared.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "distributed/accelerator/options.h"

namespace weft {

struct GradientState {
  GradientAccumulationPlugin plugin;
  bool sync_gradients = true;
  // Passes over prepared loaders that run now, the innermost last; each says where its loader stands.
  struct Pass {
    const void* loader;
    std::function<bool()> at_end;
    std::function<int64_t()> remainder;
    std::function<int64_t()> real_samples;
  };
  std::vector<Pass> passes;

  bool in_dataloader() const { return !passes.empty(); }
  bool end_of_dataloader() const { return in_dataloader() && passes.back().at_end(); }
  int64_t remainder() const { return in_dataloader() ? passes.back().remainder() : -1; }
  // See data::DataLoader::real_samples.
  int64_t real_samples() const { return in_dataloader() ? passes.back().real_samples() : -1; }
};

}  // namespace weft
