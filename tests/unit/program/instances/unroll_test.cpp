#include "planner/program/instances/unroll.h"

#include <gtest/gtest.h>

#include <set>

#include "planner/core/error.h"
#include "tests/support/random_job.h"
#include "tests/support/same_stream.h"

namespace zplan {
namespace {

TEST(Unroll, ChangesNeitherOperationsNorWaits) {
  const Job folded = sample_job();
  const Job flat = unroll(folded);
  for (std::size_t c = 0; c < folded.classes.size(); ++c) {
    expect_same_stream(folded.classes[c].program, flat.classes[c].program, 3);
  }
}

TEST(Unroll, LeavesNoLoopAndNoInnerLevel) {
  for (const RankClass& c : unroll(sample_job()).classes) {
    for (const Block& block : c.program.blocks) EXPECT_EQ(block.count, 1);
    for (const Edge& edge : c.program.edges) EXPECT_EQ(edge.level, 0);
    const ProgramIndex index(c.program);
    EXPECT_EQ(static_cast<std::size_t>(index.all_nodes()), c.program.nodes.size());
  }
}

TEST(Unroll, KeepsCarriesAsCarries) {
  const Program folded = sample_job().classes[0].program;
  const Program flat = unroll(sample_job()).classes[0].program;
  const auto has_carry = [](const Program& p) {
    return std::any_of(p.edges.begin(), p.edges.end(), [](const Edge& e) { return e.delta == 1; });
  };
  EXPECT_TRUE(has_carry(folded));
  EXPECT_TRUE(has_carry(flat));
}

TEST(Unroll, TwiceIsOnce) {
  const Job once = unroll(placed_sample_job());
  EXPECT_EQ(to_text(unroll(once)), to_text(once));
}

TEST(Unroll, RefusesAnEndlessJob) {
  SampleBuilder b;
  b.begin(1 << 15);
  b.begin(1 << 15);
  b.mark({}, Lane::kCompute);
  Job job;
  job.classes.emplace_back().program = b.finish();
  EXPECT_THROW(unroll(job), Error);
}

}  // namespace
}  // namespace zplan
