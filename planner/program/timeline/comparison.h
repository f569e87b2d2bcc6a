// Comparison: a predicted Timeline beside a measured one. Joined by operation id, which only two
// Timelines of one Job allow, or by role (phase, part, action), which any two allow.
//
// The time of an operation is end - start, without the wait for other ranks: the median over the
// ranks of a stage and over the steady steps, all but the first where there are more. Rows add up
// the operations of one step, one rank of each stage; lanes overlap, so they do not add up to the
// period of a step. That is the median from one end of a step to the next.
//
// By role, a time is that of all operations of the role within a step of a rank.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/units.h"
#include "planner/program/timeline/timeline.h"

namespace zplan {

enum class JoinBy : std::uint8_t { kOperation, kRole };

struct ComparedSide {
  std::int64_t operations = 0;
  Seconds time{0};
};

struct ComparedRow {
  std::string name;  // "copy", "forward", "comm_gather", "qkv"
  ComparedSide predicted, measured;
};

struct Comparison {
  JoinBy join = JoinBy::kOperation;
  std::string predicted_fingerprint, measured_fingerprint;
  std::int64_t predicted_steps = 0, measured_steps = 0;  // looked at
  Seconds predicted_period{0}, measured_period{0};
  ComparedRow total;                                     // of all operations that both have
  std::vector<ComparedRow> kinds, phases, lanes, parts;  // the same operations, split four ways
  ComparedSide only_predicted, only_measured;            // operations without a partner
};

// Throws Error(kBadInput) when the Timelines cannot be joined that way, are not of a simulation and
// a run in this order, or hold no operation.
Comparison compare(const Timeline& predicted, const Timeline& measured, JoinBy join);

// Measured over predicted time; nothing when nothing was predicted.
std::optional<double> ratio(Seconds predicted, Seconds measured);

}  // namespace zplan
