// Drops edges that others imply: x need not wait for y where x waits for an a, or follows it on its
// lane, that itself waits for y or for what comes later on y's lane; over any number of such links.
//
// An edge stands for one wait per instance of its owner. Two links are joined to one edge where the
// instance at the far end can be said in the form of an edge (program.h) and is reached whenever
// that edge binds: delays at one level add up; from an outer level inwards only the last iteration
// is known. What cannot be said so is given up: then more edges stay than need be.
//
// The order of instances stays the same: links lead back in program order, so between two instances
// there is a longest path, and no link of it is dropped, because each dropped one has a path of two
// or more around it.
#pragma once

#include <vector>

#include "planner/program/job/program.h"

namespace zplan {

// `lists`: the edges of each node. Drops those with this value of `reuse`: of data edges while
// there are no others, or of reuse edges.
void thin_edges(const Program& program, std::vector<std::vector<Edge>>& lists, bool reuse);

// Whether each instance of an owner that waits for `weak` waits for the same or a later instance of
// the same lane by `strong`.
bool covers(const Program& program, const Edge& strong, const Edge& weak);

}  // namespace zplan
