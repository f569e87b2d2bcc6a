// Who meets whom: the one index of the ranks, and of the rank classes, that a collective or a
// transfer brings together. Simulator, executors, processes, NCCL and verification ask it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/program/job/job.h"

namespace zplan {

// The members of one group, in index order (mesh.h) and not in that of rank numbers: sums do not
// depend on the rank order of a plan.
struct Members {
  std::vector<std::int32_t> ranks;
  int own_index = 0;
};

// Those of the group that the rank is in; just the rank where it is in none.
Members members_of(const Mesh& mesh, const Group& group, std::int32_t rank);
// All groups that have a member of the stage.
std::vector<std::vector<std::int32_t>> groups_at(const Mesh& mesh, const Group& group,
                                                 std::int32_t stage);
// Ranks of a stage, in index order.
std::vector<std::int32_t> ranks_of_stage(const Mesh& mesh, std::int32_t stage);
// The rank that a send of `rank` goes to, or a receive comes from; it must exist.
std::int32_t peer_rank(const Mesh& mesh, std::int32_t rank, const Peer& peer);

// Whether members are of different stages.
bool spans_stages(const Mesh& mesh, const Group& group);
// The stages that members of a group with one of this stage are of, ascending.
std::vector<std::int32_t> stages_of(const Mesh& mesh, const Group& group, std::int32_t stage);
// Whether ranks of the stage are in groups of this kind.
bool in_group(const Mesh& mesh, const Group& group, std::int32_t stage);
// The stage on the other side of a transfer; none: there is none.
std::optional<std::int32_t> peer_stage(const Mesh& mesh, std::int32_t stage, const Peer& peer);

// The rank whose losses a run reports: of those that have the report, the first.
std::int32_t reporting_rank(const Job& job);

}  // namespace zplan
