#include "models/size_ladder.h"

#include <string>

#include "models/model_formulas.h"

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

}  // namespace zplan
