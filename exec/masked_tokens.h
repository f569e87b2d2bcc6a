// Which tokens of a sample a model that sees both ways is asked for, and what it sees in their
// place (planner/program/kernels/masked_tokens.h). Both depend on the seed and the sample's number
// alone, so that every way of cutting a batch masks the same.
#pragma once

#include <cstdint>
#include <span>

namespace zplan::exec {

struct MaskedSample {
  std::uint64_t seed;
  std::int64_t sample;
  std::int64_t sequence;    // tokens
  std::int64_t vocabulary;  // its last token stands for a masked one
};

// `tokens` are those of the sample's text from `begin` on.
void mask_inputs(const MaskedSample& sample, std::int64_t begin, std::span<std::int32_t> tokens);

// Leaves the target of token i of them at i + 1, -1 where the model is not asked for it.
void keep_masked_targets(const MaskedSample& sample, std::int64_t begin,
                         std::span<std::int32_t> tokens);

}  // namespace zplan::exec
