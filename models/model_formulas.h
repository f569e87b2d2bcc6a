// Exact counts of a model, and the published closed forms they are checked against.
//
// Exact, per layer (h hidden, a heads, g key-value heads, d head size, f ffn), V unpadded:
//   matrices  qkv (a + 2g) d h, proj a d h, a gate of attention a d h, first of the MLP hf (gated
//   2hf), second fh
//             with latents of q (or none) and c, heads of n + r and values of v [DeepSeek24
//             sec 2.1]: h q + q a (n + r), or h a (n + r); h (c + r) + c a (n + v); proj a v h; an
//             indexer of m heads of e: q m e + h (e + m), and a norm 2 e [DeepSeek25b sec 2.1]
//   biases    of qkv (a + 2g) d, proj h, first of the MLP f (gated 2f), second h, as the model has
//             with E experts of f: router E h and of the products E times as much, with a shared
//             one of f' besides; of these a token goes through k and the shared one. A gate of that
//             has h, a latent of l elements 2 h l, and experts l in the place of h. Of the biases
//             of the MLP E times as many, and E of the router
//   norms     two LayerNorms 4h or RMSNorms 2h, one where it serves both branches of a parallel
//             residual, two more of what branches give; without a bias half of a LayerNorm, fixed
//             none; a score of each head a; gains of the norms of queries and keys 2d, of all heads
//             together (a + g) d, of latents q + c
// A layer of a pattern has one branch or two, with a norm each. Beside attention a mixer may be
//   Mamba-2   h (2 H P + 2 G N + H) and H P h; of vectors the convolution (H P + 2 G N) (conv + 1),
//             3 H and the gain of a norm H P [Dao24]
//   delta     with K of all queries or keys and V of values, n heads of these: h (2 K + 2 V + 2 n)
//             and V h; (2 K + V) conv, 2 n and the gain of a norm of a head [Yang24b]
// A module of multi-token prediction has a layer as the last one, a matrix 2h h and three norms.
// Outside: tokens V h, the last norm 2h or h, one of the embeddings, learned positions s h and
// unused rows, and an output head V h when
// the embeddings are not tied.
//
// Model FLOPs (for MFU) per token = 6 N + 6 L a d s, causal attention [derived]; a d is h mostly:
//   N = parameters that multiply an activation in a matrix product: all matrices of the layers, of
//   experts those of the k that a token goes through, and
//   the head V h, which counts once, tied or not; biases, norms, positions and the token look-up do
//   no matrix product and are left out. 6 = 2 flop x (forward 1 + backward 2).
//   6 L a d s = 3 x (2 products of 2 s a d flop, half of them masked), with values of v elements
//   3 L a (d + v) s; with a window of w tokens 2 w - w^2 / s in the place of s, both ways 2 s;
//   recomputation is never in it, nor is the rotation of queries and keys. Of layers of a pattern
//   those with attention count here, and states have 3 x 7 H P N, or 3 x 8 V d for keys of d.
//   With an indexer the keys that it chooses count as a window does, and its scores m e (s + 2 (2 w
//   - w^2 / s)).
//   Each module of multi-token prediction adds its layer, its matrix and the head once more, which
//   it shares, as Megatron counts them (num_floating_point_operations) [MegatronCore].
// B = sequences per step. Step totals exceed int64 (1T: 1.6e19), so they are doubles, in flop.
#pragma once

#include <cstdint>

#include "models/model_config.h"
#include "planner/core/units.h"

namespace zplan {

// Counts a layer with experts where a model has some, or the largest layer of a pattern.
std::int64_t layer_parameter_count(const ModelConfig& model);
// Counts a layer of a pattern with these parts.
std::int64_t parts_parameter_count(const ModelConfig& model, const LayerParts& parts);
// Of the matrices that give queries, keys and values, as far as ranks cut them.
std::int64_t qkv_parameter_count(const ModelConfig& model);
std::int64_t layer_matmul_parameter_count(const ModelConfig& model);
std::int64_t parameter_count(const ModelConfig& model);
std::int64_t matmul_parameter_count(const ModelConfig& model);
// Of these and of all, what a token goes through: of the experts those that are chosen for it.
std::int64_t active_matmul_parameter_count(const ModelConfig& model);  // N above
std::int64_t active_parameter_count(const ModelConfig& model);
// This counts what modules of multi-token prediction multiply with it again.
std::int64_t further_head_elements(const ModelConfig& model);
// Counts the elements of the matrices ahead of the modules' layers, which are among N.
std::int64_t mtp_projection_count(const ModelConfig& model);

// Rows of the embedding as stored: a multiple of 128 x tp [Shoeybi19 sec 3], and of tp equal pieces
// of so many tiles.
std::int64_t padded_vocab(const ModelConfig& model, std::int64_t tensor_parallel,
                          std::int64_t tiles = 1);

// Counts the parameters of the vision tower with its projectors (vision_shape.h), which
// parameter_count() has, too: of a layer what a layer of its sizes has; outside W of a patch,
// learned positions, a norm, and what steps of projectors have.
std::int64_t vision_parameter_count(const ModelConfig& model);
// Counts what the forward of the tower does for the images of a sequence: two flop for each element
// of a matrix and row, and two products of 2 T t h in each layer, of T patches that see t each. It
// is no part of the flop per token, and three times of the flop per step.
Flops vision_flops_per_sequence(const ModelConfig& model);

Flops model_flops_per_token(const ModelConfig& model);
double model_flops_per_step(const ModelConfig& model, std::int64_t global_batch);

// The closed forms below are of gpt models with f = 4h and tied embeddings.

// P = 12 L h^2 (1 + 13/(12 h) + (V + s)/(12 L h)) [Narayanan21 Eq.2]; the last norm is
// left out.
double narayanan_parameters(const ModelConfig& model);

// F = 96 B s L h^2 (1 + s/(6 h) + V/(16 L h)) [Narayanan21 Eq.3]: hardware flop per step with full
// recomputation, attention not halved.
double narayanan_hardware_flops(const ModelConfig& model, std::int64_t global_batch);

// F = 72 B L s h^2 (1 + s/(6 h) + V/(12 h L)) [Korthikanti22 Eq.7]: model flop per step, attention
// not halved.
double korthikanti_model_flops(const ModelConfig& model, std::int64_t global_batch);

}  // namespace zplan
