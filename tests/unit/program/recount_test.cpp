// tests/support/recount.py, the second counter of live bytes, on a Job whose counts are known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/meshes.h"
#include "tests/support/recount.h"
#include "tests/support/sample_job.h"

namespace zplan {
namespace {

TEST(Recount, CountsTheSampleByHand) {
  const Recount result = recount(placed_sample_job(), "sample");
  ASSERT_TRUE(result.ok) << result.err;
  const auto gpu = nlohmann::json::parse(result.out).at("0").at("gpu");
  // Live together in the backward loop: param 512, grad 512, x 768, dx 256, dfull 512, scratch
  // 1024. In the forward loop: param 512, grad 512, x 768, full 1024, scratch 1024.
  EXPECT_EQ(gpu.at("peak_bytes"), 512 + 512 + 768 + 1024 + 1024);
  EXPECT_EQ(gpu.at("by_category").at("activations"), 768);
  EXPECT_EQ(gpu.at("by_category").at("gathered"), 1024);
  EXPECT_EQ(gpu.at("by_category").at("workspace"), 1024);
  const auto cpu = nlohmann::json::parse(result.out).at("1").at("cpu");
  EXPECT_EQ(cpu.at("peak_bytes"), 3 * 2 * 4096 + 4096 + 4096);
  EXPECT_EQ(cpu.at("by_category").at("optimizer"), 3 * 2 * 4096);
}

TEST(Recount, AllowsBuffersThatNeverMeetToShareBytes) {
  Job job = placed_sample_job();
  for (RankClass& c : job.classes) c.placement.offset[5] = c.placement.offset[1];  // dfull, full
  const Recount result = recount(job, "shared");
  EXPECT_TRUE(result.ok) << result.err;
}

TEST(Recount, RefusesLiveBuffersThatShareBytes) {
  Job job = placed_sample_job();
  job.classes[1].placement.offset[3] = job.classes[1].placement.offset[5];  // dx on dfull
  const Recount result = recount(job, "clash");
  EXPECT_FALSE(result.ok);
  EXPECT_THAT(result.err, testing::HasSubstr("stage 1: "));
  EXPECT_THAT(result.err, testing::HasSubstr("are live together and share bytes"));
}

TEST(Recount, RefusesAReadOfBytesThatTheStepHasNotWritten) {
  Job job = placed_sample_job();
  job.classes[0].program.buffers[0].persistent = false;  // param
  const Recount result = recount(job, "unwritten");
  EXPECT_FALSE(result.ok);
  EXPECT_THAT(result.err, testing::HasSubstr("param is read before the step has written it"));
}

// Each rank writes a piece of its own; the first one writes what is read, the last one does not.
TEST(Recount, TheBytesOfTheLastRankCountToo) {
  Job job = placed_sample_job();
  Program& p = job.classes[0].program;
  View& gathered = p.views[p.nodes[3].operands_begin + 1];
  View& bias = p.views[p.nodes[4].operands_begin + 2];
  gathered.shape = {64};
  bias.offset = Bytes{0};
  EXPECT_TRUE(recount(job, "same_piece").ok);
  gathered.strides[testing_support::kShard] = 256;
  const Recount apart = recount(job, "own_piece");
  EXPECT_FALSE(apart.ok);
  EXPECT_THAT(apart.err, testing::HasSubstr("full is read before the step has written it"));
  gathered.strides[testing_support::kShard] = 512;
  EXPECT_THAT(recount(job, "beyond").err, testing::HasSubstr("full is accessed beyond its slot"));
}

}  // namespace
}  // namespace zplan
