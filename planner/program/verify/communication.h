// Do the rank classes fit each other, lane by lane, over one step: the k-th send of a stage to its
// neighbour meets the k-th receive there, of as many bytes of the same type; the members of a
// group that spans stages issue the same collectives in the same order. Groups within a stage hold
// one program, hence agree by construction.
//
// Numbers of messages are counted over the whole step; what they are is compared over loops cut
// alike (shorten.h). [derived] A message is the same in each iteration of its loop. Where
// two such periodic rows agree over more than a period, so do they with as many periods inserted
// into both; where the cut leaves the two unequal numbers, the whole step is walked.
#pragma once

#include <string>
#include <vector>

#include "planner/program/job/job.h"

namespace zplan {

// Adds a line for each class that does not fit. Structure and operands must be sound.
void check_communication(const Job& job, std::vector<std::string>& findings);

}  // namespace zplan
