#include "autograd/node.h"

#include <atomic>

namespace weft {
namespace {

std::atomic<uint64_t> next_sequence{1};

// Nodes that are to be destroyed on this thread wait here while another one is, so that a long chain is freed by a
// loop. Null while none is being destroyed.
constinit thread_local std::vector<std::shared_ptr<Node>>* draining = nullptr;

void let_go(std::shared_ptr<Node> node) noexcept {
  if (!node) return;
  if (draining) {
    draining->push_back(std::move(node));
    return;
  }
  std::vector<std::shared_ptr<Node>> waiting;
  draining = &waiting;
  waiting.push_back(std::move(node));
  while (!waiting.empty()) {
    std::shared_ptr<Node> last = std::move(waiting.back());
    waiting.pop_back();
    last.reset();  // may add to `waiting`
  }
  draining = nullptr;
}

std::shared_ptr<Node> make_node(const char* name, const std::vector<Tensor>& inputs, BackwardFunction backward) {
  auto node = std::make_shared<Node>();
  node->name = name;
  node->sequence = next_sequence.fetch_add(1, std::memory_order_relaxed);
  node->backward = std::move(backward);
  node->inputs.reserve(inputs.size());
  for (const Tensor& input : inputs) node->inputs.push_back(gradient_edge(input));
  return node;
}

void attach(const std::shared_ptr<Node>& node, const Tensor& output) {
  const int index = static_cast<int>(node->outputs.size());
  node->outputs.push_back({output.shape(), output.dtype(), output.device(), {}});
  if (!is_floating(output.dtype())) return;
  AutogradMeta& meta = autograd_meta(output);
  meta.requires_grad = true;
  meta.grad_fn = node;
  meta.output_index = index;
}

}  // namespace

Node::~Node() {
  for (Edge& edge : inputs) let_go(std::move(edge.node));
}

void detail::AutogradMetaDeleter::operator()(AutogradMeta* meta) const noexcept {
  let_go(std::move(meta->grad_fn));
  delete meta;
}

AutogradMeta& autograd_meta(const Tensor& tensor) {
  auto& meta = tensor.impl().autograd;
  if (!meta) meta.reset(new AutogradMeta);
  return *meta;
}

Edge gradient_edge(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.requires_grad()) return {};
  AutogradMeta& meta = *tensor.impl().autograd;
  if (meta.grad_fn) return {meta.grad_fn, meta.output_index};
  std::shared_ptr<Node> accumulator = meta.accumulator.lock();
  if (!accumulator) {
    accumulator = std::make_shared<Node>();
    accumulator->name = "leaf";
    accumulator->leaf = tensor;
    accumulator->outputs.push_back({tensor.shape(), tensor.dtype(), tensor.device(), {}});
    meta.accumulator = accumulator;
  }
  return {std::move(accumulator), 0};
}

Saved::Saved(const Tensor& input) : tensor_(input), version_(input.defined() ? input.version() : 0) {}

Saved Saved::output(const Tensor& output, int index) {
  Saved saved;
  // Without the output's own history, which would hold this node in a circle. Nobody writes to it, so that it does not
  // count as a view of the output.
  std::atomic<bool>& has_views = output.impl().has_views;
  const bool before = has_views.load(std::memory_order_relaxed);
  saved.tensor_ = output.alias(output.shape(), output.strides(), output.offset());
  has_views.store(before, std::memory_order_relaxed);
  saved.version_ = output.version();
  saved.output_index_ = index;
  return saved;
}

Tensor Saved::get(Node& node) const {
  if (!tensor_.defined()) return {};
  if (tensor_.version() != version_)
    fail(ErrorCode::invalid_argument, node.name,
         "a tensor needed for its gradient, {}, was changed in place: it is at version {}, saved at version {}; "
         "write to a clone() instead",
         describe(tensor_), tensor_.version(), version_);
  if (output_index_ < 0 || !GradMode::enabled()) return tensor_;
  // Under create_graph the output has to be part of the graph again.
  Tensor output = tensor_.alias(tensor_.shape(), tensor_.strides(), tensor_.offset());
  AutogradMeta& meta = autograd_meta(output);
  meta.requires_grad = true;
  meta.grad_fn = node.shared_from_this();
  meta.output_index = output_index_;
  return output;
}

bool any_requires_grad(const std::vector<Tensor>& inputs) {
  if (!GradMode::enabled()) return false;
  for (const Tensor& input : inputs)
    if (input.requires_grad()) return true;
  return false;
}

Tensor record(const char* name, const std::vector<Tensor>& inputs, Tensor output, BackwardFunction backward) {
  if (any_requires_grad(inputs) && is_floating(output.dtype()))
    attach(make_node(name, inputs, std::move(backward)), output);
  return output;
}

std::vector<Tensor> record(const char* name, const std::vector<Tensor>& inputs, std::vector<Tensor> outputs,
                           BackwardFunction backward) {
  if (any_requires_grad(inputs)) {
    const auto node = make_node(name, inputs, std::move(backward));
    for (const Tensor& output : outputs) attach(node, output);
  }
  return outputs;
}

void record_in_place(const char* name, const std::vector<Tensor>& inputs, const Tensor& target,
                     BackwardFunction backward) {
  const auto node = make_node(name, inputs, std::move(backward));
  AutogradMeta& meta = autograd_meta(target);
  meta.retained_grad.reset();
  std::shared_ptr<Node> before = std::move(meta.grad_fn);  // node->inputs keeps it
  attach(node, target);
}

// --- Tensor's own part ------------------------------------------------------------------------------------------

bool Tensor::requires_grad() const noexcept { return impl_ && impl_->autograd && impl_->autograd->requires_grad; }

const Tensor& Tensor::requires_grad_(bool value) const {
  WEFT_CHECK(!value || is_floating(dtype()), "requires_grad_", "only floating-point tensors have gradients, got {}",
             dtype());
  WEFT_CHECK(is_leaf(), "requires_grad_", "only leaves can be changed; use detach() on a result first");
  if (value || requires_grad()) autograd_meta(*this).requires_grad = value;
  return *this;
}

bool Tensor::is_leaf() const noexcept { return !impl_ || !impl_->autograd || !impl_->autograd->grad_fn; }

Tensor Tensor::grad() const {
  const auto& meta = impl().autograd;
  if (!meta) return {};
  return meta->retained_grad ? *meta->retained_grad : meta->grad;
}

void Tensor::set_grad(Tensor grad) const {
  WEFT_CHECK(!grad.defined() || (grad.shape() == shape() && grad.dtype() == dtype()), "set_grad",
             "expected a gradient like {}, got {}", describe(*this), describe(grad));
  autograd_meta(*this).grad = std::move(grad);
}

std::shared_ptr<Node> Tensor::grad_fn() const { return impl().autograd ? impl().autograd->grad_fn : nullptr; }

Tensor Tensor::detach() const { return alias(shape(), strides(), offset()); }

namespace {

template <class List, class F>
HookHandle add_hook(std::weak_ptr<Node> owner_node, const Tensor& owner_tensor, List* list, F hook) {
  static std::atomic<uint64_t> next_id{1};
  const uint64_t id = next_id.fetch_add(1, std::memory_order_relaxed);
  list->emplace_back(id, std::move(hook));
  const bool on_node = !owner_node.expired();
  return HookHandle([=, keep = on_node ? Tensor() : owner_tensor] {
    const auto node = owner_node.lock();
    if (on_node && !node) return;  // the graph is gone, and the hook with it
    std::erase_if(*list, [id](const auto& entry) { return entry.first == id; });
  });
}

}  // namespace

HookHandle Tensor::register_hook(Hook hook) const {
  WEFT_CHECK(requires_grad(), "register_hook", "the tensor does not require a gradient");
  AutogradMeta& meta = *impl().autograd;
  if (meta.grad_fn)
    return add_hook(meta.grad_fn, *this, &meta.grad_fn->outputs[static_cast<size_t>(meta.output_index)].hooks,
                    std::move(hook));
  return add_hook({}, *this, &meta.hooks, std::move(hook));
}

HookHandle Tensor::register_post_accumulate_grad_hook(std::function<void(const Tensor&)> hook) const {
  WEFT_CHECK(requires_grad() && is_leaf(), "register_post_accumulate_grad_hook",
             "expected a leaf that requires a gradient");
  return add_hook({}, *this, &impl().autograd->post_accumulate_hooks, std::move(hook));
}

void Tensor::retain_grad() const {
  WEFT_CHECK(requires_grad(), "retain_grad", "the tensor does not require a gradient");
  if (is_leaf() || impl().autograd->retained_grad) return;
  auto slot = std::make_shared<Tensor>();
  impl().autograd->retained_grad = slot;
  register_hook([slot](const Tensor& grad) {
    *slot = slot->defined() ? slot->add_(grad) : grad.clone();
    return Tensor();
  });
}

}  // namespace weft
