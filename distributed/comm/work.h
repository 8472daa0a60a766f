// Work: an asynchronous operation of a process group.
//
//   Work work = group.all_reduce(gradient);
//   …                                        // the tensor belongs to the operation meanwhile
//   work.wait();                             // throws weft::Error: mismatch, timeout, peer_lost
//
// A handle that may be copied, dropped (the operation runs all the same), and waited for more than once.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>

namespace weft {

namespace comm {
class Group;
struct Task;
}  // namespace comm

class Work {
 public:
  Work() = default;  // done
  Work(std::shared_ptr<comm::Task> task, std::shared_ptr<comm::Group> group)
      : task_(std::move(task)), group_(std::move(group)) {}

  // Returns when this rank's part is done and its tensors may be used again. Throws the operation's error, every time.
  void wait() const;
  // Whether wait() would return (or throw) at once.
  bool done() const;
  // The how-manieth operation of its group, the same number on every rank; sends and receives are counted apart.
  uint64_t sequence() const;
  // "all_reduce"
  std::string_view name() const;

 private:
  std::shared_ptr<comm::Task> task_;
  std::shared_ptr<comm::Group> group_;
};

}  // namespace weft
