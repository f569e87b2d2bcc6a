// The schedule that a plan names, as passes. What differs from one to the other is a row of a table
// (plan_schedule.cpp): a new one needs its word (decision.h), its row and what makes its order.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/program/schedule/in_flight.h"
#include "planner/program/schedule/schedule.h"

namespace zplan {

std::string_view title(Schedule schedule);  // "1F1B"; of a file "from a file"

// Why the plan's schedule does not go with the rest of it, in one line, or nothing. Throws Error
// where its file cannot be read or holds none, as do all of the functions that follow.
std::optional<std::string> schedule_fault(const Plan& plan);

// Which pieces of the model each stage has.
ChunkMap pieces_of(const Plan& plan);
PassOrder order_of_stage(const Plan& plan, std::int32_t stage);

// Whether the gradients of inputs and of weights come in passes of their own.
bool has_parts_of_backward(const Plan& plan);

// Whether replicas are pairs that go through both of their pipelines: where the way turns, a stage
// hands over to that of the other replica instead of itself
// (planner/program/schedule/dual_pipe_v.h).
bool pairs_replicas(const Plan& plan);

// Whether the last passes of a step are worked off within the next one (double_buffered.h).
bool reaches_across_steps(const Plan& plan);
// Whether the parameters of a piece change after each micro-batch's backward (weight_stashing.h).
bool updates_each_micro_batch(const Plan& plan);
// Versions of its parameters that a stage has room for beside the newest one, and gradients of a
// unit that wait for their update, the one that is being taken among them.
std::int32_t older_versions(const Plan& plan, std::int32_t stage);
std::int32_t held_gradients(const Plan& plan);

// What a chunk of the stage has between forward and backward.
InFlight kept_in_flight(const Plan& plan, std::int32_t stage, const PassOrder& order,
                        std::int32_t chunk);

// Whether a stage has one piece and works off its backward in one pass: its last backward of a step
// comes before that of the stage before it.
bool ends_in_order(const Plan& plan);

struct PieceInFlight {
  std::int32_t piece = 0;
  // Between its forward and its backward; of two in turns, whose layers share places, one.
  std::int64_t micro_batches = 0;
  // The stage's first pass for the gradients of weights alone comes before the piece's last pass
  // for those of inputs, which reads all that forward has kept.
  bool weights_come_between = false;
  friend bool operator==(const PieceInFlight&, const PieceInFlight&) = default;
};
// What each chunk of each stage has in flight.
using StagePieces = std::vector<std::vector<PieceInFlight>>;
StagePieces in_flight_of_stages(const Plan& plan);

// A closed form that no stage exceeds, counted in micro-batches through all of its layers.
double most_in_flight(const Plan& plan);

}  // namespace zplan
