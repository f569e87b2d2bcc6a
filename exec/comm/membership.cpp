#include "exec/comm/membership.h"

#include <algorithm>

namespace zplan::exec {
namespace {

// Whether `other` is in the group of this kind that `own` is in; both are of its stages.
bool same_group(const Job& job, GroupKind kind, const Coordinates& own, const Coordinates& other) {
  const bool same_stage = other.stage == own.stage;
  const bool same_tp = other.tp == own.tp;
  switch (kind) {
    case GroupKind::kData:
      return same_stage && same_tp;
    case GroupKind::kEmbedding:
      return other.dp == own.dp && same_tp && (other.stage == 0 || other.stage == job.pp - 1);
    case GroupKind::kWorld:
      return true;
    case GroupKind::kTensor:
      return same_stage && other.dp == own.dp;
    case GroupKind::kShard:
      return same_stage && same_tp && other.dp / job.shards == own.dp / job.shards;
    case GroupKind::kReplica:
      return same_stage && same_tp && job.shard_index(other.dp) == job.shard_index(own.dp);
  }
  return false;
}

}  // namespace

Membership membership(const Job& job, GroupKind kind, std::int32_t rank) {
  const Coordinates own = job.coordinates_of(rank);
  Membership result;
  for (Coordinates at; at.stage < job.pp; ++at.stage) {
    for (at.dp = 0; at.dp < job.dp; ++at.dp) {
      for (at.tp = 0; at.tp < job.tp; ++at.tp)
        if (same_group(job, kind, own, at)) result.ranks.push_back(job.rank_of(at));
    }
  }
  const auto place = std::find(result.ranks.begin(), result.ranks.end(), rank);
  result.own_index = static_cast<int>(place - result.ranks.begin());
  return result;
}

}  // namespace zplan::exec
