// An encoder before a decoder: its output is made once and read by every layer of the decoder, its
// gradient is added up over these and goes through the encoder once, and what both look tokens up
// in has one gradient.
#include <gtest/gtest.h>

#include <string>

#include "models/model_config.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/program/verify/verify.h"

namespace zplan {
namespace {

// Two layers of an encoder, two of a decoder, one micro-step.
Job lowered(std::int32_t tp, int zero_stage, const char* name = "tiny-blender",
            const char* kernel_set = "cpu.f64") {
  const ModelConfig model = load_model(name);
  Plan plan;
  plan.kernel_set = kernel_set;
  plan.precision = default_recipe(plan.kernel_set);
  plan.zero_stage = zero_stage;
  plan.parallel = {.dp = 2, .tp = tp};
  plan.parallel.sequence_parallel = tp > 1;
  plan.batch = {.global_batch = 4, .micro_batch = 2, .sequence = model.sequence};
  Job job = lower(plan, model);
  place(job);
  EXPECT_EQ(verify(job), std::vector<std::string>{});
  return job;
}

// Nodes of a role, each as often as loops over layers run it.
int count(const Job& job, const Role& role) {
  int sum = 0;
  const Program& p = job.classes.front().program;
  for (const Node& n : p.nodes) {
    if (n.role != role) continue;
    int runs = 1;
    for (BlockIndex b = n.block; b != 0; b = p.blocks[b].parent) runs *= p.blocks[b].count;
    sum += runs;
  }
  return sum;
}

TEST(Encoder, ItsOutputIsGatheredOnceAndItsGradientSummedOnce) {
  const Job job = lowered(2, 0);
  EXPECT_EQ(count(job, {Phase::kForward, Part::kEncoded, Action::kGatherRanks}), 1);
  EXPECT_EQ(count(job, {Phase::kBackward, Part::kEncoded, Action::kSumRanks}), 1);
  EXPECT_EQ(count(job, {Phase::kBackward, Part::kEncoded, Action::kZero}), 1);
}

TEST(Encoder, EveryLayerOfTheDecoderReadsItAndAddsToItsGradient) {
  const Job job = lowered(1, 0);
  for (const Part part : {Part::kCrossKey, Part::kCrossValue}) {
    EXPECT_EQ(count(job, {Phase::kForward, part, Action::kCompute}), 2);
    EXPECT_EQ(count(job, {Phase::kBackward, part, Action::kInputGradient}), 2);
  }
  EXPECT_EQ(count(job, {Phase::kForward, Part::kAttention, Action::kCompute}), 4 + 2);
}

TEST(Encoder, TheTableOfTokensHasOneGradient) {
  for (const int zero_stage : {0, 3}) {
    const Job job = lowered(1, zero_stage);
    EXPECT_EQ(count(job, {Phase::kBackward, Part::kEmbedding, Action::kWeightGradient}), 2);
    EXPECT_EQ(count(job, {Phase::kBackward, Part::kEmbedding, Action::kReduce}), 1);
  }
}

// Each stack looks its own up once for a micro-batch, and takes one gradient back to its table.
TEST(Encoder, BiasesByDistanceAreMadeOncePerStackAndAddedInEachLayer) {
  for (const char* kernel_set : {"cpu.f64", "cpu.f64.unfused"}) {
    const Job job = lowered(2, 3, "tiny-t5", kernel_set);
    for (const Part part : {Part::kPosition, Part::kEncoderPosition}) {
      EXPECT_EQ(count(job, {Phase::kForward, part, Action::kCompute}), 1);
      EXPECT_EQ(count(job, {Phase::kForward, part, Action::kGather}), 1);
      EXPECT_EQ(count(job, {Phase::kBackward, part, Action::kWeightGradient}), 1);
      EXPECT_EQ(count(job, {Phase::kBackward, part, Action::kReduce}), 1);
      EXPECT_EQ(count(job, {Phase::kBackward, part, Action::kSumShared}), 0)
          << "each rank has the columns of its heads";
    }
  }
  const Job job = lowered(1, 0, "tiny-t5", "cpu.f64.unfused");
  EXPECT_EQ(count(job, {Phase::kForward, Part::kScores, Action::kAccumulate}), 4);
  EXPECT_EQ(count(job, {Phase::kBackward, Part::kScores, Action::kBiasGradient}), 4);
}

}  // namespace
}  // namespace zplan
