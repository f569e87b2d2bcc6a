#include "planner/program/job/meetings.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/meshes.h"

namespace zplan {
namespace {

using Ranks = std::vector<std::int32_t>;

using testing_support::mesh_of;
namespace groups = testing_support::groups;

TEST(Meetings, DataGroupsAreTheReplicasOfAStage) {
  EXPECT_EQ(members_of(mesh_of({.dp = 3, .pp = 2}), groups::kData, 4).ranks, (Ranks{3, 4, 5}));
  EXPECT_EQ(members_of(mesh_of({.dp = 3, .pp = 2, .pipeline_first = true}), groups::kData, 3).ranks,
            (Ranks{1, 3, 5}));
  EXPECT_EQ(members_of(mesh_of({.dp = 2, .tp = 2, .pp = 2}), groups::kData, 5).ranks,
            (Ranks{5, 7}));
}

TEST(Meetings, EmbeddingGroupsAreTheFirstAndTheLastStageOfAReplica) {
  const Mesh mesh = mesh_of({.dp = 2, .pp = 3});
  EXPECT_EQ(members_of(mesh, groups::kEmbedding, 5).ranks, (Ranks{1, 5}));
  EXPECT_EQ(members_of(mesh, groups::kEmbedding, 5).own_index, 1);
  EXPECT_EQ(members_of(mesh_of({.dp = 2, .pp = 1}), groups::kEmbedding, 1).ranks, (Ranks{1}));
  EXPECT_EQ(members_of(mesh_of({.dp = 1, .tp = 2, .pp = 2}), groups::kEmbedding, 1).ranks,
            (Ranks{1, 3}));
}

TEST(Meetings, TensorGroupsAreTheNeighboursOfAReplicaAndStage) {
  for (const bool order : {false, true}) {
    const Mesh mesh = mesh_of({.dp = 2, .tp = 2, .pp = 2, .pipeline_first = order});
    EXPECT_EQ(members_of(mesh, groups::kTensor, 4).ranks, (Ranks{4, 5}));
    EXPECT_EQ(members_of(mesh, groups::kTensor, 3).ranks, (Ranks{2, 3}));
  }
}

TEST(Meetings, ShardAndReplicaGroupsDivideTheDataGroup) {
  const Mesh mesh = mesh_of({.dp = 4, .tp = 2, .shards = 2});
  EXPECT_EQ(members_of(mesh, groups::kShard, 1).ranks, (Ranks{1, 3}));
  EXPECT_EQ(members_of(mesh, groups::kShard, 7).ranks, (Ranks{5, 7}));
  EXPECT_EQ(members_of(mesh, groups::kReplica, 1).ranks, (Ranks{1, 5}));
  EXPECT_EQ(members_of(mesh, groups::kReplica, 6).ranks, (Ranks{2, 6}));
  EXPECT_EQ(members_of(mesh, groups::kReplica, 6).own_index, 1);
}

TEST(Meetings, TheWorldIsOrderedByStageReplicaAndTensorUnderEveryRankOrder) {
  EXPECT_EQ(members_of(mesh_of({.dp = 2, .pp = 2}), groups::kWorld, 0).ranks, (Ranks{0, 1, 2, 3}));
  EXPECT_EQ(
      members_of(mesh_of({.dp = 2, .pp = 2, .pipeline_first = true}), groups::kWorld, 0).ranks,
      (Ranks{0, 2, 1, 3}));
  EXPECT_EQ(
      members_of(mesh_of({.dp = 2, .tp = 2, .pp = 2, .pipeline_first = true}), groups::kWorld, 0)
          .ranks,
      (Ranks{0, 1, 4, 5, 2, 3, 6, 7}));
}

TEST(Meetings, GroupsHaveTheirSizeAndTheOwnIndexIsThePlaceInThem) {
  for (const bool order : {false, true}) {
    const Mesh mesh = mesh_of({.dp = 4, .tp = 3, .pp = 2, .shards = 2, .pipeline_first = order});
    for (const Group& kind : {groups::kData, groups::kEmbedding, groups::kWorld, groups::kTensor,
                              groups::kShard, groups::kReplica}) {
      for (std::int32_t rank = 0; rank < mesh.world(); ++rank) {
        const Members m = members_of(mesh, kind, rank);
        EXPECT_EQ(std::ssize(m.ranks), mesh.size(kind)) << name(mesh, kind);
        EXPECT_EQ(m.ranks[static_cast<std::size_t>(m.own_index)], rank) << name(mesh, kind);
      }
    }
  }
}

TEST(Meetings, APeerIsOnTheSameReplica) {
  const Peer next = testing_support::stage_at(1);
  EXPECT_EQ(peer_rank(mesh_of({.dp = 2, .pp = 2}), 1, next), 3);
  EXPECT_EQ(peer_rank(mesh_of({.dp = 2, .pp = 2, .pipeline_first = true}), 2, next), 3);
  EXPECT_EQ(peer_rank(mesh_of({.dp = 2, .tp = 2, .pp = 2}), 3, next), 7);
}

TEST(Meetings, TheLastStageIsFollowedByTheFirstWhereThePeerWraps) {
  const Mesh mesh = mesh_of({.dp = 2, .pp = 3});
  const Peer open = testing_support::stage_at(1);
  const Peer ring{open.axis, 1, true}, back{open.axis, -1, true};
  EXPECT_EQ(peer_stage(mesh, 1, ring), 2);
  EXPECT_EQ(peer_stage(mesh, 2, ring), 0);
  EXPECT_EQ(peer_stage(mesh, 0, back), 2);
  EXPECT_EQ(peer_stage(mesh, 2, open), std::nullopt);
  EXPECT_EQ(peer_rank(mesh, 5, ring), 1);
}

TEST(Meetings, GroupsOfAStageAreAllThatHaveAMemberThere) {
  const Mesh mesh = mesh_of({.dp = 4, .tp = 2, .pp = 2, .shards = 2});
  using Groups = std::vector<Ranks>;
  EXPECT_EQ(groups_at(mesh, groups::kShard, 1), (Groups{{8, 10}, {9, 11}, {12, 14}, {13, 15}}));
  EXPECT_EQ(groups_at(mesh, groups::kTensor, 0), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(groups_at(mesh, groups::kEmbedding, 0).size(), 8u);
  EXPECT_EQ(groups_at(mesh, groups::kEmbedding, 0)[3], (Ranks{3, 11}));
  EXPECT_EQ(ranks_of_stage(mesh, 1), (Ranks{8, 9, 10, 11, 12, 13, 14, 15}));
}

TEST(Meetings, OnlyGroupsAlongThePipelineSpanStages) {
  const Mesh mesh = mesh_of({.dp = 2, .pp = 3}), alone = mesh_of({.dp = 2});
  EXPECT_TRUE(spans_stages(mesh, groups::kWorld));
  EXPECT_TRUE(spans_stages(mesh, groups::kEmbedding));
  EXPECT_FALSE(spans_stages(mesh, groups::kData));
  EXPECT_FALSE(spans_stages(alone, groups::kWorld));
  EXPECT_EQ(stages_of(mesh, groups::kWorld, 1), (std::vector<std::int32_t>{0, 1, 2}));
  EXPECT_EQ(stages_of(mesh, groups::kEmbedding, 0), (std::vector<std::int32_t>{0, 2}));
  EXPECT_EQ(stages_of(mesh, groups::kData, 1), (std::vector<std::int32_t>{1}));
  EXPECT_FALSE(in_group(mesh, groups::kEmbedding, 1));
  EXPECT_EQ(members_of(mesh, groups::kEmbedding, 2).ranks, (Ranks{2}));
}

}  // namespace
}  // namespace zplan
