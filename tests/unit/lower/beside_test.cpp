// The layers of two micro-batches beside each other: the same operations in another order, with the
// exchange of tokens between experts beside what the other micro-batch computes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "planner/program/instances/unroll.h"
#include "planner/program/verify/verify.h"
#include "tests/support/timeline.h"

namespace zplan {
namespace {

using testing_support::placed_job;
using testing_support::timeline_of;

Plan plan_of(const char* model, int pp = 1, int micro_steps = 4) {
  Plan plan;
  plan.model = model;
  plan.hardware = "workstation";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.dp = plan.parallel.ep = 2;
  plan.parallel.pp = pp;
  if (pp > 1) plan.schedule = Schedule::kInterleaved;
  plan.batch = {.global_batch = 2 * micro_steps, .micro_batch = 1, .sequence = 32};
  return plan;
}

Plan beside(Plan plan) {
  plan.overlap.exchange = true;
  return plan;
}

std::int64_t micro_of(OpId op) { return static_cast<std::int64_t>(op & 0xfffff); }

// Returns those of a step, by lane.
std::multiset<std::pair<Lane, OpId>> operations(const Plan& plan) {
  std::multiset<std::pair<Lane, OpId>> all;
  for (const RankTimeline& rank : timeline_of(plan).ranks)
    for (const Span& span : rank.spans)
      if (span.step == 1) all.insert({span.lane, span.op});
  return all;
}

// Time that tokens are on their way while kernels of another micro-batch run, over all ranks.
double hidden(const Plan& plan) {
  double sum = 0;
  for (const RankTimeline& rank : timeline_of(plan).ranks)
    for (const Span& a : rank.spans)
      for (const Span& b : rank.spans) {
        if (a.lane != Lane::kCommTensor || role_of(a.op).action != Action::kExchange ||
            b.lane != Lane::kCompute)
          continue;
        if (micro_of(a.op) == micro_of(b.op)) continue;
        const auto begin = std::max(a.start, b.start), end = std::min(a.end, b.end);
        if (begin < end) sum += static_cast<double>((end - begin).value);
      }
  return sum;
}

TEST(Beside, IsTheSameOperationsInAnotherOrder) {
  for (const char* model : {"tiny-moe", "tiny-deepseek", "tiny-gpt-oss", "tiny-switch"})
    for (const int pp : {1, 2}) {
      const Plan plan = plan_of(model, pp);
      if (illegal(plan, shape_of(load_model(model)))) continue;
      ASSERT_EQ(illegal(beside(plan), shape_of(load_model(model))), std::nullopt) << model << pp;
      EXPECT_EQ(operations(beside(plan)), operations(plan)) << model << pp;
    }
}

TEST(Beside, PairsOfDualPipeAreTheSameOperationsInAnotherOrder) {
  for (const Schedule schedule : {Schedule::kDualPipeV, Schedule::kDualPipe})
    for (const char* model : {"tiny-moe", "tiny-deepseek"}) {
      Plan plan = plan_of(model, 2, 6);
      plan.schedule = schedule;
      plan.hardware = "dgx-a100";
      if (schedule == Schedule::kDualPipe) plan.parallel.dp = 4;
      plan.batch.global_batch = 6 * plan.parallel.dp;
      ASSERT_EQ(illegal(beside(plan), shape_of(load_model(model))), std::nullopt) << model;
      EXPECT_EQ(operations(beside(plan)), operations(plan)) << model;
      EXPECT_THAT(verify(placed_job(beside(plan))), testing::IsEmpty()) << model;
      EXPECT_GT(hidden(beside(plan)), hidden(plan)) << model;
    }
}

TEST(Beside, ExchangesTokensBesideAnotherMicroBatch) {
  EXPECT_EQ(hidden(plan_of("tiny-moe")), 0);
  EXPECT_GT(hidden(beside(plan_of("tiny-moe"))), 0);
}

TEST(Beside, IsVerifiedWithWhateverItGoesWith) {
  using Change = void (*)(Plan&);
  constexpr Change kChanges[] = {
      [](Plan&) {},
      [](Plan& p) { p.zero_stage = 1; },
      [](Plan& p) { p.zero_stage = 2; },
      [](Plan& p) { p.zero_stage = 3; },
      [](Plan& p) { p.zero_stage = 3, p.gather = Gather::kLayer, p.prefetch = 2; },
      [](Plan& p) { p.zero_stage = 3, p.placement.params = Tier::kCpu; },
      [](Plan& p) { p.dispatcher = Dispatcher::kAllGather; },
      [](Plan& p) { p.overlap.weight_gradients = true; },
      [](Plan& p) { p.overlap.weight_gradients = true, p.gather = Gather::kLayer; },
      [](Plan& p) { p.overlap.gradients = false, p.zero_stage = 2; },
      [](Plan& p) { p.parallel.tp = 2; },
      [](Plan& p) { p.parallel.tp = 2, p.parallel.sequence_parallel = true; },
      [](Plan& p) { p.placement.optimizer = Tier::kCpu; },
      [](Plan& p) { p.slack = 0; },
      [](Plan& p) { p.expert_imbalance = 1; },
      [](Plan& p) { p.head_chunks = 2; },
      [](Plan& p) {
        p.recompute = {
            {Recompute::kOperators, 0, {LayerOperator::kNorm, LayerOperator::kActivation}}};
      },
      [](Plan& p) {
        p.recompute = {{Recompute::kOperators, 0, {}, {LayerOperator::kQkv}}};
      },
      [](Plan& p) {
        p.recompute = {{Recompute::kSelective, 1}, {Recompute::kNone, 0}};
      }};
  for (const char* model : {"tiny-moe", "tiny-deepseek", "tiny-gpt-oss", "tiny-switch"})
    for (const int pp : {1, 2})
      for (std::size_t i = 0; i < std::size(kChanges); ++i) {
        Plan plan = beside(plan_of(model, pp));
        kChanges[i](plan);
        if (illegal(plan, shape_of(load_model(model)))) continue;
        EXPECT_THAT(verify(placed_job(plan)), testing::IsEmpty()) << model << pp << " " << i;
      }
}

// Two micro-batches are there at once, of which one takes the places of layers that the other is
// done with.
TEST(Beside, KeepsALayerMoreThanOneMicroBatch) {
  const ModelConfig model = load_model("tiny-moe");
  const auto slots = [&](const Plan& plan, std::string_view name) {
    const Job job = lower(plan, model);
    for (const Buffer& buffer : job.classes[0].program.buffers)
      if (buffer.name == name) return buffer.slots;
    return 0;
  };
  const Plan plan = plan_of("tiny-moe");
  const auto layers = static_cast<std::int32_t>(model.layers);
  EXPECT_EQ(slots(plan, "experts.input"), layers);
  EXPECT_EQ(slots(beside(plan), "experts.input"), layers + 1);
  EXPECT_EQ(slots(beside(plan), "logits"), 1);
}

TEST(Beside, OneLoopGoesThroughLayersOfBoth) {
  const Job job = lower(beside(plan_of("tiny-moe")), load_model("tiny-moe"));
  const Program& program = job.classes[0].program;
  const auto mirrored = [](const Block& block) { return block.mirrored; };
  EXPECT_GT(std::count_if(program.blocks.begin(), program.blocks.end(), mirrored), 0);
  EXPECT_EQ(verify(unroll(job)), verify(job));
}

}  // namespace
}  // namespace zplan
