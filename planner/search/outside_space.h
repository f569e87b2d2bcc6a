// In what a plan lies outside the space of the search, which is all that the gap and the proof
// speak of (search.h): the decisions that are neither pinned as they are nor ones that leaves and
// their variants have. Slack is none of them: a leaf has its own, or 0 where only the tightest
// fits.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/pins.h"
#include "planner/plan/plan.h"

namespace zplan {

struct OutsideSpace {
  std::string_view pointer;  // "/parallel/stage_layers"
  std::string_view words;    // "uneven stages"
};
// In the order of the rows of choices.h; empty: the plan is one of the space.
std::vector<OutsideSpace> outside_space(const Plan& plan, const Pins& pins);

// [assumed] Tokens of a sequence from which on the space has context parallel ranks of any number:
// below, replicas and tensor parallel ranks are enough for what a sequence keeps, and each size
// more of such groups makes the space that much larger. Below it has pairs of them where there are
// fewer sequences than devices.
inline constexpr std::int64_t kLongSequence = 32'768;

// [assumed] Tokens of a sequence from which on the space has pairs of such ranks, where there are
// fewer sequences in a step than devices.
inline constexpr std::int64_t kPairedSequence = 4'096;
inline bool has_pairs(std::int64_t sequence, std::int64_t sequences, std::int64_t devices) {
  return sequence >= kPairedSequence && sequences < devices;
}

// Names what the space lacks of ranks that share a sequence, "rings or context parallelism between
// nodes"; nothing where that is pinned, or one device works.
std::string_view context_left_out(std::int64_t sequence, std::int64_t sequences,
                                  std::int64_t devices, const Pins& pins);

// "uneven stages, layers per checkpoint"
std::string words_of(const std::vector<OutsideSpace>& outside);

}  // namespace zplan
