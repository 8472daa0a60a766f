#include "autograd/engine.h"

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "autograd/ops/ops.h"

namespace weft {
namespace {

// What one run of backward knows about a node.
struct Work {
  int waiting = 0;      // edges into this node whose gradients have not come yet
  bool wanted = true;   // leads to a leaf (or, for grad(), to one of the inputs asked for)
  Gradients gradients;  // sums of what has come, by output
};

struct Task;
constinit thread_local Task* running = nullptr;
constinit thread_local uint64_t backward_calls = 0;

// True when nobody else can see the tensor's memory, so that it may be added to in place.
bool is_exclusive(const Tensor& tensor) {
  return tensor.impl().use_count() == 1 && tensor.storage()->use_count() == 1 && tensor.is_contiguous();
}

void add_into(Tensor& sum, Tensor&& gradient, bool create_graph) {
  if (!sum.defined()) {
    sum = std::move(gradient);
  } else if (!create_graph && is_exclusive(sum)) {
    sum.add_(gradient);
  } else {
    sum = add(sum, gradient);
  }
}

struct Task {
  BackwardOptions options;
  std::unordered_map<Node*, Work> work;
  // Gradients asked for by grad(): (node, output) → index into `captured`.
  std::vector<std::pair<Edge, Tensor*>> captures;
  bool accumulate = true;
  Task* outer = nullptr;  // the task inside which this one runs, as in a checkpoint
  std::vector<std::function<void()>> callbacks;

  struct Later {
    bool operator()(const Node* a, const Node* b) const { return a->sequence < b->sequence; }
  };
  std::priority_queue<Node*, std::vector<Node*>, Later> ready;

  void count_edges(const std::vector<Edge>& roots) {
    std::vector<Node*> stack;
    for (const Edge& root : roots)
      if (root.node && work.try_emplace(root.node.get()).second) stack.push_back(root.node.get());
    std::vector<Node*> order;
    while (!stack.empty()) {
      Node* node = stack.back();
      stack.pop_back();
      order.push_back(node);
      for (const Edge& edge : node->inputs) {
        if (!edge.node) continue;
        auto [at, fresh] = work.try_emplace(edge.node.get());
        ++at->second.waiting;
        if (fresh) stack.push_back(edge.node.get());
      }
    }
    if (accumulate) return;
    // Only what leads to an input asked for is worth running. Earlier nodes first: theirs decide the later ones.
    std::sort(order.begin(), order.end(), [](Node* a, Node* b) { return a->sequence < b->sequence; });
    for (Node* node : order) {
      bool wanted = std::any_of(captures.begin(), captures.end(),
                                [&](const auto& capture) { return capture.first.node.get() == node; });
      for (const Edge& edge : node->inputs) wanted = wanted || (edge.node && work.at(edge.node.get()).wanted);
      work.at(node).wanted = wanted;
    }
  }

  void give(const Edge& edge, Tensor&& gradient, const char* from) {
    Work& target = work.at(edge.node.get());
    const Node::Output& info = edge.node->outputs[static_cast<size_t>(edge.index)];
    if (gradient.shape() != info.shape)
      fail(ErrorCode::internal, from, "its backward gave a gradient of shape {} for an input of shape {}",
           gradient.shape(), info.shape);
    if (gradient.dtype() != info.dtype) gradient = gradient.to(info.dtype);
    target.gradients.resize(edge.node->outputs.size());
    add_into(target.gradients[static_cast<size_t>(edge.index)], std::move(gradient), options.create_graph);
  }

  static void run_hooks(const std::vector<std::pair<uint64_t, Hook>>& hooks, Tensor& gradient) {
    if (hooks.empty()) return;
    const auto copy = hooks;  // NOLINT(performance-unnecessary-copy-initialization): a hook may remove itself
    for (const auto& [id, hook] : copy)
      if (Tensor changed = hook(gradient); changed.defined()) gradient = std::move(changed);
  }

  bool capture(Node* node, size_t index, const Tensor& gradient) {
    bool found = false;
    for (auto& [edge, slot] : captures)
      if (edge.node.get() == node && static_cast<size_t>(edge.index) == index) {
        *slot = gradient;
        found = true;
      }
    return found;
  }

  void reach_leaf(Node* node, Tensor gradient) {
    const Tensor leaf = node->leaf;
    AutogradMeta& meta = autograd_meta(leaf);
    run_hooks(meta.hooks, gradient);
    if (!accumulate) {
      capture(node, 0, gradient);
      return;
    }
    if (meta.grad.defined()) {
      if (options.create_graph)
        meta.grad = add(meta.grad, gradient);
      else
        meta.grad.add_(gradient);
    } else if (meta.grad_slot.defined() && !options.create_graph) {
      meta.grad_slot.copy_(gradient);
      meta.grad = meta.grad_slot;
    } else {
      meta.grad = options.create_graph || is_exclusive(gradient) ? std::move(gradient) : gradient.clone();
    }
    const auto hooks = meta.post_accumulate_hooks;
    for (const auto& [id, hook] : hooks) hook(leaf);
  }

  void run_node(Node* node) {
    Work mine = std::move(work.at(node));
    const bool any = std::any_of(mine.gradients.begin(), mine.gradients.end(),
                                 [](const Tensor& gradient) { return gradient.defined(); });
    Gradients results;
    if (node->leaf.defined()) {
      if (any) reach_leaf(node, std::move(mine.gradients[0]));
    } else if (any) {
      for (size_t i = 0; i < node->outputs.size(); ++i) {
        if (!mine.gradients[i].defined()) continue;
        run_hooks(node->outputs[i].hooks, mine.gradients[i]);
        if (!captures.empty()) capture(node, i, mine.gradients[i]);
      }
      const bool goes_on = std::any_of(node->inputs.begin(), node->inputs.end(),
                                       [&](const Edge& edge) { return edge.node && work.at(edge.node.get()).wanted; });
      if (goes_on) {
        if (node->released)
          fail(ErrorCode::invalid_argument, "backward",
               "the graph of {} was already used and given back; pass retain_graph = true the first time", node->name);
        results = node->backward(*node, mine.gradients);
        if (results.size() != node->inputs.size())
          fail(ErrorCode::internal, node->name, "its backward gave {} gradients for {} inputs", results.size(),
               node->inputs.size());
        mine.gradients.clear();
        if (!options.retain_graph) {
          node->backward = nullptr;
          node->released = true;
        }
      }
    }
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      const Edge& edge = node->inputs[i];
      if (!edge.node) continue;
      if (i < results.size() && results[i].defined()) give(edge, std::move(results[i]), node->name);
      if (--work.at(edge.node.get()).waiting == 0) make_ready(edge.node.get());
    }
  }

  // A leaf is done as soon as its gradient is complete; other nodes wait for their turn.
  void make_ready(Node* node) {
    if (node->leaf.defined())
      run_node(node);
    else
      ready.push(node);
  }

  void run(const std::vector<Edge>& roots, Gradients gradients) {
    count_edges(roots);
    for (size_t i = 0; i < roots.size(); ++i)
      if (roots[i].node) give(roots[i], std::move(gradients[i]), "backward");
    std::vector<Node*> started;
    for (const Edge& root : roots)
      if (root.node && std::find(started.begin(), started.end(), root.node.get()) == started.end())
        started.push_back(root.node.get());
    for (Node* node : started)
      if (work.at(node).waiting == 0) make_ready(node);
    while (!ready.empty()) {
      Node* node = ready.top();
      ready.pop();
      run_node(node);
    }
    while (!callbacks.empty()) {
      const auto now = std::exchange(callbacks, {});
      for (const auto& f : now) f();
    }
  }
};

void run_task(Task& task, const std::vector<Tensor>& outputs, const std::vector<Tensor>& grad_outputs, const char* op) {
  WEFT_CHECK(!outputs.empty(), op, "no outputs given");
  WEFT_CHECK(grad_outputs.empty() || grad_outputs.size() == outputs.size(), op,
             "expected one gradient an output or none, got {} for {}", grad_outputs.size(), outputs.size());
  std::vector<Edge> roots;
  Gradients gradients;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& output = outputs[i];
    WEFT_CHECK(output.requires_grad(), op, "output {} ({}) does not require a gradient", i, describe(output));
    Tensor gradient = grad_outputs.empty() ? Tensor() : grad_outputs[i];
    if (!gradient.defined()) {
      WEFT_CHECK(output.numel() == 1, op,
                 "output {} is {}: only a tensor with one element has an implied gradient of 1", i, describe(output));
      gradient = ones_like(output);
    }
    WEFT_CHECK(gradient.shape() == output.shape(), op, "the gradient of output {} has shape {}, expected {}", i,
               gradient.shape(), output.shape());
    roots.push_back(gradient_edge(output));
    gradients.push_back(std::move(gradient));
  }
  SetGradMode mode(task.options.create_graph);
  struct Running {
    Task* before = running;
    ~Running() { running = before; }
  } restore;
  task.outer = running;
  running = &task;
  task.run(roots, std::move(gradients));
}

}  // namespace

void backward(const std::vector<Tensor>& outputs, const std::vector<Tensor>& grad_outputs, BackwardOptions options) {
  ++backward_calls;
  options.retain_graph = options.retain_graph || options.create_graph;
  Task task{.options = options, .work = {}, .captures = {}, .callbacks = {}, .ready = {}};
  run_task(task, outputs, grad_outputs, "backward");
}

std::vector<Tensor> grad(const std::vector<Tensor>& outputs, const std::vector<Tensor>& inputs,
                         const std::vector<Tensor>& grad_outputs, GradOptions options) {
  Task task{
      .options = {.retain_graph = options.retain_graph || options.create_graph, .create_graph = options.create_graph},
      .work = {},
      .captures = {},
      .accumulate = false,
      .callbacks = {},
      .ready = {}};
  std::vector<Tensor> result(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    WEFT_CHECK(inputs[i].requires_grad(), "grad", "input {} ({}) does not require a gradient", i, describe(inputs[i]));
    task.captures.emplace_back(gradient_edge(inputs[i]), &result[i]);
  }
  run_task(task, outputs, grad_outputs, "grad");
  for (size_t i = 0; i < inputs.size(); ++i)
    WEFT_CHECK(result[i].defined() || options.allow_unused, "grad",
               "input {} ({}) was not used for the outputs; pass allow_unused = true if that is meant", i,
               describe(inputs[i]));
  return result;
}

uint64_t backward_count() { return backward_calls; }

void queue_backward_callback(std::function<void()> f) {
  WEFT_CHECK(running, "queue_backward_callback", "backward is not running on this thread");
  Task* outermost = running;
  while (outermost->outer) outermost = outermost->outer;
  outermost->callbacks.push_back(std::move(f));
}

void Tensor::backward(const Tensor& gradient, BackwardOptions options) const {
  weft::backward({*this}, {gradient}, options);
}

}  // namespace weft
