// Whether a schedule can be worked off, before it is lowered.
//   each micro-batch goes once forward and once backward through each chunk: in one pass, or in an
//   input backward and a later weight backward
//   no rank waits forever: no circle of passes that wait for each other in the order of the ranks
//   messages meet: what a rank sends another, forward or backward, arrives in the order in which
//   the other reads it
//
// Messages of each (sender, receiver, forward or backward) have lanes of their own at both ends,
// where they are synchronous and in order; a lane waits for the pass that makes its next message,
// passes wait for their message, and no pass waits until its message has gone. So lanes add no
// circle once both ends agree on the order.
#pragma once

#include <optional>
#include <string>

#include "planner/program/schedule/schedule.h"

namespace zplan {

// The first fault in one line, a circle with all passes that wait in it; nothing if there is none.
std::optional<std::string> fault_of(const PipelineSchedule& schedule);

}  // namespace zplan
