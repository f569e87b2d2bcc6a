// Rotary positions and windows of attention, as config.json has them.
//
// Positions: transformers 5 writes `rope_parameters` {rope_theta, rope_type, partial_rotary_factor,
// ..}, where layers differ one for each kind of layer; 4 wrote `rope_theta`, `rope_scaling` and
// `partial_rotary_factor`. Positions that are divided by a whole number ("linear") are the model's
// own. The other ways of stretching them change angles and the scale of scores, and no size, no
// byte and no flop: they are left out and said so.
//
// Windows: `layer_types`, or a rule of the family. Layers must take equal turns of some with a
// window and some without, as models/layer_features.h has them.
#pragma once

#include <vector>

#include "models/model_config.h"
#include "planner/foreign/hugging_face/config_keys.h"

namespace zplan {

// Sets position, base, stretch and how much of a head turns; the head's size must be known.
void read_rotary(ConfigKeys& keys, ModelConfig& model);

// Tokens that the unstretched positions are made for, as far as the file says it; 0: it does not.
std::int64_t unstretched_positions(ConfigKeys& keys);

// Which layers have a window where the file has no `layer_types`.
std::vector<bool> all_layers(const ModelConfig& model);
// The first `turn` - 1 of each `turn`.
std::vector<bool> but_every(const ModelConfig& model, std::int64_t turn);
// The last `turn` - 1 of each `turn`.
std::vector<bool> but_first_of(const ModelConfig& model, std::int64_t turn);

// `key`: of the window's tokens; none in the file or no layer that has it: no window.
void read_windows(ConfigKeys& keys, ModelConfig& model, std::vector<bool> usual);
// The same, where the file has no `layer_types`, of the layers from this one on.
void read_windows_from(ConfigKeys& keys, ModelConfig& model, std::int64_t first);
// The same with a window of so many tokens, which `size` says.
void read_windows_of(ConfigKeys& keys, ModelConfig& model, std::int64_t tokens,
                     const JsonNode& size, std::vector<bool> usual);

}  // namespace zplan
