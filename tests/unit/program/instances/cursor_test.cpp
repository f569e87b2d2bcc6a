#include "planner/program/instances/cursor.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/brute_force.h"
#include "tests/support/sample_job.h"

namespace zplan {
namespace {

void expect_same(const Instance& a, const Instance& b) {
  EXPECT_EQ(a.node, b.node);
  EXPECT_EQ(a.iterations, b.iterations);
  EXPECT_EQ(a.env.micro, b.env.micro);
  EXPECT_EQ(a.env.layer, b.env.layer);
  EXPECT_EQ(a.lane_sequence, b.lane_sequence);
  EXPECT_EQ(a.program_sequence, b.program_sequence);
}

class SampleCursor : public testing::TestWithParam<int> {
 protected:
  const RankClass class_ = sample_class(GetParam());
  const Program& program_ = class_.program;
  const ProgramIndex index_{program_};
};
INSTANTIATE_TEST_SUITE_P(Stages, SampleCursor, testing::Values(0, 1));

TEST_P(SampleCursor, WalksAllLanesInProgramOrder) {
  Cursor cursor(index_, std::nullopt);
  for (const Instance& expected : all_instances(program_, 3)) {
    expect_same(*cursor, expected);
    cursor.advance();
  }
  EXPECT_EQ(cursor->step(), 3);
}

TEST_P(SampleCursor, WalksOneLaneInItsOrder) {
  const auto all = all_instances(program_, 3);
  for (int l = 0; l < kLaneCount; ++l) {
    const auto lane = static_cast<Lane>(l);
    Cursor cursor(index_, lane);
    std::int64_t seen = 0;
    for (const Instance& expected : all) {
      if (program_.nodes[expected.node].lane != lane) continue;
      ASSERT_FALSE(cursor.empty());
      expect_same(*cursor, expected);
      cursor.advance();
      ++seen;
    }
    EXPECT_EQ(cursor.empty(), seen == 0) << name(lane);
    EXPECT_EQ(index_.lane_nodes(lane) * 3, seen) << name(lane);
  }
}

TEST_P(SampleCursor, FindsThePlaceOfAnyInstance) {
  for (const Instance& i : all_instances(program_, 3)) {
    EXPECT_EQ(index_.lane_sequence(i.node, i.iterations), i.lane_sequence);
    EXPECT_EQ(index_.program_sequence(i.node, i.iterations), i.program_sequence);
  }
}

TEST_P(SampleCursor, ResolvesEdgesToTheInstanceTheyName) {
  const auto all = all_instances(program_, 3);
  for (const Instance& i : all) {
    const Node& owner = program_.nodes[i.node];
    for (const Edge& edge : program_.after(owner)) {
      const Instance* target = find_target(program_, all, i, edge);
      const auto threshold = index_.resolve(edge, i.iterations);
      ASSERT_EQ(threshold.has_value(), target != nullptr) << name(owner.role);
      if (target == nullptr) continue;
      EXPECT_EQ(threshold->lane, program_.nodes[edge.node].lane);
      EXPECT_EQ(threshold->completed, target->lane_sequence + 1) << name(owner.role);
      EXPECT_EQ(threshold->reuse, edge.reuse);
    }
  }
}

TEST_P(SampleCursor, GivesEachOperationOfAStepItsOwnId) {
  std::set<OpId> ids;
  for (const Instance& i : all_instances(program_, 1)) {
    const OpId id = op_id(program_.nodes[i.node].role, i.env);
    EXPECT_TRUE(ids.insert(id).second) << op_name(id);
  }
}

TEST(Cursor, AddsToTheOuterValueInARelativeLoop) {
  SampleBuilder b;
  b.begin(2, Var::kMicro, 0, 3);
  b.begin(3, Var::kMicro, 0, 1, true);
  b.mark({}, Lane::kCompute);
  b.end();
  b.end();
  const Program program = b.finish();
  const ProgramIndex index(program);
  Cursor cursor(index, Lane::kCompute);
  for (std::int64_t micro = 0; micro < 6; ++micro, cursor.advance()) {
    EXPECT_EQ(cursor->env.micro, micro);
  }
  EXPECT_EQ(cursor->step(), 1);
  EXPECT_EQ(cursor->env.micro, 0);
}

TEST(Cursor, HasNothingToWalkInAnEmptyProgram) {
  Program program;
  program.blocks.emplace_back();
  const ProgramIndex index(program);
  EXPECT_TRUE(Cursor(index, std::nullopt).empty());
  EXPECT_TRUE(Cursor(index, Lane::kCpu).empty());
}

}  // namespace
}  // namespace zplan
