#include "kernels/simt/trace/arithmetic.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "kernels/simt/trace/binutils.h"
#include "kernels/simt/trace/disassembly.h"

namespace weft::trace {

void BlockCounts::grow() {
  std::vector<Entry> old(std::max<size_t>(64, 2 * table_.size()));
  old.swap(table_);
  for (const Entry& entry : old)
    if (entry.address != 0) find(entry.address) = entry;
}

std::vector<BlockCounts::Entry> BlockCounts::sorted() const {
  std::vector<Entry> entries;
  std::copy_if(table_.begin(), table_.end(), std::back_inserter(entries),
               [](const Entry& entry) { return entry.address != 0; });
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.address < b.address; });
  return entries;
}

namespace {

// The instructions of one basic block that compute, with the operations of each.
using Block = std::vector<std::pair<uintptr_t, int>>;

constexpr int kCallBytes = 5;  // call with a distance of 32 bits

class Library {
 public:
  explicit Library(std::string path) : code_(std::move(path)) {}

  void prefetch(const std::vector<uintptr_t>& returns) {
    std::vector<uintptr_t> calls;
    for (const uintptr_t address : returns)
      if (!blocks_.contains(address)) calls.push_back(address - kCallBytes);
    code_.prefetch(calls);
  }

  // Null: the code cannot be read.
  const Block* block(uintptr_t begin) {
    const auto [found, is_new] = blocks_.try_emplace(begin);
    if (is_new) {
      const Instruction* call = code_.at(begin - kCallBytes);
      if (!call) {
        blocks_.erase(found);
        return nullptr;
      }
      // A block at the end of a function may jump to the counting function instead; nothing follows in it then, and the
      // address is one in the function's caller.
      if (call->begins_block && call->next == begin) collect(begin, found->second);
    }
    return &found->second;
  }

 private:
  struct Path {
    int operations = 0;
    Block instructions;
  };
  static constexpr int kNoPath = std::numeric_limits<int>::max();

  void collect(uintptr_t begin, Block& block) {
    paths_.clear();
    block = walk(begin).instructions;
  }

  // What runs from `address` on until the next block begins. A block of the compiler's may itself be compiled to
  // branches: a conversion of a large unsigned number halves it first and doubles it behind. Arithmetic that the
  // source asks for is on either way, so the way with less is all of it.
  const Path& walk(uintptr_t address) {
    const auto [found, is_new] = paths_.try_emplace(address);
    Path& path = found->second;
    if (!is_new) return path;
    path.operations = kNoPath;  // for a way that leads back here
    int count = 0;
    Block own;
    for (;;) {
      const Instruction* instruction = code_.at(address);
      if (!instruction || instruction->begins_block) break;
      if (instruction->operations > 0) {
        own.emplace_back(address, instruction->operations);
        count += instruction->operations;
      }
      if (instruction->flow == Instruction::Flow::stop) break;
      if (instruction->flow == Instruction::Flow::next) {
        address = instruction->next;
        continue;
      }
      const Instruction taken = *instruction;
      const Path* rest = &walk(taken.target);
      if (taken.flow == Instruction::Flow::branch) {
        const Path& other = walk(taken.next);
        if (other.operations < rest->operations) rest = &other;
      }
      if (rest->operations != kNoPath) {
        count += rest->operations;
        own.insert(own.end(), rest->instructions.begin(), rest->instructions.end());
      }
      break;
    }
    path.operations = count;
    path.instructions = std::move(own);
    return path;
  }

  Disassembly code_;
  std::unordered_map<uintptr_t, Block> blocks_;
  std::map<uintptr_t, Path> paths_;  // of the block in work
};

}  // namespace

std::optional<std::vector<Operations>> operations(const BlockCounts& blocks) {
  static auto* const libraries = new std::map<std::string, std::unique_ptr<Library>>;  // used until the very end
  const std::vector<BlockCounts::Entry> entries = blocks.sorted();
  std::map<uintptr_t, uint64_t> counts;  // by instruction
  for (size_t first = 0; first < entries.size();) {
    const LoadedLibrary loaded = library_of(reinterpret_cast<const void*>(entries[first].address));
    if (loaded.path.empty()) return std::nullopt;
    std::vector<uintptr_t> addresses;
    size_t last = first;
    for (; last < entries.size(); ++last) {
      if (library_base(reinterpret_cast<const void*>(entries[last].address)) != loaded.base) break;
      addresses.push_back(entries[last].address - loaded.base);
    }
    auto& library = (*libraries)[loaded.path];
    if (!library) library = std::make_unique<Library>(loaded.path);
    library->prefetch(addresses);
    for (size_t i = first; i < last; ++i) {
      const Block* block = library->block(addresses[i - first]);
      if (!block) return std::nullopt;
      for (const auto& [instruction, operations] : *block)
        counts[instruction + loaded.base] += entries[i].count * static_cast<uint64_t>(operations);
    }
    first = last;
  }
  std::vector<Operations> result;
  result.reserve(counts.size());
  for (const auto& [address, count] : counts) result.push_back({reinterpret_cast<const void*>(address), count});
  return result;
}

}  // namespace weft::trace
