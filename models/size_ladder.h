// Which shape a model of a given size has, for questions that let the size go free.
//
// The rule: hidden size and heads are those of the smallest model, of the published ones below,
// that is at least as large, and only the number of layers varies; a wider model begins where the
// narrower published one ends. So the papers vary them: 50, 55, 60, 65 layers of 4,096 are 10, 11,
// 12, 13 billion parameters [Ren21 Table 3], 62 and 125 of 8,192 are 50 and 100
// [Rajbhandari21 Table 1]. [Ren21 Table 3] prints no heads: [assumed] of 96 or 128 columns. All
// else is GPT-2's: MLP of 4 h, 50,257 tokens, tied embeddings, sequences of 1,024.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "models/model_config.h"

namespace zplan {

// Models up to so many layers have this width.
struct LadderWidth {
  std::int64_t hidden = 0, heads = 0;
  std::int64_t most_layers = 0;
  const char* source = nullptr;
};
inline constexpr LadderWidth kLadderWidths[] = {
    {2048, 16, 40, "[Ren21 Table 3], 2B"},
    {2304, 24, 64, "[Ren21 Table 3], 4B"},
    {3072, 24, 72, "[Ren21 Table 3], 8B"},
    {4096, 32, 78, "[Ren21 Table 3], 15B"},
    {8192, 64, 125, "[Rajbhandari21 Table 1], 100B"},
    {18432, 144, 124, "[Rajbhandari21 Table 1], 0.5T"},
    {25600, 256, 128, "[Rajbhandari21 Table 1], 1T"},
    {49152, 384, 174, "[Rajbhandari21 Table 1], 5T"},
    {65536, 512, 200, "[Rajbhandari21 Table 1], 10T"},
    {90112, 704, 205, "[Rajbhandari21 Table 1], 20T"},
    {163840, 1024, 315, "[Rajbhandari21 Fig.2a], 100T"}};

// One step: a width and a number of layers.
struct LadderStep {
  const LadderWidth* width = nullptr;
  std::int64_t layers = 0;
};
// "13B", "1.3b", "0.5T": parameters from 1 million to 10^15; nothing: the text is no size.
std::optional<std::int64_t> parse_model_size(std::string_view text);
// Of the steps whose parameters come nearest, called as it was asked for, with global batches of
// 512 [Radford19]; its source says what was chosen. Throws Error where that is more than a quarter
// off, which is beyond both ends.
ModelConfig model_of_size(std::int64_t parameters, std::string_view name);

// All, each with more parameters than the one before.
std::vector<LadderStep> size_ladder();
ModelConfig model_of(const LadderStep& step);

}  // namespace zplan
