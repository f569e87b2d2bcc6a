// This counts the rows of experts: a token's choice of an expert is a row. A rank sends each rank
// of its expert group rows of that rank's experts, in a part of equal size; what the router does
// not fill of it is padding.
//
//   parts      that a rank works on: one of each rank of the group or, where tensor parallel ranks
//              cut the experts and bring their own tokens, of the groups of all these
//   capacity   a sequence gives an expert up to C = ceil(F s k / E) rows, F the capacity factor;
//              further choices are dropped in the order of tokens [Lepikhin20 sec 2.2]
//   room       of one part: of all experts of a rank, C or, where nothing is dropped, the most that
//              tokens can choose, or as many times the mean as the imbalance of the plan says
//   expected   that a rank with the most work has for all its experts: the mean, times the
//   imbalance
#pragma once

#include "models/model_config.h"
#include "planner/lower/sizes.h"

namespace zplan {

// Replay of this operator gives what a layer computes of experts.
inline constexpr OperatorSet kOfExperts = LayerOperator::kExperts;

struct ExpertRows {
  ExpertRows(const Sizes& sizes, const ExpertShape& shape);

  std::int64_t tokens;    // that a rank routes
  std::int64_t ranks;     // of an expert group
  std::int64_t gathered;  // tensor parallel ranks whose parts come together
  std::int64_t experts;   // of a rank
  std::int64_t capacity;  // of an expert and a sequence; 0: nothing is dropped
  std::int64_t room;      // of the part that one rank sends another
  std::int64_t expected;  // of a rank

  // These are shapes of the rows that a rank's experts work on, and of those that it sends.
  Shape of(std::int64_t width) const { return {parts(), room, width}; }
  Shape sent(std::int64_t width) const { return {ranks, room, width}; }
  Shape counts() const { return {parts(), experts}; }
  Shape sent_counts() const { return {ranks, experts}; }
  std::int64_t parts() const { return gathered * ranks; }
  bool are_exchanged() const { return ranks > 1; }
};

}  // namespace zplan
