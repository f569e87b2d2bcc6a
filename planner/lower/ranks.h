// The mesh of a Plan's ranks. Tensor parallel ranks are neighbours; then come replicas or stages,
// as the rank order says. Where fewer replicas than all share a copy of what is sharded, the data
// axis is split: those that do along its inner part [Zhao23 sec 3.2.2].
#pragma once

#include "planner/plan/plan.h"
#include "planner/program/job/mesh.h"

namespace zplan {

Mesh mesh_of(const Plan& plan);
// The replicas that share one copy.
AxisSet shard_axes(const Mesh& mesh);

}  // namespace zplan
