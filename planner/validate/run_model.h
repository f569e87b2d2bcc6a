// The model of a published run: sizes as stated, features by what the record says of positions,
// norms and the MLP. All linear layers have biases, but none with RMSNorm or in MPT [assumed].
//
//   null   heads: the number nearest to h / 128 that divides h evenly and splits over tp; key-value
//          heads: as many; MLP: 4 h; norms and positions: of Llama with a gated MLP, else of GPT;
//          embeddings tied unless positions are rotary
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/model_config.h"
#include "planner/validate/runs.h"

namespace zplan {

// Why no ModelConfig has this shape, or nothing.
std::optional<std::string> inexpressible_model(const RunModel& model);

// `flags` are told what was assumed.
ModelConfig model_of(const RunRecord& run, std::vector<std::string>& flags);

}  // namespace zplan
