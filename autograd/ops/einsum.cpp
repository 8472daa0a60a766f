// Einsum in four steps: read the letters; reduce each operand to the letters that matter beyond it; contract pairs, the
// cheapest first; put the dimensions of what is left in order.
#include "autograd/ops/einsum.h"

#include <algorithm>
#include <limits>
#include <map>

#include "autograd/ops/common.h"
#include "autograd/ops/ops.h"

namespace weft {
namespace {

constexpr const char* kName = "einsum";

// A dimension's name: a letter as its code, dimension k of the ellipses, counted from the last, as -1 - k. In order,
// those of the ellipses come first, then capitals, then small letters.
using Label = int;
using Labels = std::vector<Label>;
constexpr Label ellipsis_label(int k) { return -1 - k; }

bool contains(const Labels& labels, Label label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

struct Factor {
  Tensor tensor;
  Labels labels;  // of its dimensions
};

// "...ab" for a tensor with `ellipsis_dims` dimensions in place of the dots.
Labels read_labels(const std::string& equation, std::string_view term, int ellipsis_dims) {
  Labels labels;
  bool seen = false;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term[i] == '.') {
      WEFT_CHECK(!seen && term.substr(i, 3) == "...", kName,
                 "\"{}\": dots stand in groups of three, one group an operand", equation);
      for (int k = ellipsis_dims - 1; k >= 0; --k) labels.push_back(ellipsis_label(k));
      seen = true;
      i += 2;
      continue;
    }
    const char c = term[i];
    WEFT_CHECK((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), kName, "\"{}\": unexpected character '{}'", equation,
               c);
    labels.push_back(c);
  }
  return labels;
}

struct Equation {
  std::vector<std::string> terms;
  std::string result;
  bool explicit_result = false;
};

Equation read_equation(const std::string& text) {
  std::string plain;
  for (const char c : text)
    if (c != ' ') plain += c;
  Equation equation;
  const size_t arrow = plain.find("->");
  if (arrow != std::string::npos) {
    equation.explicit_result = true;
    equation.result = plain.substr(arrow + 2);
  }
  std::string left = plain.substr(0, arrow);
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = left.find(',', begin);
    equation.terms.push_back(left.substr(begin, end == std::string::npos ? end : end - begin));
  }
  return equation;
}

// Which letters occur how often, and how large they are.
struct LabelFacts {
  int count = 0;
  int64_t size = 1;
};

Labels labels_of_result(const std::string& text, const Equation& equation, int ellipsis_dims,
                        const std::map<Label, LabelFacts>& facts) {
  if (!equation.explicit_result) {
    Labels labels;
    for (const auto& [label, fact] : facts)
      if (label < 0 || fact.count == 1) labels.push_back(label);
    return labels;
  }
  const Labels labels = read_labels(text, equation.result, ellipsis_dims);
  for (size_t i = 0; i < labels.size(); ++i) {
    WEFT_CHECK(facts.count(labels[i]), kName, "\"{}\": the result has the letter '{}', which no operand has", text,
               static_cast<char>(labels[i]));
    WEFT_CHECK(std::find(labels.begin(), labels.begin() + static_cast<std::ptrdiff_t>(i), labels[i]) ==
                   labels.begin() + static_cast<std::ptrdiff_t>(i),
               kName, "\"{}\": the letter '{}' stands twice in the result", text, static_cast<char>(labels[i]));
  }
  return labels;
}

// Letters that occur twice become one: the diagonal, whose dimension comes last.
void take_diagonals(Factor& operand) {
  for (size_t i = 0; i < operand.labels.size(); ++i) {
    const auto again =
        std::find(operand.labels.begin() + static_cast<std::ptrdiff_t>(i) + 1, operand.labels.end(), operand.labels[i]);
    if (again == operand.labels.end()) continue;
    const auto j = static_cast<int64_t>(again - operand.labels.begin());
    operand.tensor = diagonal(operand.tensor, 0, static_cast<int64_t>(i), j);
    const Label label = operand.labels[i];
    operand.labels.erase(again);
    operand.labels.erase(operand.labels.begin() + static_cast<std::ptrdiff_t>(i));
    operand.labels.push_back(label);
    --i;  // another letter stands here now
  }
}

// Sums over the letters that are not `kept`, and drops those of size 1 that are larger elsewhere: they broadcast.
void reduce_to(Factor& operand, const Labels& kept, const std::map<Label, LabelFacts>& facts) {
  Shape summed, shape;
  Labels left;
  for (size_t d = 0; d < operand.labels.size(); ++d) {
    const Label label = operand.labels[d];
    const int64_t size = operand.tensor.size(static_cast<int64_t>(d));
    if (size == 1 && (!contains(kept, label) || facts.at(label).size != 1)) continue;  // a view does it
    if (!contains(kept, label))
      summed.push_back(static_cast<int64_t>(d));
    else
      left.push_back(label);
  }
  Tensor x = summed.empty() ? operand.tensor : sum(operand.tensor, summed, /*keepdim=*/true);
  for (size_t d = 0; d < operand.labels.size(); ++d)
    if (contains(left, operand.labels[d])) shape.push_back(x.size(static_cast<int64_t>(d)));
  operand = {x.shape() == shape ? x : reshape(x, shape), left};
}

// The dimensions in the order of `labels`, all of which the operand has.
Tensor ordered(const Factor& operand, const Labels& labels) {
  Shape order;
  for (const Label label : labels)
    order.push_back(std::find(operand.labels.begin(), operand.labels.end(), label) - operand.labels.begin());
  return labels == operand.labels ? operand.tensor : permute(operand.tensor, order);
}

// The letters of a pair by what becomes of them.
struct PairPlan {
  Labels batch;        // in both, and needed later
  Labels contracted;   // in both, summed over now
  Labels left, right;  // in one
};

PairPlan plan_pair(const Labels& a, const Labels& b, const Labels& needed) {
  PairPlan plan;
  for (const Label label : a)
    (!contains(b, label) ? plan.left : contains(needed, label) ? plan.batch : plan.contracted).push_back(label);
  for (const Label label : b)
    if (!contains(a, label)) plan.right.push_back(label);
  return plan;
}

Labels joined(const Labels& a, const Labels& b, const Labels& c = {}) {
  Labels all = a;
  all.insert(all.end(), b.begin(), b.end());
  all.insert(all.end(), c.begin(), c.end());
  return all;
}

int64_t size_of_labels(const Labels& labels, const std::map<Label, LabelFacts>& facts) {
  int64_t size = 1;
  for (const Label label : labels) size *= facts.at(label).size;
  return size;
}

Factor contract(const Factor& a, const Factor& b, const Labels& needed, const std::map<Label, LabelFacts>& facts) {
  const PairPlan plan = plan_pair(a.labels, b.labels, needed);
  const Labels result = joined(plan.batch, plan.left, plan.right);
  Shape shape;
  for (const Label label : result) shape.push_back(facts.at(label).size);
  const int64_t batch = size_of_labels(plan.batch, facts), inner = size_of_labels(plan.contracted, facts);
  const int64_t rows = size_of_labels(plan.left, facts), columns = size_of_labels(plan.right, facts);
  const Tensor x = ordered(a, joined(plan.batch, plan.left, plan.contracted)).reshape({batch, rows, inner});
  const Tensor y = ordered(b, joined(plan.batch, plan.right, plan.contracted)).reshape({batch, columns, inner});
  Tensor product;
  if (plan.contracted.empty())
    product = x * y.transpose(1, 2);
  else if (!is_floating(x.dtype()))
    product = sum(x.unsqueeze(2) * y.unsqueeze(1), {3});
  else if (batch == 1)
    product = matmul(x.select(0, 0), y.select(0, 0).t());
  else
    product = matmul(x, y.transpose(1, 2));
  return {product.reshape(shape), result};
}

// The letters that are still needed when operands `i` and `j` have become one.
Labels needed_beyond(const std::vector<Factor>& operands, size_t i, size_t j, const Labels& result) {
  Labels needed = result;
  for (size_t k = 0; k < operands.size(); ++k)
    if (k != i && k != j) needed.insert(needed.end(), operands[k].labels.begin(), operands[k].labels.end());
  return needed;
}

// The two operands to contract next: those whose product is the smallest compared to what it replaces.
std::pair<size_t, size_t> next_pair(const std::vector<Factor>& operands, const Labels& result,
                                    const std::map<Label, LabelFacts>& facts) {
  std::pair<size_t, size_t> best{0, 1};
  double lowest = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < operands.size(); ++i)
    for (size_t j = i + 1; j < operands.size(); ++j) {
      const PairPlan plan = plan_pair(operands[i].labels, operands[j].labels, needed_beyond(operands, i, j, result));
      double size = 1;
      for (const Label label : joined(plan.batch, plan.left, plan.right))
        size *= static_cast<double>(facts.at(label).size);
      const double cost =
          size - static_cast<double>(operands[i].tensor.numel()) - static_cast<double>(operands[j].tensor.numel());
      if (cost < lowest) {
        lowest = cost;
        best = {i, j};
      }
    }
  return best;
}

}  // namespace

Tensor einsum(const std::string& text, const std::vector<Tensor>& tensors) {
  const Equation equation = read_equation(text);
  WEFT_CHECK(!tensors.empty() && equation.terms.size() == tensors.size(), kName, "\"{}\" names {} operands, got {}",
             text, equation.terms.size(), tensors.size());
  std::vector<Factor> operands;
  std::map<Label, LabelFacts> facts;
  int ellipsis_dims = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& x = tensors[i];
    detail::check_same_kind(kName, tensors[0], x);
    const std::string& term = equation.terms[i];
    const auto letters = static_cast<int>(std::count_if(term.begin(), term.end(), [](char c) { return c != '.'; }));
    const bool has_ellipsis = term.find('.') != std::string::npos;
    WEFT_CHECK(has_ellipsis ? letters <= x.dim() : letters == x.dim(), kName,
               "\"{}\": operand {} has {} letters, but is {}", text, i, letters, describe(x));
    const int dots = has_ellipsis ? x.dim() - letters : 0;
    ellipsis_dims = std::max(ellipsis_dims, dots);
    operands.push_back({x, read_labels(text, term, dots)});
    const Labels& labels = operands.back().labels;
    for (size_t d = 0; d < labels.size(); ++d) {
      LabelFacts& fact = facts[labels[d]];
      ++fact.count;
      const int64_t size = x.size(static_cast<int64_t>(d));
      const auto first = static_cast<int64_t>(std::find(labels.begin(), labels.end(), labels[d]) - labels.begin());
      WEFT_CHECK(x.size(first) == size, kName, "\"{}\": a letter has sizes {} and {} in {}", text, x.size(first), size,
                 describe(x));
      WEFT_CHECK(size == fact.size || size == 1 || fact.size == 1, kName,
                 "\"{}\": a letter of operand {}, {}, has size {}, elsewhere {}", text, i, describe(x), size,
                 fact.size);
      if (fact.size == 1) fact.size = size;
    }
  }
  const Labels result = labels_of_result(text, equation, ellipsis_dims, facts);
  for (Factor& operand : operands) take_diagonals(operand);
  for (size_t i = 0; i < operands.size(); ++i) reduce_to(operands[i], needed_beyond(operands, i, i, result), facts);
  while (operands.size() > 1) {
    const auto [i, j] = next_pair(operands, result, facts);
    Factor product = contract(operands[i], operands[j], needed_beyond(operands, i, j, result), facts);
    operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(j));
    operands[i] = std::move(product);
  }
  return ordered(operands[0], result);
}

}  // namespace weft
