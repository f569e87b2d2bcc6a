#include "models/size_ladder.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string>
#include <utility>

#include "models/model_formulas.h"
#include "planner/core/error.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

constexpr std::int64_t kVocab = 50257;  // [Radford19] GPT-2; the papers print none
constexpr std::int64_t kSequence = 1024;

}  // namespace

ModelConfig model_of(const LadderStep& step) {
  ModelConfig model;
  model.layers = step.layers;
  model.hidden = step.width->hidden;
  model.heads = step.width->heads;
  model.kv_heads = step.width->heads;
  model.ffn = 4 * step.width->hidden;
  model.vocab = kVocab;
  model.sequence = kSequence;
  model.global_batch = 1;
  model.source = step.width->source;
  model.name = "gpt-" + std::to_string(step.layers) + "x" + std::to_string(step.width->hidden);
  validate(model);
  return model;
}

std::vector<LadderStep> size_ladder() {
  std::vector<LadderStep> steps;
  std::int64_t largest = 0;
  for (const LadderWidth& width : kLadderWidths)
    for (std::int64_t layers = 1; layers <= width.most_layers; ++layers) {
      const LadderStep step{&width, layers};
      const std::int64_t parameters = parameter_count(model_of(step));
      if (parameters <= largest) continue;
      largest = parameters;
      steps.push_back(step);
    }
  return steps;
}

std::optional<std::int64_t> parse_model_size(std::string_view text) {
  if (text.size() < 2) return std::nullopt;
  double unit = 0;
  for (const auto& [letters, of] :
       {std::pair<std::string_view, double>{"mM", 1e6}, {"bB", 1e9}, {"tT", 1e12}})
    if (letters.find(text.back()) != letters.npos) unit = of;
  const std::string_view digits = text.substr(0, text.size() - 1);
  if (unit == 0 || digits.find_first_not_of("0123456789.") != digits.npos) return std::nullopt;
  double number = 0;
  const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (status != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
  constexpr double kLeast = 1e6, kMost = 1e15;
  if (number * unit < kLeast || number * unit > kMost) return std::nullopt;
  return std::llround(number * unit);
}

ModelConfig model_of_size(std::int64_t parameters, std::string_view name) {
  constexpr double kFarthest = 0.25;
  constexpr std::int64_t kBatch = 512;  // [Radford19]
  const double wanted = static_cast<double>(parameters);
  const auto off = [&](const LadderStep& step) {
    return std::abs(static_cast<double>(parameter_count(model_of(step))) / wanted - 1);
  };
  const std::vector<LadderStep> steps = size_ladder();
  const LadderStep* nearest = &steps.front();
  for (const LadderStep& step : steps)
    if (off(step) < off(*nearest)) nearest = &step;
  ModelConfig model = model_of(*nearest);
  const std::string count = format_count(static_cast<double>(parameter_count(model)));
  if (off(*nearest) > kFarthest)
    throw_bad_input(fmt::format(
        "model {}: expected a size from {} to {}, for which there is a rule", in_quotes(name),
        format_count(static_cast<double>(parameter_count(model_of(steps.front())))),
        format_count(static_cast<double>(parameter_count(model_of(steps.back()))))));
  model.source = fmt::format(
      "of no paper: {} parameters by the rule that a GPT is as wide as the smallest published one "
      "that is at least as large, here {}, and has so many layers as it takes; MLP of 4 hidden, "
      "tokens, ties and batch of GPT-2 [Radford19]",
      count, nearest->width->source);
  model.name = name;
  model.global_batch = kBatch;
  return model;
}

}  // namespace zplan
