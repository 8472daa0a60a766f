#include "nn/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

namespace weft::nn {
namespace {

std::string_view trainable_text(const SummaryRow& row) {
  if (row.count == 0) return "-";
  if (row.trainable == 0) return "no";
  return row.trainable == row.count ? "yes" : "partly";
}

}  // namespace

ModelSummary summarize(ModuleBase& model) {
  ModelSummary result;
  std::map<const TensorImpl*, std::string> seen;  // looked up, never walked through
  for (const auto& [path, module] : model.named_modules()) {
    SummaryRow row{.name = path, .type = module->type_name()};
    for (const auto& [name, parameter] : module->direct_parameters()) {
      row.parameters += fmt::format("{}{} {}", row.parameters.empty() ? "" : ", ", name, parameter.shape());
      const auto [first, is_new] = seen.emplace(&parameter.impl(), path.empty() ? name : path + "." + name);
      if (!is_new) {
        row.parameters += " = " + first->second;
        continue;
      }
      row.count += parameter.numel();
      row.bytes += parameter.nbytes();
      if (parameter.requires_grad()) row.trainable += parameter.numel();
    }
    result.count += row.count;
    result.bytes += row.bytes;
    result.trainable += row.trainable;
    result.rows.push_back(std::move(row));
  }
  for (const auto& [name, buffer] : model.named_buffers()) result.buffer_bytes += buffer.nbytes();
  return result;
}

std::string summary(ModuleBase& model) {
  const ModelSummary summary = summarize(model);
  using Line = std::array<std::string, 6>;
  std::vector<Line> lines = {{"module", "type", "parameters", "count", "bytes", "trainable"}};
  for (const SummaryRow& row : summary.rows)
    lines.push_back({row.name.empty() ? "(self)" : row.name, row.type, row.parameters, std::to_string(row.count),
                     std::to_string(row.bytes), std::string(trainable_text(row))});
  std::array<size_t, 6> width{};
  for (const Line& line : lines)
    for (size_t i = 0; i < line.size(); ++i) width[i] = std::max(width[i], line[i].size());
  std::string text;
  for (const Line& line : lines)
    text += fmt::format("{:<{}}  {:<{}}  {:<{}}  {:>{}}  {:>{}}  {}\n", line[0], width[0], line[1], width[1], line[2],
                        width[2], line[3], width[3], line[4], width[4], line[5]);
  text += fmt::format("{} parameters ({} bytes), {} trainable, {} frozen", summary.count, summary.bytes,
                      summary.trainable, summary.count - summary.trainable);
  if (summary.buffer_bytes > 0) text += fmt::format("; {} bytes of buffers", summary.buffer_bytes);
  return text + "\n";
}

}  // namespace weft::nn
