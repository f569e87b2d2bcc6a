// Mixtures of experts, counted in lowered Jobs. T tokens of a micro-batch of a rank, h hidden, E
// experts of which a token goes through k, P ranks of an expert group:
//   volume   per layer two all-to-alls forward, to the experts and back, and two backward
//            [Lepikhin20 sec 3.2]; each of k T F h elements at capacity factor F, of which a rank
//            keeps 1 / P
//            Or an all-gather of all T P h of the group's tokens and a reduce-scatter of as much,
//            each way [MegatronCore transformer/moe/token_dispatcher.py]
//   flop     of each token's k experts only
//   memory   of the states of experts each rank has 1 / P, of which the other replicas share a copy
//   time     within a node over its links, between nodes over the network
// Counts are exact: sizes are chosen such that nothing is padded.
#include <gtest/gtest.h>

#include "hwprofiles/hw_profile.h"
#include "planner/lower/expert_axis.h"
#include "planner/lower/ranks.h"
#include "planner/place/place.h"
#include "planner/program/kernels/kernel_table.h"
#include "planner/program/verify/verify.h"
#include "sim/simulate.h"
#include "tests/golden/job_counts.h"

namespace zplan {
namespace {

using testing_support::instances;
using testing_support::moved;
using testing_support::per_layer;
using testing_support::recompute_all;

constexpr DType kType = DType::kBf16;
constexpr int kMicroSteps = 3;
constexpr std::int64_t kExperts = 8, kChoices = 2, kWidth = 256;

ModelConfig round_experts() {
  ModelConfig model = testing_support::round_model();
  set_architecture(model, Architecture::kLlama);
  model.rope_theta = 10000;
  model.ffn = kWidth;
  model.experts = ExpertShape{.count = kExperts, .per_token = kChoices, .ffn = kWidth};
  return model;
}

Plan plan_of(int dp, int ep) {
  Plan plan;
  plan.kernel_set = "cuda.sm80.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.dp = dp;
  plan.parallel.ep = ep;
  plan.expert_imbalance = 0;
  plan.capacity_factor = 1.25;
  plan.batch = {.global_batch = std::int64_t{kMicroSteps} * dp, .micro_batch = 1, .sequence = 128};
  return plan;
}

// In units of k T h, of a layer and micro-step.
double exchanged(const Plan& plan) {
  const double elements = per_layer(plan, round_experts(), [](const Job& job) {
    return moved(job, job.classes[0], {job.mesh.named(kExpertAxis)}, kType).exchanged;
  });
  const auto rows = static_cast<double>(kChoices * plan.batch.sequence);
  return elements / (rows * 512 * kMicroSteps);
}

TEST(Experts, EachLayerHasTwoAllToAllsForwardAndTwoBackward) {
  for (const int ep : {2, 4, 8}) {
    Plan plan = plan_of(8, ep);
    const double leaves = (ep - 1.0) / ep;
    EXPECT_DOUBLE_EQ(exchanged(plan), 4 * 1.25 * leaves) << ep;
    plan.recompute = recompute_all(Recompute::kFull);
    EXPECT_DOUBLE_EQ(exchanged(plan), 6 * 1.25 * leaves) << ep;
    plan.recompute = {
        {Recompute::kOperators, 0, {LayerOperator::kFc1, LayerOperator::kActivation}}};
    EXPECT_DOUBLE_EQ(exchanged(plan), 4 * 1.25 * leaves) << ep;
  }
}

TEST(Experts, InEverySecondLayerHalveWhatIsExchanged) {
  const Plan plan = plan_of(8, 4);
  const auto of = [&](const ModelConfig& model) {
    const Job job = lower(plan, model);
    return moved(job, job.classes[0], {job.mesh.named(kExpertAxis)}, kType).exchanged;
  };
  ModelConfig model = round_experts();
  const double in_all = of(model);
  model.experts->every = 2;
  EXPECT_GT(in_all, 0);
  EXPECT_DOUBLE_EQ(of(model), in_all / 2);
  model.experts->dense_layers = 1;
  EXPECT_DOUBLE_EQ(of(model), in_all / 2);
}

TEST(Experts, RoomForWhateverTheRouterChoosesIsWhatAllTokensCanSendToOneRank) {
  Plan plan = plan_of(8, 4);
  plan.capacity_factor = 0;
  EXPECT_DOUBLE_EQ(exchanged(plan), 4 * 4 * 0.75);  // 2 experts of a rank take all choices
  plan.expert_imbalance = 1.5;
  EXPECT_DOUBLE_EQ(exchanged(plan), 4 * 1.5 * 0.75);
}

TEST(Experts, AllTokensOfAGroupAreGatheredAndTheirSumsScattered) {
  for (const int ep : {2, 4, 8}) {
    Plan plan = plan_of(8, ep);
    plan.dispatcher = Dispatcher::kAllGather;
    const auto in_tokens = [&](double testing_support::Moved::*what) {
      return per_layer(plan, round_experts(),
                       [&](const Job& job) {
                         return moved(job, job.classes[0], {job.mesh.named(kExpertAxis)}, kType).*
                                what;
                       }) /
             static_cast<double>(plan.batch.sequence * 512 * kMicroSteps);
    };
    EXPECT_DOUBLE_EQ(in_tokens(&testing_support::Moved::gathered), 2 * (ep - 1)) << ep;
    EXPECT_DOUBLE_EQ(in_tokens(&testing_support::Moved::reduce_scattered), 2 * (ep - 1)) << ep;
    EXPECT_DOUBLE_EQ(in_tokens(&testing_support::Moved::exchanged), 0) << ep;
  }
}

// Each of t tensor parallel ranks exchanges rows of its own tokens: k s h / t, and has E / P
// experts whole [Folding25].
TEST(Experts, TensorParallelRanksWithWholeExpertsExchangeRowsOfTheirOwnTokens) {
  for (const int ep : {2, 4, 8}) {
    Plan plan = plan_of(4, ep);
    plan.parallel.tp = 2;
    plan.parallel.expert_tp = 1;
    plan.parallel.sequence_parallel = true;
    plan.capacity_factor = 0;
    plan.expert_imbalance = 1;
    const ModelConfig model = round_experts();
    const double elements = per_layer(plan, model, [&](const Job& job) {
      const Group all{expert_axes(plan, job.mesh)};
      EXPECT_EQ(job.mesh.size(all), ep);
      return moved(job, job.classes[0], all, kType).exchanged;
    });
    const auto rows = static_cast<double>(kChoices * plan.batch.sequence) / 2;
    EXPECT_DOUBLE_EQ(elements / (rows * 512 * kMicroSteps), 4 * (ep - 1.0) / ep) << ep;
    std::int64_t parameters = 0;
    const Job job = lower(plan, model);
    for (const Buffer& buffer : job.classes[0].program.buffers)
      if (buffer.category == Category::kParameters &&
          buffer.name.find(".experts_") != std::string::npos)
        parameters += buffer.size().value;
    EXPECT_EQ(parameters, model.layers * 2 * kExperts / ep * 3 * kWidth * 512) << ep;
  }
}

// An MLP between an all-gather and a reduce-scatter each way, and the gather again for the gradient
// of its weights [Korthikanti22 sec 4.2.2]: of a layer as much as attention has.
TEST(Experts, RanksWithWholeExpertsComeTogetherAroundTheSharedOne) {
  Plan plan = plan_of(1, 2);
  plan.parallel.tp = 2;
  plan.parallel.expert_tp = 1;
  plan.parallel.sequence_parallel = true;
  plan.capacity_factor = 0;
  plan.expert_imbalance = 1;
  ModelConfig model = round_experts();
  using testing_support::Moved;
  const auto tensor = [&](double Moved::*what, DType dtype = kType) {
    return per_layer(plan, model, [&](const Job& job) {
      return moved(job, job.classes[0], {job.mesh.named(kTensorAxis)}, dtype).*what;
    });
  };
  const auto counts = [&] { return tensor(&Moved::gathered, DType::kF64); };
  const auto tokens = static_cast<double>(plan.batch.sequence * kMicroSteps);
  const double gathered = tensor(&Moved::gathered), scattered = tensor(&Moved::reduce_scattered);
  EXPECT_EQ(counts(), 0);
  model.experts->shared_ffn = kWidth;
  EXPECT_DOUBLE_EQ(tensor(&Moved::gathered) - gathered, 3 * tokens * 512 / 2);
  EXPECT_DOUBLE_EQ(tensor(&Moved::reduce_scattered) - scattered, 2 * tokens * 512 / 2);
  EXPECT_EQ(counts(), 0);
  // Of each rank the choices of each expert by sequence.
  model.experts->balance = 0.01;
  EXPECT_DOUBLE_EQ(counts(), kMicroSteps * 2 * kExperts / 2.0);
  EXPECT_DOUBLE_EQ(tensor(&Moved::gathered) - gathered, 3 * tokens * 512 / 2);
}

// Each step one sum over the replicas of E counts of a layer, whatever the micro-batches.
TEST(Experts, LoadsThatMoveABiasAreSummedOncePerStep) {
  ModelConfig model = round_experts();
  model.experts->selection_bias = true;
  const auto summed = [&](const Plan& plan, AxisSet (*over)(const Mesh&)) {
    return per_layer(plan, model, [&](const Job& job) {
      return moved(job, job.classes[0], {over(job.mesh)}, DType::kF64).all_reduced;
    });
  };
  const auto replicas = [](const Mesh& mesh) { return mesh.named(kDataAxis); };
  const auto all = [](const Mesh& mesh) { return mesh.all() - mesh.named(kPipelineAxis); };
  Plan plan = plan_of(4, 1);
  plan.clip = false;
  EXPECT_EQ(summed(plan, replicas), 0);
  model.experts->bias_rate = 0.001;
  EXPECT_DOUBLE_EQ(summed(plan, replicas), 2 * 0.75 * kExperts);
  plan.parallel.tp = 2;
  plan.parallel.sequence_parallel = true;
  EXPECT_DOUBLE_EQ(summed(plan, replicas), 2 * 0.75 * kExperts);
  plan.parallel.expert_tp = 1;
  plan.parallel.ep = 2;
  plan.expert_imbalance = 0;
  EXPECT_DOUBLE_EQ(summed(plan, all), 2 * 0.875 * kExperts);
}

std::int64_t flops_of(const Job& job, Part part) {
  std::int64_t sum = 0;
  const Program& program = job.classes[0].program;
  for (const Node& node : program.nodes)
    if (node.kind == OpKind::kKernel && node.role.part == part &&
        kernel_def(node.kernel).layer_product)
      sum += demand_of(program, node).flops.value * instances(program, node);
  return sum;
}

TEST(Experts, ProductsAreOfTheExpertsThatTokensGoThrough) {
  for (const int ep : {1, 4}) {
    Plan plan = plan_of(4, ep);
    plan.capacity_factor = 0;
    const auto flops = [&](Part part) {
      return per_layer(plan, round_experts(), [&](const Job& job) { return flops_of(job, part); });
    };
    const std::int64_t rows = kChoices * plan.batch.sequence * kMicroSteps;
    EXPECT_EQ(flops(Part::kExpertUp), 3 * 2 * rows * 512 * 2 * kWidth) << ep;
    EXPECT_EQ(flops(Part::kExpertDown), 3 * 2 * rows * 512 * kWidth) << ep;
    // The rank with most work; one alone has all of it.
    plan.expert_imbalance = 2;
    EXPECT_EQ(flops(Part::kExpertDown), (ep > 1 ? 2 : 1) * 3 * 2 * rows * 512 * kWidth) << ep;
  }
}

// 12 bytes of states besides parameters and gradients, over all replicas that have a copy.
TEST(Experts, StatesAreCutOverTheGroupAndShardedOverTheOtherReplicas) {
  constexpr std::int64_t kElements = kExperts * 3 * kWidth * 512;
  for (const int ep : {1, 2, 4, 8}) {
    Plan plan = plan_of(8, ep);
    plan.zero_stage = 1;
    const Job job = lower(plan, round_experts());
    std::int64_t parameters = 0, states = 0;
    for (const Buffer& buffer : job.classes[0].program.buffers) {
      if (buffer.name.find(".experts_") == std::string::npos) continue;
      if (buffer.category == Category::kParameters) parameters += buffer.size().value;
      if (buffer.category == Category::kOptimizer) states += buffer.size().value;
    }
    EXPECT_EQ(parameters, 4 * 2 * kElements / ep) << ep;
    EXPECT_EQ(states, 4 * 12 * kElements / 8) << ep;
  }
}

// [derived] Of m micro-steps m - 1 have a forward beside a backward, in which the shorter of
// compute and exchange is hidden, but for what comes before the first exchange of a layer of the
// backward and after the last of the forward. What compute takes is the step less what the exchange
// adds.
TEST(Experts, TheirExchangeBesideAnotherMicroBatchTakesTheTimeOfTheLonger) {
  Plan plan;
  plan.model = "qwen3-30b-a3b";
  plan.kernel_set = "cuda.sm90.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.dp = plan.parallel.ep = 16;
  plan.zero_stage = 1;
  plan.expert_imbalance = 1;
  constexpr std::int64_t kSteps = 8;
  plan.batch = {.global_batch = 16 * kSteps, .micro_batch = 1, .sequence = 4096};
  const ModelConfig model = load_model(plan.model);
  const auto simulate = [&] {
    Job job = lower(plan, model);
    place(job);
    EXPECT_EQ(verify(job), std::vector<std::string>());
    return sim::simulate(job, load_cluster("dgx-h100x2"));
  };
  const auto exposed = [](const sim::SimResult& result) {
    for (const sim::LaneReport& lane : result.lanes)
      if (lane.lane == Lane::kCommTensor) return lane.exposed;
    return Seconds{};
  };
  const sim::SimResult alone = simulate();
  const Seconds exchange = exposed(alone), compute = alone.period - exchange;
  EXPECT_GT(exchange.value / alone.period.value, 0.3);
  plan.overlap.exchange = true;
  const Seconds saved = alone.period - simulate().period;
  const Seconds hidden = std::min(exchange, compute) * ((kSteps - 1.0) / kSteps);
  EXPECT_LE(saved.value / hidden.value, 1.0);
  EXPECT_GE(saved.value / hidden.value, 0.8);
  plan.overlap.exchange = false;
  plan.overlap.weight_gradients = true;
  const Seconds alone_saved = alone.period - simulate().period;
  EXPECT_GT(alone_saved.value, 0);
}

TEST(Experts, AnExchangeWithinANodeIsFasterThanOneOverTheNetwork) {
  const auto exchange = [](int nodes) {
    Plan plan = plan_of(8, 8);
    Job job = lower(plan, round_experts());
    place(job);
    Cluster cluster = load_cluster("dgx-a100");
    cluster.nodes = nodes;
    if (nodes > 1) cluster.node.devices_per_node = 8 / nodes;
    sim::SimOptions options;
    options.record_timeline = true;
    const Timeline timeline = sim::simulate(job, cluster, options).timeline;
    SimTime longest{0};
    for (const Span& span : timeline.ranks[0].spans)
      if (role_of(span.op).action == Action::kExchange)
        longest = std::max(longest, span.end - span.start);
    return longest;
  };
  EXPECT_GT(exchange(2), exchange(1) * 2);
}

}  // namespace
}  // namespace zplan
