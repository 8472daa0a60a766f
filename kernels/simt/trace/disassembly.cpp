#include "kernels/simt/trace/disassembly.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "kernels/simt/trace/binutils.h"

namespace weft::trace {
namespace {

bool remove_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// The number of numbers that "ss", "pd" … works on; 0 if it is none of these.
int lanes(std::string_view suffix, std::string_view operands) {
  if (suffix == "ss" || suffix == "sd") return 1;
  if (suffix != "ps" && suffix != "pd") return 0;
  const int bytes = operands.find("%zmm") != std::string_view::npos   ? 64
                    : operands.find("%ymm") != std::string_view::npos ? 32
                                                                      : 16;
  return bytes / (suffix == "ps" ? 4 : 8);
}

// Operations of an instruction of SSE, AVX or FMA.
int operations_of(std::string_view mnemonic, std::string_view operands) {
  remove_prefix(mnemonic, "v");
  for (const std::string_view fused : {"fmadd", "fmsub", "fnmadd", "fnmsub"})
    if (remove_prefix(mnemonic, fused)) return mnemonic.size() == 5 ? 2 * lanes(mnemonic.substr(3), operands) : 0;
  for (const std::string_view simple : {"add", "sub", "mul", "div", "sqrt"})
    if (remove_prefix(mnemonic, simple)) return lanes(mnemonic, operands);
  return 0;
}

// Operations that a call of the mathematical library counts for.
int operations_of_call(std::string_view name) {
  name = name.substr(0, name.find('@'));
  constexpr std::string_view functions[] = {
      "exp",  "exp2",  "expm1", "log",  "log2", "log10", "log1p",  "sin",   "cos",    "tan",      "asin",
      "acos", "atan",  "atan2", "sinh", "cosh", "tanh",  "asinh",  "acosh", "pow",    "atanh",    "sqrt",
      "cbrt", "hypot", "erf",   "erfc", "fmod", "fdim",  "tgamma", "ldexp", "lgamma", "lgamma_r", "remainder"};
  const auto is = [&](std::string_view function) {
    return name == function || (name.size() == function.size() + 1 && name.starts_with(function) && name.back() == 'f');
  };
  if (is("fma")) return 2;
  // The float one of a reentrant function has its letter in the middle.
  return name == "lgammaf_r" || std::any_of(std::begin(functions), std::end(functions), is) ? 1 : 0;
}

// "4f20 <expf@plt>" -> 0x4f20, "expf@plt"
struct Target {
  uintptr_t address = 0;
  std::string_view name;
};
Target target_of(std::string_view operands) {
  Target target;
  std::from_chars(operands.data(), operands.data() + operands.size(), target.address, 16);
  const size_t open = operands.find('<');
  if (open != std::string_view::npos) target.name = operands.substr(open + 1, operands.find('>') - open - 1);
  return target;
}

Instruction parse(std::string_view text) {
  const auto word = [&] {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view first = text.substr(0, end);
    text.remove_prefix(std::min(text.find_first_not_of(' ', end), text.size()));
    return first;
  };
  std::string_view mnemonic = word();
  while (mnemonic == "bnd" || mnemonic == "notrack" || mnemonic == "lock" || mnemonic.starts_with("rep") ||
         mnemonic.starts_with("data16") || mnemonic == "cs")
    mnemonic = word();
  Instruction instruction;
  const auto [address, name] = target_of(text);
  if (mnemonic.starts_with("call")) {
    instruction.begins_block = name.starts_with("__sanitizer_cov_trace_pc");
    instruction.operations = operations_of_call(name);
  } else if (mnemonic.starts_with("jmp")) {
    // An indirect one goes to the blocks of a switch, which begin with a call of their own.
    instruction.operations = operations_of_call(name);
    const bool leaves = text.starts_with('*') || name.find("@plt") != std::string_view::npos;
    instruction.flow = leaves ? Instruction::Flow::stop : Instruction::Flow::jump;
    instruction.target = address;
  } else if (mnemonic.starts_with('j')) {
    instruction.flow = Instruction::Flow::branch;
    instruction.target = address;
  } else if (mnemonic.starts_with("ret") || mnemonic == "ud2" || mnemonic == "hlt" || mnemonic == "(bad)") {
    instruction.flow = Instruction::Flow::stop;
  } else {
    instruction.operations = operations_of(mnemonic, text);
  }
  return instruction;
}

constexpr uintptr_t kReach = 4096;  // read behind an address at a time
constexpr size_t kMaxRuns = 32;     // of objdump, each of which reads the library's symbols

}  // namespace

void Disassembly::prefetch(const std::vector<uintptr_t>& addresses) {
  struct Range {
    uintptr_t begin, end;
  };
  std::vector<Range> ranges;
  for (uintptr_t gap = 4 * kReach;; gap *= 4) {
    ranges.clear();
    for (const uintptr_t address : addresses) {
      if (instructions_.contains(address)) continue;
      if (!ranges.empty() && address < ranges.back().end + gap)
        ranges.back().end = address + kReach;
      else
        ranges.push_back({address, address + kReach});
    }
    if (ranges.size() <= kMaxRuns) break;
  }
  for (const Range& range : ranges) read(range.begin, range.end);
}

const Instruction* Disassembly::at(uintptr_t address) {
  auto found = instructions_.find(address);
  if (found == instructions_.end()) {
    read(address, address + kReach);
    found = instructions_.find(address);
  }
  return found == instructions_.end() ? nullptr : &found->second;
}

void Disassembly::read(uintptr_t begin, uintptr_t end) {
#ifdef __x86_64__
  const std::string output =
      run_tool({"objdump", "-d", "-w", "--no-show-raw-insn", fmt::format("--start-address={:#x}", begin),
                fmt::format("--stop-address={:#x}", end), path_});
  // "    4f20:\tmulss  (%r15),%xmm4". The last one of a range may be cut short, and is left for the next.
  std::string_view rest = output;
  uintptr_t last = 0;
  std::string_view last_text;
  while (!rest.empty()) {
    const size_t line_end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, line_end);
    rest.remove_prefix(std::min(line_end + 1, rest.size()));
    const size_t colon = line.find(":\t");
    if (!line.starts_with(' ') || colon == std::string_view::npos) continue;
    line.remove_prefix(line.find_first_not_of(' '));
    uintptr_t address = 0;
    const auto [digits_end, error] = std::from_chars(line.data(), line.data() + line.size(), address, 16);
    if (error != std::errc() || !std::string_view(digits_end, 2).starts_with(":\t")) continue;
    if (!last_text.empty()) {
      Instruction instruction = parse(last_text);
      instruction.next = address;
      instructions_.emplace(last, instruction);
    }
    last = address;
    last_text = line.substr(static_cast<size_t>(digits_end - line.data()) + 2);
  }
#else
  (void)begin;
  (void)end;
#endif
}

}  // namespace weft::trace
