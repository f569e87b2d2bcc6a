// The mesh of a Plan's ranks. Tensor parallel ranks are neighbours; then come replicas or stages,
// as the rank order says. Where fewer replicas than all share a copy of what is sharded, the data
// axis is split: those that do along its inner part [Zhao23 sec 3.2.2]. So it is for smaller groups
// within these. Where they share the parameters, the part around them varies fastest in the index
// of shards, so that what a rank updates is a part of its parameters. Where replicas are pairs
// (pairs_replicas), the two of one are an axis, next to that of experts. Where replicas have
// experts of their own, those that share a layer's are the inner part: neighbours. Where tensor
// parallel ranks have whole experts, they and that part are the group [Folding25].
#pragma once

#include "planner/plan/plan.h"
#include "planner/program/job/mesh.h"

namespace zplan {

Mesh mesh_of(const Plan& plan);
// The replicas that share one copy.
AxisSet shard_axes(const Mesh& mesh);
// Along which ranks have other experts: replicas, or tensor parallel ranks and replicas.
AxisSet expert_axes(const Plan& plan, const Mesh& mesh);
// Along which two replicas are a pair; none: they are not.
AxisSet pair_axes(const Plan& plan, const Mesh& mesh);
// Of replicas along some axes, so many neighbours; all, or a group of the plan.
AxisSet neighbours(const Mesh& mesh, AxisSet axes, std::int32_t ranks);

}  // namespace zplan
