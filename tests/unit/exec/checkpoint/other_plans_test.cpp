// What another plan takes of a checkpoint, and what it is told that it does not take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "exec/checkpoint/saved_states.h"
#include "tests/support/plan_space.h"
#include "tests/support/trained.h"
#include "tests/unit/exec/offload/storage_folder.h"

namespace zplan::exec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_support::states;
using testing_support::Trained;

constexpr int kSteps = 2;

Plan plan_of(std::int32_t dp, int stage = 0, const std::string& kernel_set = "cpu.f32") {
  Plan plan = testing_support::base_plan(kernel_set);
  plan.parallel.dp = dp;
  plan.batch.micro_batch = 2;
  plan.zero_stage = stage;
  return plan;
}

class CheckpointsOfAnotherPlan : public testing::StorageFolder {
 protected:
  std::unique_ptr<Trained> save(const Plan& plan) const {
    RunOptions options = testing_support::steps(kSteps);
    options.train.loss_scale_interval = 1;
    options.save = {.folder = path()};
    return testing_support::train(plan, options);
  }
  // As they were when the checkpoint was saved.
  std::unique_ptr<Trained> resume(const Plan& plan) {
    RunOptions options = testing_support::steps(kSteps);
    options.resume.path = path();
    options.say = [this](const std::string& line) { lines_.push_back(line); };
    std::unique_ptr<Trained> resumed = testing_support::train(plan, options);
    EXPECT_EQ(resumed->result.begin.step, kSteps);
    return resumed;
  }
  std::string path() const { return (folder_ / "kept").string(); }

  std::vector<std::string> lines_;
};

TEST_F(CheckpointsOfAnotherPlan, HaveTheLossScale) {
  Plan plan = plan_of(1, 0, "cpu.fp16"), other = plan_of(2, 1, "cpu.fp16");
  plan.loss_scaling = other.loss_scaling = true;
  const auto saved = save(plan), resumed = resume(other);
  const auto scale = read_loss_scale(saved->result.memory.front());
  ASSERT_TRUE(scale);
  EXPECT_NE(scale->scale, TrainConfig{}.initial_loss_scale) << "it has doubled";
  for (const RankMemory& memory : resumed->result.memory) {
    const auto own = read_loss_scale(memory);
    ASSERT_TRUE(own);
    EXPECT_EQ(own->scale, scale->scale);
  }
}

// In as many ranks what one step leaves to the next may lie elsewhere.
TEST_F(CheckpointsOfAnotherPlan, OfAsManyRanksAreKnownByTheirFingerprint) {
  save(plan_of(2));
  EXPECT_TRUE(resume(plan_of(2))->result.begin.same_job);
  EXPECT_FALSE(resume(plan_of(2, 1))->result.begin.same_job);
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(CheckpointsOfAnotherPlan, HaveNoMomentsForAnotherOptimizer) {
  save(plan_of(1));
  Plan other = plan_of(1);
  other.optimizer.kind = OptimizerKind::kSgdMomentum;
  const auto resumed = resume(other);
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("the optimizer is another one")));
  for (const auto& [name, values] : states(*resumed, State::kMoment1))
    for (const double value : values) ASSERT_EQ(value, 0) << name;
}

// Which have more bits than the parameters, in whatever pieces both are kept.
TEST_F(CheckpointsOfAnotherPlan, HaveTheBitsOfTheirMasters) {
  const auto saved = save(plan_of(2, 1, "cpu.bf16"));
  const auto resumed = resume(plan_of(1, 0, "cpu.bf16"));
  ASSERT_NE(states(*saved), states(*saved, State::kMaster));
  for (const State state : {State::kParam, State::kMaster})
    EXPECT_EQ(states(*resumed, state), states(*saved, state)) << name(state);
  EXPECT_THAT(lines_, IsEmpty());
}

// Ranks that have other experts have other factors, of which some are whole on each of theirs.
TEST_F(CheckpointsOfAnotherPlan, HaveTheFactorsOfAllExperts) {
  const auto lora_of_experts = [](std::int32_t ep, std::int32_t expert_tp) {
    Plan plan = testing_support::base_plan("cpu.f32", "tiny-moe");
    plan.train = {.what = zplan::Trained::kLora, .rank = 4};
    plan.batch.micro_batch = 1;
    plan.parallel.tp = plan.parallel.dp = 2;
    plan.parallel.ep = ep;
    plan.expert_imbalance = 0;
    plan.parallel.expert_tp = expert_tp;
    plan.parallel.sequence_parallel = true;
    return plan;
  };
  const auto saved = save(lora_of_experts(2, 0));
  for (const Plan& other : {lora_of_experts(1, 0), lora_of_experts(2, 1), lora_of_experts(4, 1)}) {
    const auto resumed = resume(other);
    for (const State state : {State::kParam, State::kMoment1, State::kMoment2})
      EXPECT_EQ(states(*resumed, state), states(*saved, state)) << name(state);
  }
  EXPECT_THAT(lines_, IsEmpty());
}

// Gradients that wait for an update lie where the plan has them.
TEST_F(CheckpointsOfAnotherPlan, HaveNoGradientsForADelayedUpdate) {
  Plan plan = plan_of(2, 2);
  plan.placement.grads = plan.placement.optimizer = Tier::kCpu;
  plan.delayed_update = true;
  plan.gather = Gather::kLayer;
  save(plan);
  plan.gather = Gather::kOperator;
  resume(plan);
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("gradients of a delayed update")));
}

// Of each block that is made of moments in 32 bits no element is beyond the scale.
TEST_F(CheckpointsOfAnotherPlan, HaveMomentsWithinTheScalesOfTheirBlocks) {
  const auto saved = save(plan_of(1));
  Plan other = plan_of(1);
  other.optimizer = {.kind = OptimizerKind::kAdamW8Bit, .block = 64};
  const auto resumed = resume(other);
  const auto exact = states(*saved, State::kMoment1);
  int blocks = 0;
  for (const auto& [name, scales] : states(*resumed, State::kMoment3))
    for (std::size_t i = 0; i < scales.size(); ++i) {
      if (scales[i] == 0) continue;
      ++blocks;
      ASSERT_LE(std::abs(exact.at(name)[i]), scales[i] * (1 + 1e-6)) << name << "[" << i << "]";
    }
  EXPECT_GT(blocks, 0);
}

}  // namespace
}  // namespace zplan::exec
