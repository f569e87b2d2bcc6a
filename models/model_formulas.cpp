#include "models/model_formulas.h"

namespace zplan {
namespace {

// Forward plus backward (twice the forward) [derived]: the backward product has two inputs.
constexpr std::int64_t kPassesOverForward = 3;
constexpr std::int64_t kFlopPerMultiplyAdd = 2;
constexpr std::int64_t kVocabularyMultiple = 128;  // [Shoeybi19 sec 3]

struct Shape {
  double L, h, s, V;
};

Shape shape_of(const ModelConfig& model) {
  return {static_cast<double>(model.layers), static_cast<double>(model.hidden),
          static_cast<double>(model.sequence), static_cast<double>(model.vocab)};
}

}  // namespace

std::int64_t layer_parameter_count(const ModelConfig& model) {
  const std::int64_t h = model.hidden, f = model.ffn;
  const std::int64_t attention = 3 * h * h + 3 * h + h * h + h;  // qkv, proj with biases
  const std::int64_t mlp = h * f + f + f * h + h;                // fc, out with biases
  const std::int64_t norms = 2 * 2 * h;                          // two LayerNorms: scale, shift
  return attention + mlp + norms;
}

std::int64_t parameter_count(const ModelConfig& model) {
  const std::int64_t h = model.hidden;
  const std::int64_t embeddings = (model.tied_embeddings ? 1 : 2) * model.vocab * h;
  return model.layers * layer_parameter_count(model) + embeddings + model.sequence * h + 2 * h;
}

std::int64_t matmul_parameter_count(const ModelConfig& model) {
  const std::int64_t h = model.hidden;
  return model.layers * (4 * h * h + 2 * h * model.ffn) + model.vocab * h;
}

std::int64_t padded_vocab(const ModelConfig& model, std::int64_t tensor_parallel) {
  return round_up(model.vocab, kVocabularyMultiple * tensor_parallel);
}

Flops model_flops_per_token(const ModelConfig& model) {
  const std::int64_t weights =
      kPassesOverForward * kFlopPerMultiplyAdd * matmul_parameter_count(model);
  // Scores and weighted values: 2 products of s h multiply-adds, half of them masked [derived].
  const std::int64_t attention =
      kPassesOverForward * kFlopPerMultiplyAdd * model.layers * model.hidden * model.sequence;
  return {weights + attention};
}

double model_flops_per_step(const ModelConfig& model, std::int64_t global_batch) {
  return static_cast<double>(model_flops_per_token(model).value) *
         static_cast<double>(global_batch) * static_cast<double>(model.sequence);
}

double narayanan_parameters(const ModelConfig& model) {
  const auto [L, h, s, V] = shape_of(model);
  return 12 * L * h * h * (1 + 13 / (12 * h) + (V + s) / (12 * L * h));  // [Narayanan21 Eq.2]
}

double narayanan_hardware_flops(const ModelConfig& model, std::int64_t global_batch) {
  const auto [L, h, s, V] = shape_of(model);
  const auto B = static_cast<double>(global_batch);
  return 96 * B * s * L * h * h * (1 + s / (6 * h) + V / (16 * L * h));  // [Narayanan21 Eq.3]
}

double korthikanti_model_flops(const ModelConfig& model, std::int64_t global_batch) {
  const auto [L, h, s, V] = shape_of(model);
  const auto B = static_cast<double>(global_batch);
  return 72 * B * L * s * h * h * (1 + s / (6 * h) + V / (12 * h * L));  // [Korthikanti22 Eq.7]
}

}  // namespace zplan
