#include "models/zero_infinity.h"

#include <algorithm>

#include "models/model_formulas.h"

namespace zplan {
namespace {

constexpr double kBytesPerElement = 2;
constexpr double kOptimizerShare = 4;  // 2 x 16 bytes over 2 x 4

double of(std::int64_t count) { return static_cast<double>(count); }

// All elements of a token that the layers keep, as the paper counts them or by their own widths.
double kept_of_token(const ModelConfig& model) {
  const double h = of(model.hidden);
  const double attention = 4 * h + of(model.qkv_width() + model.attention_width());
  const double dense = of(model.up_width() + model.ffn);
  if (!model.experts) return of(model.layers) * (attention + dense);
  const ExpertShape& experts = *model.experts;
  const double widths = model.gated_mlp ? 3 : 2;  // before and after the activation
  const double routed =
      of(experts.per_token) * (2 * h + widths * of(experts.ffn)) + widths * of(experts.shared_ffn);
  return of(model.layers) * attention + of(model.dense_layers()) * dense +
         of(model.expert_layers()) * routed;
}

double largest_operator(const ModelConfig& model) {
  const std::int64_t h = model.hidden;
  std::int64_t most = std::max(h * model.qkv_width(), h * model.attention_width());
  const bool has_mlp = !model.experts || model.dense_layers() > 0;
  if (has_mlp) most = std::max(most, h * model.up_width());
  if (model.experts)
    most =
        std::max(most, model.experts->count * h * model.experts->ffn * (model.gated_mlp ? 2 : 1));
  return of(most);
}

// The memory where a token keeps so many elements besides scores; `scores` of them per key.
InfinityMemory memory_of(double parameters, double kept, double scores, double checkpoint,
                         const InfinityBatch& batch, double layers) {
  const double tokens = batch.sequences * batch.sequence;
  const double all = tokens * (kept + scores * batch.sequence);
  return {.parameters = parameters,
          .states_16 = 16 * parameters,
          .states_20 = 20 * parameters,
          .activations = kBytesPerElement * all,
          .checkpoints = kBytesPerElement * tokens * checkpoint * layers / batch.interval,
          .working_states = 0,
          .working_activations = kBytesPerElement * all / layers * batch.interval};
}

}  // namespace

InfinityIntensities printed_intensities(double hidden, const InfinityBatch& batch) {
  const double tokens = batch.sequence * batch.sequences;
  return {tokens, tokens / kOptimizerShare, 24 * hidden * batch.interval};
}

InfinityIntensities layer_intensities(const ModelConfig& model, const InfinityBatch& batch) {
  const double head = of(model.vocab * model.hidden);
  const double all = of(matmul_parameter_count(model)) - head;
  const double active = of(active_matmul_parameter_count(model)) - head;
  const double states = batch.sequence * batch.sequences * active / all;
  return {states, states / kOptimizerShare,
          2 * active * batch.interval / of(model.layers * model.hidden)};
}

double infinity_efficiency(double intensity, BytesPerSecond bandwidth, FlopsPerSecond peak) {
  const double fed = intensity * bandwidth.value;
  return fed / (fed + peak.value);
}

BytesPerSecond bandwidth_for(double efficiency, double intensity, FlopsPerSecond peak) {
  return {peak.value * efficiency / (1 - efficiency) / intensity};
}

InfinityMemory printed_memory(const ModelConfig& model, const InfinityBatch& batch) {
  const double h = of(model.hidden), layers = of(model.layers);
  InfinityMemory memory = memory_of(12 * layers * h * h, 16 * h * layers,
                                    2 * of(model.heads) * layers, h, batch, layers);
  memory.working_states = 16 * h * h;
  return memory;
}

InfinityMemory layer_memory(const ModelConfig& model, const InfinityBatch& batch, bool scores) {
  const double layers = of(model.layers);
  InfinityMemory memory =
      memory_of(of(parameter_count(model)), kept_of_token(model),
                scores ? 2 * of(model.heads) * layers : 0, of(model.hidden), batch, layers);
  memory.working_states = 2 * kBytesPerElement * largest_operator(model);
  return memory;
}

}  // namespace zplan
