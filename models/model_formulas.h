// Exact counts of a model, and the published closed forms they are checked against.
//
// Exact, per layer (h hidden, f ffn): qkv 3h^2 + 3h, proj h^2 + h, fc hf + f, out fh + h, two
// LayerNorms 4h; outside: tokens V h, positions s h, final LayerNorm 2h, and an output head V h
// when the embeddings are not tied. V is unpadded.
//
// Model FLOPs (for MFU) per token = 6 N + 6 L h s, causal attention [derived]:
//   N = parameters that multiply an activation in a matrix product: L (4 h^2 + 2 h f) + V h.
//   The head counts once, tied or not; biases, LayerNorms, positions and the token look-up do no
//   matrix product and are left out. 6 = 2 flop x (forward 1 + backward 2).
//   6 L h s = 3 x (2 products of 2 s h flop, half of them masked); recomputation is never in it.
// B = sequences per step. Step totals exceed int64 (1T: 1.6e19), so they are doubles, in flop.
#pragma once

#include <cstdint>

#include "models/model_config.h"
#include "planner/core/units.h"

namespace zplan {

std::int64_t layer_parameter_count(const ModelConfig& model);
std::int64_t parameter_count(const ModelConfig& model);
std::int64_t matmul_parameter_count(const ModelConfig& model);  // N above

// Rows of the embedding as stored: a multiple of 128 x tp [Shoeybi19 sec 3].
std::int64_t padded_vocab(const ModelConfig& model, std::int64_t tensor_parallel);

Flops model_flops_per_token(const ModelConfig& model);
double model_flops_per_step(const ModelConfig& model, std::int64_t global_batch);

// P = 12 L h^2 (1 + 13/(12 h) + (V + s)/(12 L h)) [Narayanan21 Eq.2]; f = 4h, tied, final norm
// left out.
double narayanan_parameters(const ModelConfig& model);

// F = 96 B s L h^2 (1 + s/(6 h) + V/(16 L h)) [Narayanan21 Eq.3]: hardware flop per step with full
// recomputation, attention not halved.
double narayanan_hardware_flops(const ModelConfig& model, std::int64_t global_batch);

// F = 72 B L s h^2 (1 + s/(6 h) + V/(12 h L)) [Korthikanti22 Eq.7]: model flop per step, attention
// not halved.
double korthikanti_model_flops(const ModelConfig& model, std::int64_t global_batch);

}  // namespace zplan
