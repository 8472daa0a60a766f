#include "distributed/comm/process_group.h"

#include <mutex>
#include <thread>

#include "autograd/grad_mode.h"
#include "distributed/comm/backends/local/local.h"
#include "distributed/comm/backends/shm/shm.h"
#include "distributed/comm/group.h"
#include "distributed/launch/environment.h"
#include "tensor/device.h"
#include "tensor/factory.h"

namespace weft {

using comm::OpKind;

namespace {

void check_tensor(const Tensor& x, std::string_view op, std::string_view role) {
  WEFT_CHECK(x.defined(), op, "the {} is an undefined tensor", role);
}

void check_parts(const Tensor& whole, const Tensor& part, int size, std::string_view op, std::string_view whole_role,
                 std::string_view part_role) {
  WEFT_CHECK(whole.dtype() == part.dtype(), op, "{} {} and {} {} differ in dtype", whole_role, describe(whole),
             part_role, describe(part));
  WEFT_CHECK(whole.numel() == part.numel() * size, op, "{} {} and {} {} on {} ranks; expected {} elements in the {}",
             whole_role, describe(whole), part_role, describe(part), size, part.numel() * size, whole_role);
}

// The tensor's elements in order, in its own memory or a copy of it.
Tensor dense(const Tensor& x) {
  const NoGrad guard;
  return x.is_contiguous() ? x : x.contiguous();
}

void* address(const Tensor& x) { return x.numel() == 0 ? nullptr : x.data(); }

}  // namespace

// --- making one ------------------------------------------------------------------------------------------------

ProcessGroup ProcessGroup::from_environment(ProcessGroupOptions options) {
  const LaunchEnvironment environment = LaunchEnvironment::from_environment();
  if (environment.world_size == 1) return threads(1, std::move(options))[0];
  WEFT_CHECK(
      environment.local_world_size == environment.world_size, "process_group",
      "{} of {} ranks are on this host (LOCAL_WORLD_SIZE, WORLD_SIZE); the shm backend joins processes of one host",
      environment.local_world_size, environment.world_size);
  return shm(connect_store(environment), environment.rank, environment.world_size, std::move(options));
}

std::vector<ProcessGroup> ProcessGroup::threads(int size, ProcessGroupOptions options) {
  WEFT_CHECK(size >= 1 && size <= 1024, "process_group", "expected 1 to 1024 ranks, got {}", size);
  std::vector<ProcessGroup> groups;
  for (std::unique_ptr<comm::Backend>& backend : comm::make_local_backends(size, options.name))
    groups.push_back(ProcessGroup(std::make_shared<comm::Group>(std::move(backend), nullptr, options.timeout)));
  return groups;
}

ProcessGroup ProcessGroup::shm(std::shared_ptr<Store> store, int rank, int size, ProcessGroupOptions options) {
  WEFT_CHECK(size >= 1 && size <= 1024 && rank >= 0 && rank < size, "process_group", "rank {} of {} ranks", rank, size);
  if (size == 1) return threads(1, std::move(options))[0];
  // A process may make several groups from one store: the how-manieth this is, is the same on every rank.
  const int64_t number = store->add(fmt::format("groups/{}", rank), 1);
  PrefixStore own(fmt::format("group/{}", number), store);
  std::unique_ptr<comm::Backend> backend = comm::make_shm_backend(own, rank, size, options.name, options.timeout);
  return ProcessGroup(std::make_shared<comm::Group>(std::move(backend), std::move(store), options.timeout));
}

// --- what it is ------------------------------------------------------------------------------------------------

comm::Group& ProcessGroup::group() const {
  WEFT_CHECK(group_, "process_group", "the process group is undefined");
  return *group_;
}
int ProcessGroup::rank() const { return group().rank(); }
int ProcessGroup::size() const { return group().size(); }
const std::string& ProcessGroup::name() const { return group().backend().group_name(); }
std::string_view ProcessGroup::backend() const { return group().backend().backend_name(); }
std::chrono::milliseconds ProcessGroup::timeout() const { return group().timeout(); }
const std::shared_ptr<Store>& ProcessGroup::store() const { return group().store(); }

// --- collectives -----------------------------------------------------------------------------------------------

// `input` is read, `output` written; either may be null. When they are the same tensor the operation is in place.
Work ProcessGroup::submit(OpKind kind, const Tensor* input, const Tensor* output, int64_t count, int peer,
                          Reduce reduce, CallSite site) const {
  comm::Operation operation{.kind = kind, .reduce = reduce, .peer = peer, .count = count, .site = site};
  std::shared_ptr<Event> ready;
  if (input || output) {
    const Tensor& any = input ? *input : *output;
    operation.dtype = any.dtype();
    operation.device = any.device();
    const std::string_view op = comm::name(kind);
    WEFT_CHECK(!input || !output || input->device() == output->device(), op, "input and output live on {} and {}",
               weft::name(input->device()), weft::name(output->device()));
    WEFT_CHECK(group().backend().reaches(any.device()), op,
               "the tensor lives on {}, which a group of backend {} does not reach{}", weft::name(any.device()),
               backend(), any.device().type == DeviceType::cuda ? "; make one by with_device" : "");
  }
  Tensor source = input ? dense(*input) : Tensor();
  Tensor target;
  if (output == input) {
    target = source;
  } else if (output) {
    target = output->is_contiguous() ? *output
                                     : empty(output->shape(), {.dtype = output->dtype(), .device = output->device()});
  }
  if (operation.device.type == DeviceType::cuda) {
    ready = std::make_shared<Event>(operation.device);
    ready->record(current_stream(operation.device));
    operation.ready = ready.get();
  }
  if (input) operation.input = address(source);
  if (output) operation.output = address(target);
  Tensor copy_to;  // the caller's tensor, when the result is in a copy
  if (output && !target.is(*output)) copy_to = *output;
  if (output) output->storage()->bump_version();
  return group().submit(operation, [source = std::move(source), target = std::move(target), copy_to, ready] {
    if (!copy_to.defined()) return;
    const NoGrad guard;
    copy_to.detach().copy_(target);
    if (copy_to.device().type == DeviceType::cuda) synchronize(copy_to.device());
  });
}

Work ProcessGroup::all_reduce(const Tensor& x, Reduce reduce, CallSite site) const {
  check_tensor(x, "all_reduce", "tensor");
  return submit(OpKind::all_reduce, &x, &x, x.numel(), -1, reduce, site);
}

Work ProcessGroup::reduce(const Tensor& x, int root, Reduce reduce, CallSite site) const {
  check_tensor(x, "reduce", "tensor");
  return submit(OpKind::reduce, &x, root == rank() ? &x : nullptr, x.numel(), root, reduce, site);
}

Work ProcessGroup::reduce_scatter(const Tensor& output, const Tensor& input, Reduce reduce, CallSite site) const {
  check_tensor(output, "reduce_scatter", "output");
  check_tensor(input, "reduce_scatter", "input");
  check_parts(input, output, size(), "reduce_scatter", "input", "output");
  return submit(OpKind::reduce_scatter, &input, &output, output.numel(), -1, reduce, site);
}

Work ProcessGroup::all_gather(const Tensor& output, const Tensor& input, CallSite site) const {
  check_tensor(output, "all_gather", "output");
  check_tensor(input, "all_gather", "input");
  check_parts(output, input, size(), "all_gather", "output", "input");
  return submit(OpKind::all_gather, &input, &output, input.numel(), -1, Reduce::sum, site);
}

Tensor ProcessGroup::all_gather(const Tensor& input, CallSite site) const {
  check_tensor(input, "all_gather", "input");
  Shape shape = input.shape();
  if (shape.empty()) shape.push_back(1);
  shape[0] *= size();
  Tensor output = empty(shape, {.dtype = input.dtype(), .device = input.device()});
  all_gather(output, input, site).wait();
  return output;
}

Work ProcessGroup::gather(const Tensor& output, const Tensor& input, int root, CallSite site) const {
  check_tensor(input, "gather", "input");
  const bool is_root = root == rank();
  if (is_root) {
    check_tensor(output, "gather", "output");
    check_parts(output, input, size(), "gather", "output", "input");
  }
  return submit(OpKind::gather, &input, is_root ? &output : nullptr, input.numel(), root, Reduce::sum, site);
}

Work ProcessGroup::scatter(const Tensor& output, const Tensor& input, int root, CallSite site) const {
  check_tensor(output, "scatter", "output");
  const bool is_root = root == rank();
  if (is_root) {
    check_tensor(input, "scatter", "input");
    check_parts(input, output, size(), "scatter", "input", "output");
  }
  return submit(OpKind::scatter, is_root ? &input : nullptr, &output, output.numel(), root, Reduce::sum, site);
}

Work ProcessGroup::broadcast(const Tensor& x, int root, CallSite site) const {
  check_tensor(x, "broadcast", "tensor");
  const bool is_root = root == rank();
  return submit(OpKind::broadcast, is_root ? &x : nullptr, is_root ? nullptr : &x, x.numel(), root, Reduce::sum, site);
}

Work ProcessGroup::all_to_all(const Tensor& output, const Tensor& input, CallSite site) const {
  check_tensor(output, "all_to_all", "output");
  check_tensor(input, "all_to_all", "input");
  WEFT_CHECK(output.dtype() == input.dtype() && output.numel() == input.numel(), "all_to_all",
             "output {} and input {} must have one dtype and size", describe(output), describe(input));
  WEFT_CHECK(input.numel() % size() == 0, "all_to_all", "{} elements do not divide into {} equal parts", input.numel(),
             size());
  if (size() > 1 && input.numel() > 0) {
    const auto* from = static_cast<const std::byte*>(input.data());
    const auto* to = static_cast<const std::byte*>(output.data());
    WEFT_CHECK(!input.is_contiguous() || !output.is_contiguous() || from + input.nbytes() <= to ||
                   to + output.nbytes() <= from,
               "all_to_all", "output and input overlap");
  }
  return submit(OpKind::all_to_all, &input, &output, input.numel() / size(), -1, Reduce::sum, site);
}

Work ProcessGroup::barrier(CallSite site) const {
  return submit(OpKind::barrier, nullptr, nullptr, 0, -1, Reduce::sum, site);
}

Work ProcessGroup::send(const Tensor& x, int to, CallSite site) const {
  check_tensor(x, "send", "tensor");
  return submit(OpKind::send, &x, nullptr, x.numel(), to, Reduce::sum, site);
}

Work ProcessGroup::recv(const Tensor& x, int from, CallSite site) const {
  check_tensor(x, "recv", "tensor");
  return submit(OpKind::recv, nullptr, &x, x.numel(), from, Reduce::sum, site);
}

std::vector<std::string> ProcessGroup::all_gather_bytes(const std::string& bytes, CallSite site) const {
  return group().all_gather_bytes(bytes, site);
}

std::string ProcessGroup::broadcast_bytes(const std::string& bytes, int root, CallSite site) const {
  return group().broadcast_bytes(bytes, root, site);
}

Tensor ProcessGroup::empty_shared(const Shape& shape, DType dtype, CallSite site) const {
  const int64_t bytes = shape.numel() * size_of(dtype);
  const std::shared_ptr<void> memory = group().allocate_shared(bytes, site);
  if (!memory) return empty(shape, dtype);
  return from_blob(memory.get(), shape, dtype, [memory] {});
}

ProcessGroup ProcessGroup::split(int color, int key, std::string name, CallSite site) const {
  return ProcessGroup(group().split(color, key, std::move(name), site));
}

ProcessGroup ProcessGroup::with_device(Device device, CallSite site) const {
  return ProcessGroup(group().with_device(device, site));
}

ProcessGroup ProcessGroup::subgroup(const std::vector<int>& ranks, std::string name, CallSite site) const {
  return ProcessGroup(group().subgroup(ranks, std::move(name), site));
}

void ProcessGroup::abort(std::string_view reason) const {
  group().backend().abort(ErrorCode::peer_lost, fmt::format("rank {} aborted the group: {}", rank(), reason));
}

// --- ranks as threads --------------------------------------------------------------------------------------------

void run_ranks(int size, const std::function<void(ProcessGroup)>& fn, ProcessGroupOptions options) {
  std::vector<ProcessGroup> groups = ProcessGroup::threads(size, std::move(options));
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> ranks;
  for (ProcessGroup& own : groups) {
    ranks.emplace_back([&fn, &mutex, &first, group = std::move(own)]() mutable {
      std::exception_ptr error;
      std::string reason;
      try {
        fn(group);
      } catch (const std::exception& exception) {
        error = std::current_exception();
        reason = exception.what();
      } catch (...) {
        error = std::current_exception();
        reason = "an exception of unknown type";
      }
      if (error) {
        {
          const std::lock_guard lock(mutex);
          if (!first) first = error;
        }
        group.abort(reason);
      }
      group = ProcessGroup();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace weft
