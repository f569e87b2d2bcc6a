#include "planner/lower/lower.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "models/model_formulas.h"
#include "planner/core/error.h"
#include "planner/program/instances/cursor.h"
#include "planner/program/job/collectives.h"

namespace zplan {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

Plan base_plan() {
  Plan plan;
  plan.kernel_set = "cpu.f32";
  plan.precision = default_recipe(plan.kernel_set);
  plan.gather = Gather::kLayer;
  plan.batch = {.global_batch = 48, .micro_batch = 1, .sequence = 32};
  return plan;
}

TEST(Lower, RefusesIllegalPlansWithTheReason) {
  const ModelConfig model = load_model("tiny-gpt");
  Plan plan = base_plan();
  plan.batch.micro_batch = 5;
  EXPECT_THAT([&] { lower(plan, model); },
              ThrowsMessage<Error>(HasSubstr("the nearest that is: 50")));
  plan = base_plan();
  plan.batch.sequence = 33;
  EXPECT_THAT([&] { lower(plan, model); }, ThrowsMessage<Error>(HasSubstr("32 positions")));
}

// Elements that one rank's layers move in collectives over dp, in units of their parameters; an
// all-reduce counts twice [Rajbhandari20 sec 7].
double layer_volume(const Job& job) {
  const Program& p = job.classes[0].program;
  double elements = 0;
  for (const Node& n : p.nodes) {
    if (n.kind != OpKind::kCollective || n.role.part != Part::kLayer) continue;
    double times = 1;
    for (BlockIndex b = n.block; b != 0; b = p.blocks[b].parent) times *= p.blocks[b].count;
    const auto views = p.operands(n);
    const std::int64_t full = std::max(views[0].shape.elements(), views[1].shape.elements());
    elements +=
        times * static_cast<double>(full) * (n.collective == CollectiveKind::kAllReduce ? 2 : 1);
  }
  for (const Unit& u : job.units)
    if (u.per_layer)
      return elements / static_cast<double>(u.flat_elements * job.classes[0].layer_count());
  return 0;
}

class Volume : public testing::TestWithParam<int> {};

TEST_P(Volume, PerStepIsThatOfTheStage) {
  const int m = GetParam();
  const ModelConfig model = load_model("tiny-gpt");
  for (int stage = 0; stage <= 3; ++stage) {
    Plan plan = base_plan();
    plan.parallel.dp = 4;
    plan.zero_stage = stage;
    plan.batch.global_batch = 4 * m;
    const double expected = stage < 2 ? 2 : stage == 2 ? m + 1 : 3 * m;
    EXPECT_DOUBLE_EQ(layer_volume(lower(plan, model)), expected) << "stage " << stage;
  }
}

INSTANTIATE_TEST_SUITE_P(MicroSteps, Volume, testing::Values(1, 2, 3, 8));

// The layer in an id is that of the model, however many are gathered together.
TEST(UnitLayers, OperationsKeepTheirIds) {
  const auto ids = [](std::int32_t together) {
    Plan plan = base_plan();
    plan.parallel.pp = 2;
    plan.recompute = {{Recompute::kFull, 2}, {Recompute::kNone, 0}};
    plan.gather = Gather::of_layers(together);
    const Job job = lower(plan, load_model("tiny-gpt"));
    std::set<OpId> result;
    for (const RankClass& c : job.classes) {
      const ProgramIndex index(c.program);
      for (Cursor at(index, Lane::kCompute); at->step() == 0; at.advance()) {
        const Node& node = c.program.nodes[at->node];
        if (node.role.phase == Phase::kUpdate || node.role.action == Action::kZero) continue;
        EXPECT_TRUE(result.insert(op_id(c.program, node, at->env)).second);
      }
    }
    return result;
  };
  EXPECT_EQ(ids(2), ids(1));
}

// What only the owner of a layer does: bring its parameters, take its gradients home.
TEST(Owners, OwnTheTransfersOfTheirLayer) {
  Plan plan = base_plan();
  plan.parallel.dp = 2;
  plan.zero_stage = 3;
  plan.placement = {Tier::kNvme, Tier::kCpu, Tier::kCpu, Tier::kGpu};
  plan.gather = Gather::kOwned;
  std::map<Action, std::set<int>> owned;
  const Job job = lower(plan, load_model("tiny-gpt"));
  for (const Node& node : job.classes[0].program.nodes) {
    const bool of_layer = node.role.part == Part::kLayer;
    if (node.kind != OpKind::kCollective && node.group != Group{}) {
      EXPECT_TRUE(of_layer) << name(node.role);
      owned[node.role.action].insert(node.member);
    }
    if (node.kind == OpKind::kCollective && of_layer) {
      EXPECT_TRUE(has_root(node.collective)) << name(node.role);
    }
  }
  const std::set<int> both{0, 1};
  EXPECT_THAT(owned, ::testing::UnorderedElementsAre(
                         std::pair{Action::kRead, both}, std::pair{Action::kUpload, both},
                         std::pair{Action::kDownload, both}, std::pair{Action::kAccumulate, both}));
}

// Micro-batches whose forward of the stage's first layer has run but not its backward.
struct Flight {
  int most = 0;
  std::vector<std::string> order;  // "F0" "F1" "B0" ..
};

Flight fly(const RankClass& c) {
  const ProgramIndex index(c.program);
  Flight flight;
  int now = 0;
  for (Cursor at(index, Lane::kCompute); at->step() == 0; at.advance()) {
    const Role role = c.program.nodes[at->node].role;
    if (at->env.layer != c.layers[0].first || role.action != Action::kCompute) {
      const bool back = role.phase == Phase::kBackward && at->env.layer == c.layers[0].first &&
                        role.part == Part::kQkv && role.action == Action::kInputGradient;
      if (!back) continue;
      flight.order.push_back("B" + std::to_string(at->env.micro));
      --now;
    } else if (role.phase == Phase::kForward && role.part == Part::kQkv) {
      flight.order.push_back("F" + std::to_string(at->env.micro));
      flight.most = std::max(flight.most, ++now);
    }
  }
  EXPECT_EQ(now, 0);
  return flight;
}

TEST(Pipeline, KeepsAsManyMicroBatchesInFlightAsStagesFollow) {
  const ModelConfig model = load_model("tiny-gpt");
  for (int m : {1, 2, 3, 8}) {
    Plan plan = base_plan();
    plan.parallel.pp = 4;
    plan.batch.global_batch = m;
    const Job job = lower(plan, model);
    for (const RankClass& c : job.classes)
      EXPECT_EQ(fly(c).most, std::min(4 - c.stage, m)) << "stage " << c.stage << ", m " << m;
  }
}

TEST(Pipeline, GpipeRunsAllForwardsFirst) {
  Plan plan = base_plan();
  plan.parallel.pp = 2;
  plan.batch.global_batch = 3;
  plan.schedule = Schedule::kGpipe;
  const Job job = lower(plan, load_model("tiny-gpt"));
  for (const RankClass& c : job.classes) {
    EXPECT_EQ(fly(c).most, 3);
    EXPECT_THAT(fly(c).order, testing::ElementsAre("F0", "F1", "F2", "B0", "B1", "B2"));
  }
}

TEST(Pipeline, StagesHaveTheLayersThePlanGivesThem) {
  Plan plan = base_plan();
  plan.parallel.pp = 2;
  plan.stage_layers = {1, 3};
  const Job job = lower(plan, load_model("tiny-gpt"));
  using testing::ElementsAre;
  EXPECT_THAT(job.classes[0].layers, ElementsAre(LayerRange{0, 1}));
  EXPECT_THAT(job.classes[1].layers, ElementsAre(LayerRange{1, 3}));
}

TEST(Pipeline, FollowsOneForwardOneBackward) {
  Plan plan = base_plan();
  plan.parallel.pp = 2;
  plan.batch.global_batch = 4;
  const Job job = lower(plan, load_model("tiny-gpt"));
  EXPECT_THAT(fly(job.classes[0]).order,
              testing::ElementsAre("F0", "F1", "B0", "F2", "B1", "F3", "B2", "B3"));
  EXPECT_THAT(fly(job.classes[1]).order,
              testing::ElementsAre("F0", "B0", "F1", "B1", "F2", "B2", "F3", "B3"));
}

TEST(Pipeline, GivesEveryLayerToOneStage) {
  Plan plan = base_plan();
  plan.parallel.pp = 3;
  const Job job = lower(plan, load_model("tiny-gpt"));
  std::int32_t next = 0;
  for (const RankClass& c : job.classes) {
    ASSERT_EQ(c.layers.size(), 1);
    EXPECT_EQ(c.layers[0].first, next);
    next += c.layer_count();
  }
  EXPECT_EQ(next, 4);
}

TEST(Recompute, SelectiveIsNoneWhereAttentionIsFused) {
  const ModelConfig model = load_model("tiny-gpt");
  for (const char* set : {"cpu.f32", "cpu.f32.unfused"}) {
    Plan plan = base_plan();
    plan.kernel_set = set;
    const Job none = lower(plan, model);
    plan.recompute = {{Recompute::kSelective, 0}};
    const Job selective = lower(plan, model);
    const auto recomputed = [](const Job& job) {
      const auto& nodes = job.classes[0].program.nodes;
      return std::count_if(nodes.begin(), nodes.end(),
                           [](const Node& n) { return n.role.phase == Phase::kRecompute; });
    };
    EXPECT_EQ(recomputed(none), 0);
    EXPECT_EQ(recomputed(selective), set == std::string("cpu.f32") ? 0 : 2);  // scores, softmax
  }
}

// Once of the embeddings, three times of every layer: its masks are drawn again with what is
// recomputed.
TEST(Dropout, IsReplayedWithWhatIsRecomputed) {
  struct Case {
    Recompute mode;
    int drops, residuals;  // in the recomputation
  };
  for (const Case& c : {Case{Recompute::kNone, 0, 0}, Case{Recompute::kSelective, 1, 0},
                        Case{Recompute::kFull, 1, 2}}) {
    Plan plan = base_plan();
    plan.kernel_set = "cuda.sm80.bf16.unfused";
    plan.precision = default_recipe(plan.kernel_set);
    plan.recompute = {{c.mode, 0}};
    plan.dropout = true;
    for (const char* model : {"tiny-gpt", "tiny-llama", "tiny-mla"}) {
      const Job job = lower(plan, load_model(model));
      const auto count = [&](Phase phase, KernelId kernel) {
        const auto& nodes = job.classes[0].program.nodes;
        return std::count_if(nodes.begin(), nodes.end(), [&](const Node& n) {
          return n.kind == OpKind::kKernel && n.role.phase == phase && n.kernel == kernel;
        });
      };
      EXPECT_EQ(count(Phase::kForward, KernelId::kDropoutForward), 2);
      EXPECT_EQ(count(Phase::kForward, KernelId::kDropoutResidualAdd), 2);
      EXPECT_EQ(count(Phase::kRecompute, KernelId::kDropoutForward), c.drops);
      EXPECT_EQ(count(Phase::kRecompute, KernelId::kDropoutResidualAdd), c.residuals);
      EXPECT_EQ(count(Phase::kBackward, KernelId::kDropoutBackward), 4);
    }
  }
}

TEST(Optimizer, KeepsAMasterCopyOnlyWhereItMust) {
  const ModelConfig model = load_model("tiny-gpt");
  Plan plan = base_plan();
  const auto has_master = [&] {
    const Job job = lower(plan, model);
    return job.classes[0].homes[0].master.buffer != job.classes[0].homes[0].param.buffer;
  };
  EXPECT_FALSE(has_master());  // fp32 parameters are their own master
  plan.placement.optimizer = Tier::kCpu;
  EXPECT_TRUE(has_master());  // the CPU cannot update what lies on the GPU
  plan.zero_stage = 3;
  plan.placement.params = Tier::kCpu;
  EXPECT_FALSE(has_master());
}

}  // namespace
}  // namespace zplan
