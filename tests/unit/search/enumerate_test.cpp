#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "models/model_formulas.h"
#include "planner/core/error.h"
#include "planner/search/bucket.h"
#include "planner/search/search.h"
#include "tests/support/pinned.h"

namespace zplan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing_support::pinned;

std::vector<Plan> leaves(const char* model, const char* cluster, const Pins& pins = {}) {
  return enumerate(load_model(model), load_cluster(cluster), pins);
}

std::string refusal(const char* model, const char* cluster, const Pins& pins) {
  try {
    leaves(model, cluster, pins);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "accepted";
}

constexpr Tier kTiers[] = {Tier::kGpu, Tier::kCpu, Tier::kNvme};

// Homes that are leaves of the space: nothing farther away than the optimizer states, and over one
// replica only what its ZeRO stage is needed for.
bool is_sensible(const Plan& p) {
  const StatePlacement& at = p.placement;
  if (at.params > at.optimizer || at.grads > at.optimizer) return false;
  if (p.parallel.dp > 1) return true;
  return p.zero_stage == 0 || (p.zero_stage == 2 && at.grads != Tier::kGpu) ||
         (p.zero_stage == 3 && at.params != Tier::kGpu);
}

// Of one shape and micro-batch, one by one.
std::size_t count_choices(Plan p, const ModelConfig& model) {
  std::size_t count = 0;
  for (int code = 0; code < 4 * 2 * 2 * 2 * 81; ++code) {
    int rest = code;
    const auto pick = [&rest](int n) { return std::exchange(rest, rest / n) % n; };
    p.zero_stage = pick(4);
    p.recompute = {{pick(2) == 0 ? Recompute::kNone : Recompute::kFull}};
    p.partition_activations = pick(2) == 1;
    p.gather = pick(2) == 0 ? Gather::kLayer : Gather::kOperator;
    p.placement = {kTiers[pick(3)], kTiers[pick(3)], kTiers[pick(3)], kTiers[pick(3)]};
    const bool gathers = p.zero_stage >= 2 || p.gather == Gather::kLayer;
    const bool stays = p.placement.activations == Tier::kGpu || p.all_full();
    if (gathers && stays && is_sensible(p) && !illegal(p, shape_of(model))) ++count;
  }
  return count;
}

TEST(Enumerate, CountsEveryLegalCombinationOnce) {
  const ModelConfig model = load_model("tiny");  // 4 layers, 4 heads, 8 sequences
  Plan p;
  p.batch = {8, 1, model.sequence};
  std::size_t expected = 0;
  for (const int tp : {1, 2, 4})
    for (const int pp : {1, 2, 4})
      for (const bool sp : {false, true})
        for (const int micro : {1, 2, 4, 8}) {
          if (tp * pp > 4 || (sp && tp == 1)) continue;
          p.parallel = {.dp = 4 / (tp * pp), .tp = tp, .pp = pp, .sequence_parallel = sp};
          p.batch.micro_batch = micro;
          if (8 % (micro * p.parallel.dp) == 0) expected += count_choices(p, model);
        }
  EXPECT_EQ(leaves("tiny", "workstation").size(), expected);
}

TEST(Enumerate, HasTheShapesOfTheLargeModel) {
  std::set<std::pair<int, int>> shapes;
  for (const Plan& plan : leaves("1T", "dgx2x32")) {
    EXPECT_EQ(plan.parallel.dp * plan.parallel.tp * plan.parallel.pp, 512);
    shapes.insert({plan.parallel.tp, plan.parallel.pp});
  }
  std::set<std::pair<int, int>> expected;  // within a node; up to a layer per stage
  for (int tp = 1; tp <= 16; tp *= 2)
    for (int pp = 1; pp <= 128 && tp * pp <= 512; pp *= 2) expected.insert({tp, pp});
  EXPECT_EQ(shapes, expected);
}

TEST(Enumerate, SelectiveRecomputationIsForStoredScoresOnly) {
  const auto modes = [](const char* kernel_set) {
    Pins pins;
    pins.set("/kernel_set", kernel_set);
    std::set<Recompute> result;
    for (const Plan& plan : leaves("tiny", "workstation", pins))
      result.insert(plan.recompute_of(0));
    return result;
  };
  EXPECT_EQ(modes("cpu.f32"), (std::set{Recompute::kNone, Recompute::kFull}));
  EXPECT_EQ(modes("cpu.f32.unfused"),
            (std::set{Recompute::kNone, Recompute::kSelective, Recompute::kFull}));
}

// Of a layer's 12 h^2 + 13 h parameters (tiny: h 64), half of them on a rank of two.
TEST(Enumerate, BucketsBecomeTheLargestUnitWithin) {
  const ModelConfig tiny = load_model("tiny");
  const std::int64_t layer = layer_parameter_count(tiny);
  Plan plan;
  plan.model = "tiny";
  plan.kernel_set = "cpu.f32";
  plan.precision = default_recipe(plan.kernel_set);
  plan.batch = {.global_batch = 8, .micro_batch = 1, .sequence = tiny.sequence};
  const auto unit = [&](std::int64_t bytes) { return unit_of_bucket(Bytes{bytes}, plan, tiny); };
  ASSERT_EQ(tiny.layers, 4);
  EXPECT_EQ(unit(4 * layer - 1), Gather::kOperator);
  EXPECT_EQ(unit(4 * layer), Gather::kLayer);
  EXPECT_EQ(unit(2 * 4 * layer), Gather::of_layers(2));
  EXPECT_EQ(unit(3 * 4 * layer), Gather::of_layers(2)) << "4 layers are no multiple of 3";
  EXPECT_EQ(unit(1000 * 4 * layer), Gather::of_layers(4));
  plan.parallel.pp = 2;
  EXPECT_EQ(unit(1000 * 4 * layer), Gather::of_layers(2)) << "a stage has no more";
  plan.parallel.tp = 2;
  EXPECT_EQ(unit(2 * layer), Gather::kLayer);
  plan.kernel_set = "cpu.bf16";
  plan.precision = *find_recipe("fsdp-pure", plan.kernel_set);
  EXPECT_EQ(unit(layer), Gather::kLayer) << "they are reduced in 16 bits";
  plan.precision = *find_recipe("fsdp", plan.kernel_set);
  EXPECT_EQ(unit(layer), Gather::kOperator) << "they are reduced in fp32";
}

TEST(Enumerate, APinnedBucketIsTheUnitOfEveryPlan) {
  Pins pins;
  pins.bucket = Bytes{1};
  for (const Plan& plan : leaves("tiny", "workstation", pins))
    EXPECT_EQ(plan.gather, Gather::kOperator);
  pins.bucket = Bytes{1'000'000'000};
  std::set<int> layers;
  for (const Plan& plan : leaves("tiny", "workstation", pins)) layers.insert(plan.unit_layers());
  EXPECT_TRUE(layers.contains(4));
}

TEST(Enumerate, OwnersTakeUnitsOfALayerPerRank) {
  Pins pins;
  pins.set("/gather/unit", Gather::kOwned);
  std::set<int> dps;
  for (const Plan& plan : leaves("tiny", "workstation", pins)) {
    EXPECT_TRUE(plan.gather.owned());
    EXPECT_EQ(plan.unit_layers(), plan.parallel.dp);
    EXPECT_EQ(plan.zero_stage, 3);
    dps.insert(plan.parallel.dp);
  }
  EXPECT_FALSE(dps.empty());
}

TEST(Enumerate, EveryFurtherFieldCanBePinned) {
  Pins pins = pinned({{"/parallel/tp", "2"},
                      {"/parallel/pp", "2"},
                      {"/parallel/sequence_parallel", "true"},
                      {"/gather/unit", "tiles:2"},
                      {"/parallel/schedule", "gpipe"},
                      {"/delayed_update", "true"}});
  pins.set("/parallel/stage_layers", std::vector<std::int32_t>{3, 1});
  pins.set("/recompute", std::vector<RecomputeRun>{{Recompute::kFull, 1}, {Recompute::kNone, 0}});
  for (const Plan& plan : leaves("tiny", "workstation", pins)) {
    EXPECT_EQ(plan.parallel, (Parallel{.dp = 1, .tp = 2, .pp = 2, .sequence_parallel = true}));
    EXPECT_EQ(plan.gather, Gather::in_tiles(2));
    EXPECT_EQ(plan.schedule, Schedule::kGpipe);
    EXPECT_EQ(plan.stage_layers, pins.values().stage_layers);
    EXPECT_EQ(plan.recompute, pins.values().recompute);
    EXPECT_TRUE(plan.delayed_update);
    EXPECT_NE(plan.placement.optimizer, Tier::kGpu);
  }
  for (const Plan& plan : leaves("tiny", "workstation", pinned({{"/parallel/secondary", "2"}}))) {
    EXPECT_EQ(plan.secondary, 2);
    EXPECT_EQ(plan.zero_stage, 3);
    EXPECT_EQ(plan.parallel.dp, 4);
  }
  pins = pinned({{"/parallel/parameter_shards", "2"}});
  for (const Plan& plan : leaves("tiny", "workstation", pins)) {
    EXPECT_EQ(plan.parameter_shards, 2);
    EXPECT_EQ(plan.parallel.dp, 4);
  }
  pins = pinned({{"/parallel/dp", "4"}, {"/parallel/shards", "2"}, {"/kernel_set", "cpu.bf16"}});
  pins.recipes = {"lean"};
  for (const Plan& plan : leaves("tiny", "workstation", pins)) {
    EXPECT_EQ(plan.shards(), 2);
    EXPECT_EQ(plan.precision.moments, DType::kBf16);
  }
  pins = {};
  pins.set("/partition_activations", true);
  for (const Plan& plan : leaves("tiny", "workstation", pins)) {
    EXPECT_TRUE(plan.partition_activations);
    EXPECT_GT(plan.parallel.tp, 1);
  }
}

TEST(Enumerate, RecipesAreADimensionWhereAskedFor) {
  const auto names = [](const char* kernel_set, std::vector<std::string> recipes) {
    Pins pins;
    pins.set("/kernel_set", kernel_set);
    pins.recipes = std::move(recipes);
    std::map<std::string_view, std::size_t> leaves_of;
    for (const Plan& plan : leaves("tiny", "workstation", pins))
      ++leaves_of[recipe_name(recipe_index(plan))];
    return leaves_of;
  };
  const std::size_t each = leaves("tiny", "workstation").size();
  using Counts = std::map<std::string_view, std::size_t>;
  EXPECT_EQ(names("cpu.bf16", {}), (Counts{{"standard", each}}));
  EXPECT_EQ(names("cpu.bf16", {"lean", "standard", "lean"}),
            (Counts{{"lean", each}, {"standard", each}}));
  const Counts any = names("cpu.bf16", {"any"});
  EXPECT_EQ(any.size(), std::size(kRecipeNames));
  for (const char* recipe : {"standard", "fp32-gradients", "main-gradients", "lean"})
    EXPECT_EQ(any.at(recipe), each) << recipe;
  EXPECT_LT(any.at("fsdp"), each) << "needs ZeRO 3";
  EXPECT_EQ(any.at("fsdp"), any.at("fsdp-pure"));
  EXPECT_LT(any.at("fp32-reduction"), each) << "needs ZeRO 2";
  EXPECT_GT(any.at("fp32-reduction"), any.at("fsdp"));
  EXPECT_EQ(any.at("fp32-reduction"), any.at("half-reduction"));
  EXPECT_EQ(names("cpu.fp16", {"any"}).size(), 7U) << "lean needs bf16";
  EXPECT_EQ(names("cpu.f32", {"any"}), (Counts{{"standard", each}}));
  Pins pins;
  pins.set("/kernel_set", "cpu.fp16");
  pins.recipes = {"standard", "lean"};
  EXPECT_THAT(refusal("tiny", "workstation", pins),
              HasSubstr("precision lean is for kernel sets that compute in bf16"));
}

TEST(Enumerate, HomesFartherThanTheOptimizersAreForPinsOnly) {
  Pins pins;
  pins.set("/placement/params", Tier::kCpu);
  for (const Plan& plan : leaves("tiny", "workstation", pins))
    EXPECT_NE(plan.placement.optimizer, Tier::kGpu);
  pins.set("/placement/optimizer", Tier::kGpu);
  EXPECT_FALSE(leaves("tiny", "workstation", pins).empty());
}

// Of the frozen parameters of LoRA, not of its factors' gradients.
TEST(Enumerate, FrozenParametersMayBeFartherThanTheOptimizers) {
  Pins pins;
  pins.set("/train/what", Trained::kLora);
  std::set<std::tuple<Tier, Tier, Tier>> homes;
  for (const Plan& plan : leaves("tiny", "workstation", pins))
    homes.emplace(plan.placement.params, plan.placement.grads, plan.placement.optimizer);
  for (const Tier params : {Tier::kGpu, Tier::kCpu, Tier::kNvme}) {
    EXPECT_TRUE(homes.contains({params, Tier::kGpu, Tier::kGpu})) << name(params);
    EXPECT_FALSE(homes.contains({params, Tier::kCpu, Tier::kGpu})) << name(params);
  }
}

TEST(Enumerate, LeavesAreLegalAndDifferent) {
  const ModelConfig model = load_model("gpt2");
  std::set<std::string> seen;
  for (const Plan& plan : leaves("gpt2", "dgx2")) {
    EXPECT_EQ(illegal(plan, model.layers), std::nullopt);
    EXPECT_TRUE(seen.insert(to_json(plan)).second);
    EXPECT_EQ(plan.parallel.dp * plan.parallel.tp * plan.parallel.pp, 16);
    EXPECT_EQ(plan.prefetch, Plan{}.prefetch);
    EXPECT_EQ(plan.kernel_set, "cuda.sm70.fp16.unfused");
    EXPECT_TRUE(plan.loss_scaling);
    EXPECT_TRUE(plan.clip);
    EXPECT_EQ(plan.batch.global_batch, 512);
    EXPECT_EQ(plan.batch.sequence, 1024);
  }
}

TEST(Enumerate, PinsAreObeyed) {
  Pins pins = pinned({{"/parallel/dp", "2"},
                      {"/batch/micro_batch", "2"},
                      {"/zero_stage", "3"},
                      {"/parallel/tp", "1"},
                      {"/recompute", "full"},
                      {"/gather/unit", "layer"},
                      {"/placement/params", "cpu"},
                      {"/placement/grads", "cpu"},
                      {"/placement/optimizer", "cpu"},
                      {"/placement/activations", "cpu"},
                      {"/gather/prefetch", "3"},
                      {"/kernel_set", "cpu.f64"},
                      {"/clip", "false"},
                      {"/batch/global_batch", "4"},
                      {"/batch/sequence", "7"}});
  const std::vector<Plan> plans = leaves("tiny", "workstation", pins);
  ASSERT_EQ(plans.size(), 2u);  // one and two stages
  EXPECT_EQ(plans[0].parallel, (Parallel{.dp = 2}));
  EXPECT_EQ(plans[1].parallel, (Parallel{.dp = 2, .pp = 2}));
  const Plan& p = plans[0];
  EXPECT_EQ(p.batch, (Batch{4, 2, 7}));
  EXPECT_EQ(p.placement, (StatePlacement{Tier::kCpu, Tier::kCpu, Tier::kCpu, Tier::kCpu}));
  EXPECT_EQ(p.precision, default_recipe("cpu.f64"));
  EXPECT_EQ(p.prefetch, 3);
  EXPECT_FALSE(p.clip);
  EXPECT_FALSE(p.loss_scaling);
}

TEST(Enumerate, APinnedDepthTakesTheReplicasThatFit) {
  Pins pins = pinned({{"/parallel/tp", "1"}, {"/parallel/pp", "3"}, {"/batch/global_batch", "10"}});
  for (const Plan& plan : leaves("tiny", "dgx2", pins))
    EXPECT_EQ(plan.parallel, (Parallel{.dp = 5, .pp = 3}));
}

TEST(Enumerate, StagesDivideTheDevices) {
  std::set<std::int32_t> depths;
  for (const Plan& plan : leaves("1T", "dgx2x24", {})) depths.insert(plan.parallel.pp);
  EXPECT_TRUE(depths.contains(3) && depths.contains(12) && depths.contains(96));
  EXPECT_FALSE(depths.contains(5) || depths.contains(1));  // 1: no dp divides the batch
}

TEST(Enumerate, NamesTheNearestGlobalBatch) {
  // 384 devices are 3 x 128: without stages dp is a multiple of 24, which 2560 is not, but 2568.
  Pins pins;
  pins.set("/parallel/pp", 1);
  EXPECT_THAT(refusal("1T", "dgx2x24", pins),
              AllOf(HasSubstr("global batch 2560"), HasSubstr("dp 384"), HasSubstr("dp 192"),
                    HasSubstr("nearest that is: 2568")));
  pins = {};
  pins.set("/batch/micro_batch", 3);
  EXPECT_THAT(refusal("tiny", "workstation", pins), HasSubstr("micro-batch 3"));
}

TEST(Enumerate, RefusesSizesThatCannotBe) {
  Pins pins;
  pins.set("/parallel/dp", 17);
  EXPECT_THAT(refusal("gpt2", "dgx2", pins), HasSubstr("dp 16 is possible"));
  pins.set("/parallel/pp", 2);
  EXPECT_THAT(refusal("gpt2", "dgx2", pins), HasSubstr("dp 8 is possible"));
  pins = {};
  pins.set("/parallel/pp", 17);
  EXPECT_THAT(refusal("gpt2", "dgx2", pins), HasSubstr("dp x tp x pp up to 16 is possible"));
  pins = {};
  pins.set("/parallel/tp", 5);
  EXPECT_THAT(refusal("gpt2", "dgx2", pins), HasSubstr("heads"));
  pins.set("/parallel/tp", 1);
  pins.set("/parallel/pp", 5);
  pins.set("/batch/global_batch", 3);
  EXPECT_THAT(refusal("tiny", "dgx2", pins), HasSubstr("4 layers"));
  pins = {};
  pins.set("/parallel/dp", 0);
  EXPECT_THAT(refusal("gpt2", "dgx2", pins), HasSubstr("dp must be at least 1"));
  pins = {};
  pins.set("/batch/sequence", std::int64_t{1} << 40);
  EXPECT_THAT(refusal("gpt2", "dgx2", pins), HasSubstr("sequence"));
  pins = {};
  pins.set("/batch/global_batch", std::int64_t{1} << 20);
  pins.set("/batch/sequence", std::int64_t{1} << 20);
  EXPECT_THAT(refusal("gpt2", "dgx2", pins), HasSubstr("tokens per step"));
}

TEST(Enumerate, CutsExpertsOverRanksOfReplicasOrOfTensorParallelOnesToo) {
  const auto groups = [](const Pins& pins) {
    std::set<int> sizes;
    for (const Plan& plan : leaves("tiny-moe", "workstation", pins)) {
      const int across = plan.parallel.folds_experts() ? plan.parallel.tp : 1;
      EXPECT_EQ(across * plan.parallel.dp % plan.parallel.ep, 0);
      sizes.insert(plan.parallel.ep);
    }
    return sizes;
  };
  EXPECT_EQ(groups({}), (std::set{1, 2, 4}));
  EXPECT_EQ(groups(pinned({{"/experts/imbalance", "worst"}})), (std::set{1, 2, 4}));
  EXPECT_EQ(groups(pinned({{"/experts/capacity_factor", "1"}})), (std::set{1, 2, 4}));
  EXPECT_EQ(groups(pinned({{"/parallel/ep", "2"}})), (std::set{2}));
}

TEST(Enumerate, SaysWhyPinsContradictEachOther) {
  Pins pins = pinned({{"/zero_stage", "1"}, {"/placement/params", "cpu"}});
  EXPECT_THAT(refusal("gpt2", "dgx2", pins), HasSubstr("ZeRO stage 3, not 1"));
  pins = pinned({{"/recompute", "none"}, {"/placement/activations", "cpu"}});
  EXPECT_EQ(refusal("gpt2", "dgx2", pins), "accepted");
  pins.set("/partition_activations", true);
  EXPECT_THAT(refusal("gpt2", "dgx2", pins), HasSubstr("recompute full"));
  pins = {};
  pins.set("/kernel_set", "cuda.sm70");
  EXPECT_THAT(refusal("gpt2", "dgx2", pins), HasSubstr("kernel set"));
}

TEST(Enumerate, LeavesDifferInNothingButWhatTheSpaceVaries) {
  Pins pins;
  pins.set("/kernel_set", "cpu.bf16");
  pins.recipes = {std::string(kAnyRecipe)};
  const std::vector<Plan> all = leaves("tiny-gpt", "workstation", pins);
  const std::vector<Plan> of_experts = leaves("tiny-moe", "workstation", pins);
  Pins long_pins = pins;
  long_pins.set("/batch/sequence", 32'768);
  const std::vector<Plan> of_long = leaves("tiny-llama", "workstation", long_pins);
  for (const Decision& row : kChoices) {
    const auto varies = [&](const std::vector<Plan>& plans) {
      return std::any_of(plans.begin(), plans.end(), [&](const Plan& plan) {
        return row.field.get(plan) != row.field.get(plans.front());
      });
    };
    const bool may = row.varied == Varied::kSpace || row.varied == Varied::kRecipe;
    const bool varied = varies(all) || varies(of_experts) || varies(of_long);
    EXPECT_TRUE(may || !varied) << row.pointer;
    EXPECT_TRUE(row.varied != Varied::kSpace || varied) << row.pointer;
  }
}

TEST(Enumerate, LongOrFewSequencesAreCutOverContextParallelRanks) {
  const auto most_cp = [](std::int64_t sequence, std::int64_t sequences) {
    Pins pins;
    pins.set("/batch/sequence", sequence);
    pins.set("/batch/global_batch", sequences);
    std::int32_t most = 1;
    for (const Plan& plan : leaves("llama3-8b", "dgx-h100", pins))
      most = std::max(most, plan.parallel.cp);
    return most;
  };
  EXPECT_EQ(most_cp(32'766, 8), 1);
  EXPECT_EQ(most_cp(32'766, 4), 2);  // fewer than GPUs
  EXPECT_EQ(most_cp(4'094, 4), 1);
  EXPECT_EQ(most_cp(32'768, 8), 8);
}

// Not that of the first plan tried, which what is free would mend.
TEST(Enumerate, RefusesPinsForWhatIsWrongWithThemselves) {
  Pins pins;
  pins.set("/placement/params", Tier::kCpu);  // which takes ZeRO 3
  pins.set("/train/targets", LoraTargets::kAttention);
  EXPECT_THAT(refusal("tiny", "workstation", pins), HasSubstr("need train lora, not all"));
}

TEST(Enumerate, LayersOfStagesSayHowManyStagesThereAre) {
  Pins pins;
  pins.set("/parallel/stage_layers", std::vector<std::int32_t>{2, 1, 1});
  EXPECT_EQ(refusal("tiny", "workstation", pins), "accepted");
  pins.set("/parallel/dp", 2);
  EXPECT_THAT(refusal("tiny", "workstation", pins), HasSubstr("dp 2 x pp 3 needs more than the 4"));
}

TEST(Enumerate, TensorParallelRanksWithWholeRoutersGatherByOperatorAtEachZeroStage) {
  for (const int stage : {0, 1, 2, 3}) {
    Pins pins;
    pins.set("/zero_stage", stage);
    pins.set("/parallel/tp", 2);
    EXPECT_EQ(refusal("tiny-gpt-oss", "workstation", pins), "accepted") << stage;
  }
}

}  // namespace
}  // namespace zplan
