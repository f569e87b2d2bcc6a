// PipeDream-2BW [Narayanan20 sec 3.1]: 1F1B that never drains. While the last micro-batches of a
// step go backward the first ones of the next step go forward, and each stage has two versions of
// its parameters; the gradients of a step change what the step after the next one trains on.
//
// What a stage does in a step is one period of that: m pairs of a forward and a backward. Pair k of
// stage s of p has the forward of micro-batch k and the backward of micro-batch k - d, where
// d = p - 1 - s; a negative one is of the step before. After its first d pairs all gradients of the
// step before are there: that is where the stage updates. The backwards of the last micro-batch are
// set apart. The first step has no step before it: its first d backwards are of nothing.
#pragma once

#include "planner/program/schedule/in_flight.h"
#include "planner/program/schedule/schedule.h"

namespace zplan {

// d, and the passes of a step that come ahead of its update.
constexpr std::int32_t pairs_before_update(std::int32_t stage, std::int32_t stages) {
  return stages - 1 - stage;
}
constexpr std::size_t passes_before_update(std::int32_t stage, std::int32_t stages) {
  return 2 * static_cast<std::size_t>(pairs_before_update(stage, stages));
}

// micro_batches >= stages.
PassOrder double_buffered_order(std::int32_t stage, std::int32_t stages,
                                std::int32_t micro_batches);

// Slots of a ring in which so many micro-batches that follow each other, those of the next step
// after those of this one, have slots of their own at their number modulo the slots.
std::int32_t slots_across_steps(std::int32_t in_turn, std::int32_t micro_batches);

// d + 1 between forward and backward.
InFlight double_buffered_in_flight(std::int32_t stage, std::int32_t stages,
                                   std::int32_t micro_batches);

}  // namespace zplan
