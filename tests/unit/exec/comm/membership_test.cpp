#include "exec/comm/membership.h"

#include <gtest/gtest.h>

#include <vector>

namespace zplan::exec {
namespace {

using Ranks = std::vector<std::int32_t>;

Job job_of(std::int32_t dp, std::int32_t pp, RankOrder order = RankOrder::kDataFirst,
           std::int32_t tp = 1) {
  Job job;
  job.dp = job.shards = dp;
  job.tp = tp;
  job.pp = pp;
  job.order = order;
  return job;
}

TEST(Membership, DataGroupsAreTheReplicasOfAStage) {
  EXPECT_EQ(membership(job_of(3, 2), GroupKind::kData, 4).ranks, (Ranks{3, 4, 5}));
  EXPECT_EQ(membership(job_of(3, 2, RankOrder::kPipelineFirst), GroupKind::kData, 3).ranks,
            (Ranks{1, 3, 5}));
  EXPECT_EQ(membership(job_of(2, 2, RankOrder::kDataFirst, 2), GroupKind::kData, 5).ranks,
            (Ranks{5, 7}));
}

TEST(Membership, EmbeddingGroupsAreTheFirstAndTheLastStageOfAReplica) {
  const Job job = job_of(2, 3);
  EXPECT_EQ(membership(job, GroupKind::kEmbedding, 5).ranks, (Ranks{1, 5}));
  EXPECT_EQ(membership(job, GroupKind::kEmbedding, 5).own_index, 1);
  EXPECT_EQ(membership(job_of(2, 1), GroupKind::kEmbedding, 1).ranks, (Ranks{1}));
  EXPECT_EQ(membership(job_of(1, 2, RankOrder::kDataFirst, 2), GroupKind::kEmbedding, 1).ranks,
            (Ranks{1, 3}));
}

TEST(Membership, TensorGroupsAreTheNeighboursOfAReplicaAndStage) {
  for (RankOrder order : {RankOrder::kDataFirst, RankOrder::kPipelineFirst}) {
    const Job job = job_of(2, 2, order, 2);
    EXPECT_EQ(membership(job, GroupKind::kTensor, 4).ranks, (Ranks{4, 5}));
    EXPECT_EQ(membership(job, GroupKind::kTensor, 3).ranks, (Ranks{2, 3}));
  }
}

TEST(Membership, ShardAndReplicaGroupsDivideTheDataGroup) {
  Job job = job_of(4, 1, RankOrder::kDataFirst, 2);
  job.shards = 2;
  EXPECT_EQ(membership(job, GroupKind::kShard, 1).ranks, (Ranks{1, 3}));
  EXPECT_EQ(membership(job, GroupKind::kShard, 7).ranks, (Ranks{5, 7}));
  EXPECT_EQ(membership(job, GroupKind::kReplica, 1).ranks, (Ranks{1, 5}));
  EXPECT_EQ(membership(job, GroupKind::kReplica, 6).ranks, (Ranks{2, 6}));
  EXPECT_EQ(membership(job, GroupKind::kReplica, 6).own_index, 1);
}

TEST(Membership, TheWorldIsOrderedByStageReplicaAndTensorUnderEveryRankOrder) {
  EXPECT_EQ(membership(job_of(2, 2), GroupKind::kWorld, 0).ranks, (Ranks{0, 1, 2, 3}));
  EXPECT_EQ(membership(job_of(2, 2, RankOrder::kPipelineFirst), GroupKind::kWorld, 0).ranks,
            (Ranks{0, 2, 1, 3}));
  EXPECT_EQ(membership(job_of(2, 2, RankOrder::kPipelineFirst, 2), GroupKind::kWorld, 0).ranks,
            (Ranks{0, 1, 4, 5, 2, 3, 6, 7}));
}

TEST(Membership, GroupsHaveTheirSizeAndTheOwnIndexIsThePlaceInThem) {
  for (RankOrder order : {RankOrder::kDataFirst, RankOrder::kPipelineFirst}) {
    Job job = job_of(4, 2, order, 3);
    job.shards = 2;
    for (GroupKind kind : {GroupKind::kData, GroupKind::kEmbedding, GroupKind::kWorld,
                           GroupKind::kTensor, GroupKind::kShard, GroupKind::kReplica}) {
      for (std::int32_t rank = 0; rank < job.world(); ++rank) {
        const Membership m = membership(job, kind, rank);
        EXPECT_EQ(std::ssize(m.ranks), job.group_size(kind)) << name(kind);
        EXPECT_EQ(m.ranks[static_cast<std::size_t>(m.own_index)], rank) << name(kind);
      }
    }
  }
}

TEST(Membership, APeerIsOnTheSameReplica) {
  EXPECT_EQ(peer_rank(job_of(2, 2), 1, 1), 3);
  EXPECT_EQ(peer_rank(job_of(2, 2, RankOrder::kPipelineFirst), 2, 1), 3);
  EXPECT_EQ(peer_rank(job_of(2, 2, RankOrder::kDataFirst, 2), 3, 1), 7);
}

}  // namespace
}  // namespace zplan::exec
