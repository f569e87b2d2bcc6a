// This makes words of a record of the first form keys of the second: its `recompute_detail` in
// LLMQ's options, "--recompute-ffn", and MaxText's policies, "save_qkv_proj", and the names of
// options in its `source`.
#pragma once

#include <string_view>

#include "planner/validate/runs.h"

namespace zplan {

// The mode of recomputation of software that chose what it keeps.
inline constexpr std::string_view kAutomatic = "automatic";

void words_to_keys(RunRecord& run);

}  // namespace zplan
