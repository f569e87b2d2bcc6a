// What a step takes over from the step before it, other than model states: persistent buffers that
// no unit calls home and that a step reads before it writes them (gradients held for a delayed
// update, the last norm, what waits for a backward in the next step), and the state of the loss
// scale. All zero ahead of the first step.
#pragma once

#include <vector>

#include "planner/program/job/job.h"

namespace zplan {

std::vector<BufferId> carried_buffers(const RankClass& rank_class);

// By node: whether it changes what is there between two steps, a model state or what is carried.
std::vector<bool> state_changes(const RankClass& rank_class);

// Of the buffers named those of which a step reads a slot that it has not written anything to.
std::vector<bool> read_before_written(const Program& program, const std::vector<bool>& among);

}  // namespace zplan
