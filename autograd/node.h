// The tape: a Node for every recorded operation, linked from its output back to its inputs.
//
// An op computes its output without history, then records how to go back:
//
//   Tensor square(const Tensor& x) {
//     Tensor y = …;                                              // kernel launch
//     return record("square", {x}, y, [x = Saved(x)](Node& node, const Gradients& dy) -> Gradients {
//       return {2 * x.get(node) * dy[0]};                        // one gradient an input, undefined where none
//     });
//   }
//
// Inside a backward function grad mode is on exactly when the user asked for create_graph: then it must use
// differentiable ops; otherwise it may launch a fused kernel. dy[i] may be undefined when output i was not used.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "autograd/grad_mode.h"
#include "tensor/tensor.h"

namespace weft {

struct Node;
using Gradients = std::vector<Tensor>;
using BackwardFunction = std::function<Gradients(Node& node, const Gradients& grad_outputs)>;

// Where the gradient of an input goes: output number `index` of `node`. No node: the input needs none.
struct Edge {
  std::shared_ptr<Node> node;
  int index = 0;
};

struct Node : std::enable_shared_from_this<Node> {
  struct Output {
    Shape shape;
    DType dtype;
    Device device;
    std::vector<std::pair<uint64_t, Hook>> hooks;  // run on this output's gradient before `backward`
  };

  ~Node();  // iterative: a chain of any length is freed without recursion

  const char* name = "";
  uint64_t sequence = 0;  // rises in the order of recording; backward runs the highest first
  std::vector<Edge> inputs;
  std::vector<Output> outputs;
  BackwardFunction backward;  // given back after its run, unless the graph is retained
  bool released = false;      // backward ran and was given back
  Tensor leaf;                // a leaf's own node has no backward: it adds to this tensor's grad()

  // False where computing the gradient of input i would be wasted.
  bool needs_input_grad(size_t i) const { return static_cast<bool>(inputs[i].node); }
};

// Autograd data of one tensor.
struct AutogradMeta {
  bool requires_grad = false;
  Tensor grad;
  // Where DDP and sharding want the gradient to live: the first gradient is copied here and grad becomes this tensor.
  Tensor grad_slot;
  std::shared_ptr<Node> grad_fn;  // the node that made this tensor; none for a leaf
  int output_index = 0;
  std::weak_ptr<Node> accumulator;               // a leaf's node, made when first used
  std::shared_ptr<Tensor> retained_grad;         // where retain_grad() keeps a non-leaf's gradient
  std::vector<std::pair<uint64_t, Hook>> hooks;  // of a leaf
  std::vector<std::pair<uint64_t, std::function<void(const Tensor&)>>> post_accumulate_hooks;
};

// The autograd data of a tensor, made when absent.
AutogradMeta& autograd_meta(const Tensor& tensor);

// The edge that leads to `tensor`'s gradient (a leaf's accumulator or its grad_fn); empty when it requires none.
Edge gradient_edge(const Tensor& tensor);

// A tensor kept for backward. get() throws when an in-place operation has changed it since, naming the op that saved
// it and both versions.
class Saved {
 public:
  Saved() = default;
  // An input of the op.
  Saved(const Tensor& input);
  // The op's own output: kept without history, so that the node does not own itself.
  static Saved output(const Tensor& output, int index = 0);
  Tensor get(Node& node) const;
  bool defined() const { return tensor_.defined(); }

 private:
  Tensor tensor_;
  uint32_t version_ = 0;
  int output_index_ = -1;
};

// True when an op on these inputs has to be recorded.
bool any_requires_grad(const std::vector<Tensor>& inputs);

// Records `output` as made from `inputs` and returns it. Does nothing when no input requires a gradient or grad mode is
// off. Outputs that are not floating point never require a gradient.
Tensor record(const char* name, const std::vector<Tensor>& inputs, Tensor output, BackwardFunction backward);
std::vector<Tensor> record(const char* name, const std::vector<Tensor>& inputs, std::vector<Tensor> outputs,
                           BackwardFunction backward);
// For in-place ops: gives `target`, which inputs[0] was before the write, the new history.
void record_in_place(const char* name, const std::vector<Tensor>& inputs, const Tensor& target,
                     BackwardFunction backward);

}  // namespace weft
