// Optimizer states of a part of the layers one tier nearer than those of the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/program/text/text.h"
#include "planner/program/verify/verify.h"

namespace zplan {
namespace {

constexpr int kLayers = 4;  // of tiny-gpt

Plan plan_of(Tier optimizer, double near, Gather gather = Gather::kLayer) {
  Plan plan;
  plan.model = "tiny-gpt";
  plan.hardware = "workstation";
  plan.kernel_set = "cpu.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.gather = gather;
  plan.batch = {.global_batch = 4, .micro_batch = 4, .sequence = 32};
  plan.placement.optimizer = optimizer;
  plan.placement.optimizer_near = near;
  return plan;
}

Job job_of(const Plan& plan) { return lower(plan, load_model(plan.model)); }

// By name of the unit without ends: layers whose first moments lie in the tier.
std::int64_t layers_in(const Job& job, Tier tier, std::size_t stage = 0) {
  std::int64_t slots = 0;
  const RankClass& c = job.classes[stage];
  for (const UnitHome& home : c.homes)
    if (job.units[home.unit].per_layer)
      for (const BufferId id : home.moments[0].buffers())
        if (c.program.buffers[id].tier == tier) slots += c.program.buffers[id].slots;
  return slots;
}

std::int64_t updates_on(const Job& job, Lane lane) {
  std::int64_t count = 0;
  for (const RankClass& c : job.classes)
    for (const Node& node : c.program.nodes) {
      if (node.kind != OpKind::kKernel || node.kernel != KernelId::kAdamW || node.lane != lane)
        continue;
      std::int64_t times = 1;
      for (BlockIndex b = node.block; b != 0; b = c.program.blocks[b].parent)
        times *= c.program.blocks[b].count;
      count += times;
    }
  return count;
}

TEST(NearOptimizer, IsThatOfWholeLayersAndNeverOfMoreThanTheShare) {
  const std::pair<double, int> shares[] = {{0.1, 0},  {0.25, 1}, {0.49, 1}, {0.5, 2},
                                           {0.75, 3}, {0.99, 3}, {1, 4}};
  for (const auto& [share, layers] : shares) {
    const Job nvme = job_of(plan_of(Tier::kNvme, share));
    EXPECT_EQ(layers_in(nvme, Tier::kCpu), layers) << share;
    EXPECT_EQ(layers_in(nvme, Tier::kNvme), kLayers - layers) << share;
    const Job cpu = job_of(plan_of(Tier::kCpu, share));
    EXPECT_EQ(layers_in(cpu, Tier::kGpu), layers) << share;
    EXPECT_EQ(layers_in(cpu, Tier::kCpu), kLayers - layers) << share;
  }
}

TEST(NearOptimizer, IsAShareOfTheLayersOfEachStage) {
  Plan plan = plan_of(Tier::kNvme, 0.5);
  plan.parallel.pp = 2;
  plan.stage_layers = {1, 3};
  const Job job = job_of(plan);
  EXPECT_EQ(layers_in(job, Tier::kCpu, 0), 0);
  EXPECT_EQ(layers_in(job, Tier::kCpu, 1), 1);
  EXPECT_EQ(layers_in(job, Tier::kNvme, 1), 2);
}

TEST(NearOptimizer, UpdatesEachLayerWhereItsStatesLive) {
  const Job job = job_of(plan_of(Tier::kCpu, 0.75));
  // On the GPU also the embeddings, on the CPU the final norm; the head is tied.
  const std::int64_t all = updates_on(job_of(plan_of(Tier::kCpu, 0)), Lane::kCpu);
  EXPECT_EQ(updates_on(job, Lane::kCpu), 2);
  EXPECT_EQ(updates_on(job, Lane::kCompute), all - 2);
  EXPECT_EQ(updates_on(job_of(plan_of(Tier::kNvme, 0.75)), Lane::kCpu), all);
}

TEST(NearOptimizer, TakesTheEndsOfTheModelWithTheLayersBesideThem) {
  for (const char* model : {"tiny-gpt", "tiny-llama"}) {
    Plan plan = plan_of(Tier::kNvme, 0.5);
    plan.model = model;
    const Job job = job_of(plan);
    for (const UnitHome& home : job.classes[0].homes) {
      const Unit& unit = job.units[home.unit];
      if (unit.per_layer) continue;
      const bool is_last = unit.name == "head" || unit.name == "final_norm";
      const Tier tier = job.classes[0].program.buffers[home.master.buffer].tier;
      EXPECT_EQ(tier, is_last ? Tier::kNvme : Tier::kCpu) << model << " " << unit.name;
      EXPECT_FALSE(home.master.rest) << unit.name;
    }
  }
}

// Runs of layers, in the order of the unsplit update.
TEST(NearOptimizer, IsTwoLoopsOfOneUpdate) {
  std::vector<std::pair<int, int>> loops;
  const Job job = job_of(plan_of(Tier::kNvme, 0.25));
  const Program& program = job.classes[0].program;
  for (const Node& node : program.nodes)
    if (node.kind == OpKind::kKernel && node.kernel == KernelId::kAdamW && node.block != 0)
      loops.emplace_back(program.blocks[node.block].first, program.blocks[node.block].count);
  EXPECT_EQ(loops, (std::vector<std::pair<int, int>>{{0, 1}, {1, 3}}));
}

TEST(NearOptimizer, IsSoundInEveryKindOfUnitAndSchedule) {
  for (const Tier tier : {Tier::kCpu, Tier::kNvme})
    for (const Gather gather : {Gather(Gather::kOperator), Gather(Gather::kLayer),
                                Gather::of_layers(2), Gather::in_tiles(2)})
      for (const Schedule schedule : {Schedule::kOneForwardOneBackward, Schedule::kInterleaved}) {
        Plan plan = plan_of(tier, 0.5, gather);
        plan.zero_stage = 3;
        plan.parallel.dp = 2;
        plan.batch.global_batch = 8;
        plan.batch.micro_batch = 1;
        if (schedule == Schedule::kInterleaved) {
          if (gather.layers() > 1) continue;
          plan.parallel.pp = 2;
          plan.schedule = schedule;
        }
        ASSERT_EQ(illegal(plan, kLayers), std::nullopt);
        Job job = job_of(plan);
        place(job, {.slack = plan.slack});
        EXPECT_TRUE(verify(job).empty()) << verify(job).front();
      }
}

TEST(NearOptimizer, IsReadBackFromTextWithBothHomes) {
  const Job job = job_of(plan_of(Tier::kNvme, 0.5));
  EXPECT_EQ(to_text(parse_zprog(to_text(job), "job.zprog")), to_text(job));
}

auto says(const char* words) { return testing::Contains(testing::HasSubstr(words)); }

TEST(NearOptimizer, IsNotSoundWhereItsHomesDoNotHoldEachLayerOnce) {
  const auto findings = [](auto change) {
    Job job = job_of(plan_of(Tier::kNvme, 0.5));
    RankClass& c = job.classes[0];
    const auto layer = std::find_if(c.homes.begin(), c.homes.end(), [&](const UnitHome& home) {
      return job.units[home.unit].per_layer;
    });
    change(c.program, layer->master);
    return verify(job);
  };
  EXPECT_THAT(findings([](Program&, StateHome& home) { home.rest.reset(); }),
              says("2 slots for 4 copies"));
  EXPECT_THAT(findings([](Program&, StateHome& home) { home.rest = home.buffer; }),
              says("goes on in the same"));
  EXPECT_THAT(findings([](Program& p, StateHome& home) {
                home.rest = static_cast<BufferId>(p.buffers.size());
              }),
              says("is kept in buffer"));
  EXPECT_THAT(
      findings([](Program& p, StateHome& home) { p.buffers[*home.rest].dtype = DType::kBf16; }),
      says("different types"));
}

}  // namespace
}  // namespace zplan
