#include "exec/comm/membership.h"

#include <algorithm>

namespace zplan::exec {
namespace {

std::vector<std::int32_t> ranks_of(const Job& job, GroupKind kind, std::int32_t rank) {
  const std::int32_t dp_index = job.dp_index_of(rank), stage = job.stage_of(rank);
  std::vector<std::int32_t> ranks;
  switch (kind) {
    case GroupKind::kData:
      for (std::int32_t d = 0; d < job.dp; ++d) ranks.push_back(job.rank_of(d, stage));
      return ranks;
    case GroupKind::kEmbedding:
      ranks.push_back(job.rank_of(dp_index, 0));
      if (job.pp > 1) ranks.push_back(job.rank_of(dp_index, job.pp - 1));
      return ranks;
    case GroupKind::kWorld:
      for (std::int32_t s = 0; s < job.pp; ++s) {
        for (std::int32_t d = 0; d < job.dp; ++d) ranks.push_back(job.rank_of(d, s));
      }
      return ranks;
  }
  return ranks;
}

}  // namespace

Membership membership(const Job& job, GroupKind kind, std::int32_t rank) {
  Membership result{ranks_of(job, kind, rank), 0};
  const auto own = std::find(result.ranks.begin(), result.ranks.end(), rank);
  result.own_index = static_cast<int>(own - result.ranks.begin());
  return result;
}

}  // namespace zplan::exec
