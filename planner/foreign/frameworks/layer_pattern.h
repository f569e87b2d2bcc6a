// What Megatron-LM's options say of each layer: "([0]*3+[1]*58)" or "[0,1]*16", as Python writes
// it.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace zplan {

// Letters of its hybrid patterns that are those of ours (models/layer_pattern.h).
inline constexpr std::string_view kMegatronLetters = "M*E-";

// Nothing: something else, or more than `most` layers.
std::optional<std::vector<bool>> layer_pattern(std::string_view text, std::size_t most);

}  // namespace zplan
