// Backward: from outputs to gradients.
//
//   backward({loss});                                     // adds to grad() of every leaf
//   auto [dx] = grad({y}, {x}, {}, {.create_graph = true}) // returns them instead
//
// Runs on the calling thread, iteratively, the latest recorded node first: the order is the same in every run and on
// every rank. Hooks run in that order, too.
#pragma once
#include <functional>
#include <vector>

#include "autograd/node.h"

namespace weft {

// Adds d(sum of outputs · grad_outputs)/d(leaf) to every leaf's grad(). A missing grad_output is 1 for an output with
// one element, else an error.
void backward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& grad_outputs = {},
              BackwardOptions options = {});

struct GradOptions {
  bool retain_graph = false;
  bool create_graph = false;
  bool allow_unused = false;  // an input that does not matter gives an undefined gradient instead of an error
};

// The gradients with respect to `inputs` (leaves or not); no grad() is touched.
std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs = {}, GradOptions options = {});

// Calls `f` when the running backward of this thread has finished (the outermost one, where a checkpoint runs backward
// inside backward), as DDP's end hook does. Throws outside backward.
void queue_backward_callback(std::function<void()> f);

// How many calls of backward this thread has made. Whoever keeps the number sees later whether one came since.
uint64_t backward_count();

}  // namespace weft
