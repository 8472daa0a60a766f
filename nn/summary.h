// What a model consists of, as a table.
//
//   fmt::print("{}", nn::summary(net));
//
//   module  type    parameters               count  bytes  trainable
//   (self)  Mlp                                  0      0  -
//   fc1     Linear  weight [3, 4], bias [3]     15     60  yes
//   fc2     Linear  weight [2, 3], bias [2]      8     32  no
//   23 parameters (92 bytes), 15 trainable, 8 frozen
#pragma once
#include <string>
#include <vector>

#include "nn/module.h"

namespace weft::nn {

// A module by itself, without those below it.
struct SummaryRow {
  std::string name{};        // dotted; empty for the model itself
  std::string type{};        // its class
  std::string parameters{};  // names and shapes; "= wte.weight" behind one that is tied to an earlier one
  int64_t count = 0;         // elements of its parameters; a tied one counts where it comes first
  int64_t bytes = 0;
  int64_t trainable = 0;  // elements of parameters that require a gradient
};

struct ModelSummary {
  std::vector<SummaryRow> rows;  // as named_modules()
  int64_t count = 0;
  int64_t bytes = 0;
  int64_t trainable = 0;
  int64_t buffer_bytes = 0;
};

ModelSummary summarize(ModuleBase& model);
// The table as text. trainable: "yes", "no", "partly", or "-" without parameters.
std::string summary(ModuleBase& model);

}  // namespace weft::nn
