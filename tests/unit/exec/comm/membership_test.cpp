#include "exec/comm/membership.h"

#include <gtest/gtest.h>

#include <vector>

namespace zplan::exec {
namespace {

using Ranks = std::vector<std::int32_t>;

Job job_of(std::int32_t dp, std::int32_t pp, RankOrder order) {
  Job job;
  job.dp = dp;
  job.pp = pp;
  job.order = order;
  return job;
}

TEST(Membership, DataGroupsAreTheReplicasOfAStage) {
  EXPECT_EQ(membership(job_of(3, 2, RankOrder::kDataFirst), GroupKind::kData, 4).ranks,
            (Ranks{3, 4, 5}));
  EXPECT_EQ(membership(job_of(3, 2, RankOrder::kPipelineFirst), GroupKind::kData, 3).ranks,
            (Ranks{1, 3, 5}));
}

TEST(Membership, EmbeddingGroupsAreTheFirstAndTheLastStageOfAReplica) {
  const Job job = job_of(2, 3, RankOrder::kDataFirst);
  EXPECT_EQ(membership(job, GroupKind::kEmbedding, 5).ranks, (Ranks{1, 5}));
  EXPECT_EQ(membership(job, GroupKind::kEmbedding, 5).own_index, 1);
  EXPECT_EQ(membership(job_of(2, 1, RankOrder::kDataFirst), GroupKind::kEmbedding, 1).ranks,
            (Ranks{1}));
}

TEST(Membership, TheWorldIsOrderedByStageAndReplicaUnderEveryRankOrder) {
  EXPECT_EQ(membership(job_of(2, 2, RankOrder::kDataFirst), GroupKind::kWorld, 0).ranks,
            (Ranks{0, 1, 2, 3}));
  EXPECT_EQ(membership(job_of(2, 2, RankOrder::kPipelineFirst), GroupKind::kWorld, 0).ranks,
            (Ranks{0, 2, 1, 3}));
}

TEST(Membership, TheOwnIndexIsThePlaceInTheGroup) {
  const Job job = job_of(3, 2, RankOrder::kPipelineFirst);
  for (GroupKind kind : {GroupKind::kData, GroupKind::kWorld}) {
    for (std::int32_t rank = 0; rank < job.world(); ++rank) {
      const Membership m = membership(job, kind, rank);
      EXPECT_EQ(m.ranks[static_cast<std::size_t>(m.own_index)], rank);
    }
  }
}

TEST(Membership, APeerIsOnTheSameReplica) {
  EXPECT_EQ(peer_rank(job_of(2, 2, RankOrder::kDataFirst), 1, 1), 3);
  EXPECT_EQ(peer_rank(job_of(2, 2, RankOrder::kPipelineFirst), 2, 1), 3);
}

}  // namespace
}  // namespace zplan::exec
