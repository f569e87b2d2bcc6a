// The layout of a pipeline as Megatron-LM writes it (--pipeline-model-parallel-layout): E
// embedding, t a layer, m a module that predicts further ahead, L the loss; | between model chunks,
// in the model's order; *n repeats what stands before it, a letter or a group in parentheses:
// "Et*2|(tt|)*29|L".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace zplan {

// Returns the layers of each chunk; nothing: this is no layout.
std::optional<std::vector<std::int32_t>> layers_of_layout(std::string_view layout);

}  // namespace zplan
