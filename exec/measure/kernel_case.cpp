#include "exec/measure/kernel_case.h"

#include <fmt/format.h>

#include <algorithm>

#include "exec/measure/element.h"
#include "planner/core/error.h"
#include "planner/program/step_scalars.h"

namespace zplan::exec {
namespace {

// Larger operands repeat what was drawn.
constexpr std::int64_t kMostDrawn = std::int64_t{1} << 20;

std::int64_t size_at(const Case& c, const std::string& letter) {
  if (letter.find_first_not_of("0123456789") == std::string::npos) return std::stoll(letter);
  const auto found = c.sizes.find(letter);
  if (found != c.sizes.end()) return found->second;
  throw_bad_input(fmt::format("{}: no size {}", name(c.kernel), letter));
}

// "s+1", "b*s", "Vp", "3"
std::int64_t dimension(const Case& c, const std::string& text) {
  const std::size_t at = text.find_first_of("+*");
  if (at == std::string::npos || text == "*") return size_at(c, text);
  const std::int64_t left = size_at(c, text.substr(0, at)),
                     right = dimension(c, text.substr(at + 1));
  return text[at] == '+' ? left + right : left * right;
}

// "x[T,k]"
Shape shape_of(const Case& c, const std::string& word) {
  Shape shape;
  std::string text;
  for (std::size_t i = word.find('[') + 1; i < word.size(); ++i) {
    if (word[i] != ',' && word[i] != ']') {
      text += word[i];
      continue;
    }
    shape.dims[static_cast<std::size_t>(shape.rank++)] = dimension(c, text);
    text.clear();
  }
  return shape;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == ' ') words.emplace_back();
    if (c != ' ') words.back() += c;
  }
  return words;
}

// What the letters of KernelDef::types stand for in a mixed precision recipe.
DType type_of(char letter, const Case& c, const KernelSet& set) {
  switch (letter) {
    case 'i':
      return DType::kI32;
    case 'k':
      return DType::kU8;
    case 'd':
      return DType::kF64;
    case 'g':
    case 'q':
    case '*':
      return c.wide_gradients ? set.statistics : set.compute;
    case 't':  // statistics
    case 'o':  // master
    case 'v':  // moments
    case 'b':  // what is cast to
    case 'h':  // what is accumulated to
      return set.statistics;
    default:
      return set.compute;
  }
}

Access access_of(char letter, const Case& c) {
  switch (letter) {
    case 'r':
      return Access::kRead;
    case 'u':
      return Access::kUpdate;
    case 'a':
      return c.adds ? Access::kUpdate : Access::kWrite;
    case 's':
      return Access::kScratch;
    default:
      return Access::kWrite;
  }
}

std::vector<double> step_scalars() {
  std::vector<double> scalars(kStepScalarCount);
  scalars[kLearningRate] = 0.01;
  scalars[kBeta1] = 0.9;
  scalars[kBeta2] = 0.95;
  scalars[kEpsilon] = 1e-8;
  scalars[kWeightDecay] = 0.1;
  scalars[kBiasCorrection1] = 1 - 0.9 * 0.9;
  scalars[kBiasCorrection2] = 1 - 0.95 * 0.95;
  scalars[kMaxGradientNorm] = 1;
  scalars[kLossScale] = 4;
  scalars[kUpdateNumber] = 1;
  return scalars;
}

}  // namespace

std::vector<CaseOperand> operands_of(const Case& c, const KernelSet& set) {
  const KernelDef& row = kernel_def(c.kernel);
  const auto words = words_of(row.shapes);
  std::vector<CaseOperand> operands;
  const auto add = [&](std::string name, Access access, DType type, Shape shape) {
    CaseOperand& operand = operands.emplace_back();
    operand.name = std::move(name);
    operand.view.buffer = static_cast<BufferId>(operands.size() - 1);
    operand.view.access = access;
    operand.view.dtype = type;
    operand.view.shape = shape;
  };
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (c.operands != 0 && i >= static_cast<std::size_t>(c.operands)) break;
    const DType type = type_of(row.types[i], c, set);
    // The updated master is the parameter when both have one type.
    if (words[i] == "param[n]" && set.compute == DType::kF32) break;
    add(words[i].substr(0, words[i].find('[')), access_of(row.access[i], c), type,
        shape_of(c, words[i]));
  }
  if (row.access.back() == 's') {
    std::vector<View> views;
    for (const CaseOperand& operand : operands) views.push_back(operand.view);
    add("scratch", Access::kScratch, DType::kF32,
        {scratch_of(c.kernel, views, set).value / size_of(DType::kF32).value});
  }
  return operands;
}

std::vector<double> draw_values(const Case& c, const std::string& operand, std::int64_t n,
                                std::mt19937_64& random) {
  if (operand == "scalars") return step_scalars();
  if (operand == "clip") return {0.75, 2.0};
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(0.5, 1.5);
  std::vector<double> values(static_cast<std::size_t>(std::min(n, kMostDrawn)));
  for (double& value : values) {
    if (operand == "tokens") {
      value = static_cast<double>(random() % static_cast<std::uint64_t>(size_at(c, "V")));
    } else if (operand == "rstd" || operand == "gain" || operand == "sum" || operand == "loss") {
      value = uniform(random);
    } else if (operand == "mean" || operand == "m") {
      value = 0.1 * normal(random);
    } else if (operand == "v") {
      value = 0.01 * uniform(random);
    } else {
      value = normal(random);
    }
  }
  return values;
}

// The values that the type of an operand holds.
void round_values(const std::vector<CaseOperand>& operands, Values& values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    for (double& value : values[i]) value = rounded_to(operands[i].view.dtype, value);
}

Values draw_inputs(const Case& c, const KernelSet& set, std::mt19937_64& random) {
  const auto operands = operands_of(c, set);
  Values values(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Access access = operands[i].view.access;  // what is written before it is read: nothing
    if (access == Access::kWrite || access == Access::kScratch) continue;
    values[i] = draw_values(c, operands[i].name, operands[i].view.shape.elements(), random);
  }
  round_values(operands, values);
  return values;
}

std::map<std::string, std::int64_t> attention_sizes(std::int64_t batch, std::int64_t sequence,
                                                    std::int64_t heads, std::int64_t key_heads,
                                                    std::int64_t head_size) {
  return {{"b", batch},     {"s", sequence},  {"a", heads},
          {"g", key_heads}, {"v", head_size}, {"w", (heads / key_heads + 2) * head_size}};
}

Demand demand_of(const Case& c, const KernelSet& set) {
  std::vector<View> views;
  for (const CaseOperand& operand : operands_of(c, set)) views.push_back(operand.view);
  return kernel_def(c.kernel).demand({views, c.attributes});
}

}  // namespace zplan::exec
