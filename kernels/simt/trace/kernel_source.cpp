#include "kernels/simt/trace/kernel_source.h"

#include <algorithm>
#include <cctype>
#include <fstream>

namespace weft::trace {
namespace {

void erase_all(std::string& text, std::string_view part) {
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) text.erase(at, part.size());
}

bool is_name_part(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// "const float* __restrict__ x" -> "x"
std::string last_name(const std::string& declaration) {
  size_t end = declaration.find('=');
  if (end == std::string::npos) end = declaration.size();
  while (end > 0 && !is_name_part(declaration[end - 1])) --end;
  size_t begin = end;
  while (begin > 0 && is_name_part(declaration[begin - 1])) --begin;
  return declaration.substr(begin, end - begin);
}

}  // namespace

std::string kernel_name(const std::string& function) {
  std::string text = function;
  erase_all(text, "(anonymous namespace)::");
  erase_all(text, "weft::simt::");
  erase_all(text, "weft::");
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '<') ++depth;
    if (text[i] == '>') --depth;
    if (depth > 0) continue;
    if (text[i] == '(') return text.substr(begin, i - begin);
    if (text[i] == ' ' || text[i] == ':') begin = i + 1;  // behind the return type and namespaces
  }
  return text.substr(begin);
}

std::vector<std::string> parameter_names(const Line& definition, const std::string& kernel) {
  std::ifstream file(definition.file);
  if (!file || definition.line == 0) return {};
  std::string base = kernel.substr(0, kernel.find('<'));
  if (const size_t colon = base.rfind("::"); colon != std::string::npos) base = base.substr(colon + 2);
  // Debug information names the line of the function's name, or the first one of its declaration.
  std::string text, line;
  for (int number = 1; std::getline(file, line) && number < definition.line + 40; ++number)
    if (number >= definition.line - 3) text += line + '\n';
  size_t at = text.find(base + "(");
  if (at == std::string::npos) return {};
  std::vector<std::string> names;
  std::string declaration;
  int depth = 0;
  for (at += base.size(); at < text.size(); ++at) {
    const char c = text[at];
    if (c == '(' || c == '<' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == '>' || c == ']' || c == '}') --depth;
    const bool ends = depth == 0;
    if (ends || (depth == 1 && c == ',')) {
      if (std::string name = last_name(declaration); !name.empty()) names.push_back(std::move(name));
      declaration.clear();
      if (ends) return names;
    } else if (depth > 1 || c != '(') {
      declaration += c;
    }
  }
  return {};
}

const Frame* kernel_frame(const std::vector<Frame>& frames) {
  const auto is_language = [](const Frame& frame) {
    const std::string& file = frame.at.file;
    for (const std::string_view part : {"/kernels/simt/emulator/", "/kernels/simt/emulator_side.h",
                                        "/kernels/simt/pack.h", "/kernels/base/half.h", "/usr/"})
      if (file.find(part) != std::string::npos) return true;
    return false;
  };
  const auto found = std::find_if_not(frames.begin(), frames.end(), is_language);
  if (found != frames.end()) return &*found;
  return frames.empty() ? nullptr : &frames.front();
}

}  // namespace weft::trace
