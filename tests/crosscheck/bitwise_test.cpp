// Choices that must not change a single bit at fixed dp, tp, pp, cp, micro-batch, kernel set and
// threads per rank: where states live, recomputation, gather units (buckets), prefetch, slack, the
// pipeline's schedule, partitioned checkpoints, secondary and parameter shards, the executor's mode
// and schedule, and ZeRO 0 = 1, 2 = 3. Each choice that is in the Job must give a Job of its own,
// or the comparison would show nothing.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "planner/program/kernels/kernel_set.h"
#include "planner/program/text/fingerprint.h"
#include "tests/support/plan_space.h"
#include "tests/support/sanitized.h"
#include "tests/support/trained.h"

namespace zplan {
namespace {

using testing_support::Trained;

struct Variant {
  std::string name;
  Plan plan;
  exec::RunMode mode = exec::RunMode::kThreaded;
  std::uint64_t schedule_seed = 0;
  bool same_job = false;  // the executor's choice, not the plan's
};

std::unique_ptr<Trained> train(const Variant& v) {
  exec::RunOptions options;
  options.steps = testing_support::steps_of(3);
  options.mode = v.mode;
  options.schedule_seed = v.schedule_seed;
  return testing_support::train(v.plan, options);
}

struct Grid {
  int dp, pp, micro_steps, zero_stage;
  const char* kernel_set = "cpu.f32";
  int tp = 1;
  const char* model = "tiny-gpt";
  int cp = 1;
  int ring = 1;
};

std::string grid_name(const Grid& g) {
  std::string set = std::string(g.kernel_set).substr(4);
  std::replace(set.begin(), set.end(), '.', '_');
  return "Dp" + std::to_string(g.dp) + "Tp" + std::to_string(g.tp) + "Pp" + std::to_string(g.pp) +
         (g.cp > 1 ? "Cp" + std::to_string(g.cp) : "") +
         (g.ring > 1 ? "Ring" + std::to_string(g.ring) : "") + "M" + std::to_string(g.micro_steps) +
         "Zero" + std::to_string(g.zero_stage) + set + std::string(g.model).substr(5);
}

void PrintTo(const Grid& g, std::ostream* out) { *out << grid_name(g); }

Plan base(const Grid& g) {
  Plan p = testing_support::base_plan(g.kernel_set, g.model);
  p.loss_scaling = find_kernel_set(g.kernel_set).loss_scaling;
  p.parallel.dp = g.dp;
  p.parallel.tp = g.tp;
  p.parallel.pp = g.pp;
  p.parallel.cp = g.cp;
  p.parallel.ring = g.ring;
  p.zero_stage = g.zero_stage;
  p.batch.micro_batch = testing_support::kGlobalBatch / (g.dp * g.micro_steps);
  return p;
}

std::vector<Variant> variants(const Grid& g) {
  std::vector<Variant> list;
  const auto add = [&](const std::string& name, auto change) {
    Variant v{name, base(g)};
    change(v);
    list.push_back(std::move(v));
  };
  add("serial", [](Variant& v) {
    v.mode = exec::RunMode::kSerial;
    v.same_job = true;
  });
  add("serial, random schedule", [](Variant& v) {
    v.mode = exec::RunMode::kSerial;
    v.schedule_seed = 7;
    v.same_job = true;
  });
  add("optimizer on cpu", [](Variant& v) { v.plan.placement.optimizer = Tier::kCpu; });
  add("recompute full", [](Variant& v) { v.plan.recompute = {{Recompute::kFull, 0}}; });
  for (const std::int32_t layers : {2, 4}) {
    if (g.pp > 1 && layers > 2) continue;
    for (const Tier tier : {Tier::kGpu, Tier::kCpu})
      add("checkpoints of " + std::to_string(layers) + " layers on " + std::string(name(tier)),
          [=](Variant& v) {
            v.plan.recompute = {{Recompute::kFull, 0}};
            v.plan.checkpoint_layers = layers;
            v.plan.placement.activations = tier;
          });
  }
  add("checkpoints on cpu", [](Variant& v) {
    v.plan.recompute = {{Recompute::kFull, 0}};
    v.plan.placement.activations = Tier::kCpu;
  });
  add("no slack", [](Variant& v) { v.plan.slack = 0; });
  add("optimizer on nvme", [](Variant& v) { v.plan.placement.optimizer = Tier::kNvme; });
  for (const Tier tier : {Tier::kCpu, Tier::kNvme})
    add("half of an optimizer on " + std::string(name(tier)) + " a tier nearer", [=](Variant& v) {
      v.plan.placement.optimizer = tier;
      v.plan.placement.optimizer_near = 0.5;
    });
  add("checkpoints on nvme", [](Variant& v) {
    v.plan.recompute = {{Recompute::kFull, 0}};
    v.plan.placement.activations = Tier::kNvme;
  });
  add("recompute by layer", [](Variant& v) {
    v.plan.recompute = {{Recompute::kFull, 1}, {Recompute::kNone, 0}};
  });
  add("recompute of what is cheap", [](Variant& v) {
    v.plan.recompute = {{Recompute::kOperators,
                         0,
                         {LayerOperator::kNorm, LayerOperator::kAttention, LayerOperator::kFc1,
                          LayerOperator::kActivation}}};
  });
  add("recompute of products", [](Variant& v) {
    v.plan.recompute = {
        {Recompute::kOperators, 1, {LayerOperator::kActivation}},
        {Recompute::kOperators, 0, {LayerOperator::kQkv, LayerOperator::kProjection}}};
  });
  // In fp64 the norm keeps the order in which units are summed.
  for (const std::int32_t layers : {1, 2}) {
    if (std::string(g.kernel_set) == "cpu.f64") continue;
    add("units of " + std::to_string(layers) + " layers",
        [=](Variant& v) { v.plan.gather = Gather::of_layers(layers); });
  }
  if (std::string(g.kernel_set).ends_with(".unfused"))
    add("recompute selective", [](Variant& v) { v.plan.recompute = {{Recompute::kSelective, 0}}; });
  const std::string set = g.kernel_set;
  if (set == "cpu.f32" || set == "cpu.f64")
    add("fused neighbours", [=](Variant& v) { v.plan.kernel_set = set + ".fused"; });
  if (set == "cpu.f32") {
    add("fused neighbours in units of a layer", [=](Variant& v) {
      v.plan.kernel_set = set + ".fused";
      v.plan.gather = Gather::kLayer;
    });
  }
  if (g.pp > 1 && g.micro_steps > 1)
    add("gpipe", [](Variant& v) { v.plan.schedule = Schedule::kGpipe; });
  if (g.tp > 1)
    add("partitioned checkpoints", [](Variant& v) {
      v.plan.recompute = {{Recompute::kFull, 0}};
      v.plan.partition_activations = true;
    });
  if (g.zero_stage < 3) add("next ZeRO stage", [](Variant& v) { ++v.plan.zero_stage; });
  if (g.zero_stage >= 2) {
    add("gradients on cpu",
        [](Variant& v) { v.plan.placement.grads = v.plan.placement.optimizer = Tier::kCpu; });
    for (const Tier tier : {Tier::kCpu, Tier::kNvme})
      for (const double near : {0.0, 0.5})
        add("everything on " + std::string(name(tier)) + (near > 0 ? ", or almost" : ""),
            [=](Variant& v) {
              v.plan.zero_stage = 3;
              v.plan.recompute = {{Recompute::kFull, 0}};
              v.plan.placement = {tier, tier, tier, tier, near};
            });
    for (const Tier tier : {Tier::kCpu, Tier::kNvme})
      for (const auto& [params, grads, optimizer] :
           {std::array{0.5, 0.0, 0.0}, {0.0, 0.5, 0.0}, {0.75, 0.25, 0.5}})
        add(fmt::format("{}, {} and {} a tier nearer than {}", params, grads, optimizer,
                        name(tier)),
            [=](Variant& v) {
              v.plan.zero_stage = 3;
              v.plan.placement = {tier, tier, tier, Tier::kGpu, optimizer, params, grads};
            });
  }
  if (g.zero_stage == 3 && g.dp % 4 == 0) {
    add("secondary shards", [](Variant& v) { v.plan.secondary = 2; });
    add("parameter shards", [](Variant& v) { v.plan.parameter_shards = 2; });
  }
  for (Tier params : {Tier::kGpu, Tier::kCpu, Tier::kNvme}) {
    for (int prefetch : {0, 1, 3}) {
      const bool is_base = params == Tier::kGpu && prefetch == 1;
      if (g.zero_stage != 3 || is_base) continue;
      const std::string where(name(params));
      add("parameters on " + where + ", prefetch " + std::to_string(prefetch), [=](Variant& v) {
        v.plan.placement.params = params;
        v.plan.prefetch = prefetch;
      });
    }
  }
  return list;
}

// Without clipping: every home of the states of layers that are updated beside backward, against
// the update after it.
std::vector<Variant> updated_beside_backward(const Plan& base) {
  std::vector<Variant> list;
  const auto add = [&](const std::string& name, auto change) {
    Variant v{name, base};
    v.plan.placement.optimizer = Tier::kCpu;
    v.plan.overlap.optimizer = true;
    change(v.plan);
    list.push_back(std::move(v));
  };
  add("optimizer on cpu", [](Plan&) {});
  add("optimizer on nvme", [](Plan& p) { p.placement.optimizer = Tier::kNvme; });
  add("units of a layer", [](Plan& p) { p.gather = Gather::kLayer; });
  add("inputs of layers on cpu", [](Plan& p) {
    p.recompute = {{Recompute::kFull, 1}, {Recompute::kNone, 0}};
    p.placement.activations = Tier::kCpu;
  });
  if (base.zero_stage >= 2) {
    add("gradients on cpu", [](Plan& p) { p.placement.grads = Tier::kCpu; });
    for (const Tier tier : {Tier::kCpu, Tier::kNvme})
      add("everything on " + std::string(name(tier)), [=](Plan& p) {
        p.zero_stage = 3;
        p.recompute = {{Recompute::kFull, 0}};
        p.placement = {tier, tier, tier, tier};
      });
  }
  return list;
}

class Bitwise : public testing::TestWithParam<Grid> {};

TEST_P(Bitwise, VariantsGiveTheSameBits) {
  const auto expected = train({"base", base(GetParam())});
  std::set<std::string> known{fingerprint(expected->job)};
  static testing_support::Thinned all_variants(testing_support::one_in(7));
  for (const Variant& v : variants(GetParam())) {
    if (all_variants.skips()) continue;
    ASSERT_EQ(illegal(v.plan, shape_of(load_model(v.plan.model))), std::nullopt) << v.name;
    const auto got = train(v);
    EXPECT_EQ(known.insert(fingerprint(got->job)).second, !v.same_job) << v.name;
    testing_support::expect_same_bits(*got, *expected, v.name);
  }
}

TEST_P(Bitwise, UpdatesBesideBackwardGiveTheBitsOfThoseAfterIt) {
  Plan plan = base(GetParam());
  plan.loss_scaling = false;  // which comes before the first update
  plan.clip = false;
  const auto expected = train({"base", plan});
  std::set<std::string> known{fingerprint(expected->job)};
  static testing_support::Thinned all_variants(testing_support::one_in(7));
  for (const Variant& v : updated_beside_backward(plan)) {
    if (all_variants.skips()) continue;
    ASSERT_EQ(illegal(v.plan, shape_of(load_model(v.plan.model))), std::nullopt) << v.name;
    const auto got = train(v);
    EXPECT_TRUE(known.insert(fingerprint(got->job)).second) << v.name;
    testing_support::expect_same_bits(*got, *expected, v.name);
  }
}

// Experts whose tokens are exchanged beside the layers of another micro-batch, against the same
// experts one micro-batch after the other.
TEST(BesideAnotherMicroBatch, IsTheSameBits) {
  struct Case {
    const char* model;
    int pp, zero_stage, micro_steps = 4;
    Schedule schedule = Schedule::kInterleaved;
  };
  constexpr Case kCases[] = {{"tiny-moe", 1, 0},
                             {"tiny-moe", 1, 2, 2},
                             {"tiny-moe", 1, 3, 8},
                             {"tiny-deepseek", 1, 1},
                             {"tiny-moe", 2, 1},
                             {"tiny-gpt-oss", 2, 2},
                             {"tiny-switch", 1, 2},
                             {"tiny-deepseek", 2, 3},
                             {"tiny-moe", 2, 1, 6, Schedule::kDualPipeV},
                             {"tiny-deepseek", 2, 2, 4, Schedule::kDualPipe}};
  using Change = void (*)(Plan&);
  constexpr Change kChanges[] = {
      [](Plan& p) { p.overlap.exchange = true; },
      [](Plan& p) { p.overlap.weight_gradients = true; },
      [](Plan& p) { p.overlap.exchange = p.overlap.weight_gradients = true; },
      [](Plan& p) { p.overlap.exchange = true, p.dispatcher = Dispatcher::kAllGather; },
      [](Plan& p) { p.overlap.exchange = true, p.gather = Gather::kLayer, p.slack = 0; },
      [](Plan& p) {
        p.overlap.exchange = true;
        p.recompute = {{Recompute::kNone, 3}, {Recompute::kOperators, 0, {LayerOperator::kNorm}}};
      },
      [](Plan& p) { p.overlap.shared_expert = false; }};
  for (const Case& one : kCases) {
    const int dp = one.schedule == Schedule::kDualPipe ? 4 : 2;
    Plan plan = base({dp, one.pp, one.micro_steps, one.zero_stage, "cpu.f32", 1, one.model});
    plan.batch.global_batch = dp * one.micro_steps;
    plan.batch.micro_batch = 1;
    plan.parallel.ep = 2;
    plan.expert_imbalance = 0;  // room for whatever the router chooses
    if (one.pp > 1) plan.schedule = one.schedule;
    const ModelShape model = shape_of(load_model(one.model));
    if (illegal(plan, model)) continue;
    const auto expected = train({"base", plan});
    for (std::size_t i = 0; i < std::size(kChanges); ++i) {
      Variant v{fmt::format("{} pp {} change {}", one.model, one.pp, i), plan};
      kChanges[i](v.plan);
      if (illegal(v.plan, model)) continue;
      const auto got = train(v);
      EXPECT_NE(fingerprint(got->job), fingerprint(expected->job)) << v.name;
      const bool alike = v.plan.dispatcher == plan.dispatcher;
      if (alike) testing_support::expect_same_bits(*got, *expected, v.name);
    }
  }
}

// Experts whose whole forward runs again in backward, from the router to the sum of what comes
// back, against experts that keep what backward reads.
TEST(ReplayOfExperts, IsTheSameBits) {
  using enum LayerOperator;
  struct Case {
    const char* model;
    int ep = 1, tp = 1;
    Dispatcher dispatcher = Dispatcher::kAllToAll;
    int zero_stage = 1;
  };
  constexpr Case kCases[] = {{"tiny-moe"},
                             {"tiny-moe", 2},
                             {"tiny-moe", 1, 2},
                             {"tiny-switch", 2, 2},
                             {"tiny-deepseek", 2},
                             {"tiny-gpt-oss", 2, 1, Dispatcher::kAllGather},
                             {"tiny-latent", 2},
                             {"tiny-moe", 1, 1, Dispatcher::kAllToAll, 3},
                             {"tiny-latent", 1, 1, Dispatcher::kAllToAll, 3}};
  for (const Case& one : kCases) {
    Plan plan = base({2, 1, 2, one.zero_stage, "cpu.f32", one.tp, one.model});
    plan.parallel.ep = one.ep;
    plan.parallel.sequence_parallel = one.tp > 1;
    plan.dispatcher = one.dispatcher;
    plan.expert_imbalance = 0;
    const ModelShape model = shape_of(load_model(one.model));
    ASSERT_EQ(illegal(plan, model), std::nullopt) << one.model;
    const auto expected = train({"base", plan});
    for (const OperatorSet operators : {OperatorSet{kExperts}, {kNorm, kExperts}}) {
      Variant v{fmt::format("{} operators {}", one.model, operators.bits()), plan};
      v.plan.recompute = {{Recompute::kOperators, 0, operators}};
      const auto got = train(v);
      EXPECT_NE(fingerprint(got->job), fingerprint(expected->job)) << v.name;
      testing_support::expect_same_bits(*got, *expected, v.name);
    }
  }
}

// The values that codes stand for give the same products again as the inputs that were cast.
TEST(ReplayFromCodes, IsTheSameBits) {
  using enum LayerOperator;
  Plan plan = base({1, 1, 2, 0, "cpu.f32.fp8", 1, "tiny-llama"});
  plan.low_precision.keeps_codes = true;
  const auto expected = train({"base", plan});
  for (const OperatorSet operators :
       {OperatorSet{kQkv}, {kFc1}, {kFc1, kActivation}, {kNorm, kFc1}}) {
    Variant v{fmt::format("operators {}", operators.bits()), plan};
    v.plan.recompute = {{Recompute::kOperators, 0, operators}};
    const auto got = train(v);
    EXPECT_NE(fingerprint(got->job), fingerprint(expected->job)) << v.name;
    testing_support::expect_same_bits(*got, *expected, v.name);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Grids, Bitwise,
    testing::Values(Grid{1, 1, 1, 0}, Grid{2, 1, 1, 0}, Grid{2, 1, 2, 0}, Grid{4, 1, 2, 0},
                    Grid{2, 2, 2, 0}, Grid{1, 1, 2, 2}, Grid{2, 1, 1, 2}, Grid{2, 1, 2, 2},
                    Grid{4, 1, 1, 2}, Grid{2, 2, 4, 2}, Grid{2, 1, 2, 3}, Grid{4, 1, 1, 3},
                    Grid{2, 2, 2, 3}, Grid{2, 1, 2, 0, "cpu.f64"}, Grid{2, 1, 2, 3, "cpu.f64"},
                    Grid{1, 1, 2, 0, "cpu.f32", 2}, Grid{2, 1, 2, 3, "cpu.f32", 2},
                    Grid{1, 2, 2, 2, "cpu.f32.unfused", 2},
                    Grid{2, 1, 1, 3, "cpu.f32", 1, "tiny-llama"}, Grid{2, 1, 2, 2, "cpu.bf16"},
                    Grid{1, 2, 2, 3, "cpu.fp16"}, Grid{2, 1, 2, 2, "cpu.f32", 1, "tiny-llama", 2},
                    Grid{1, 2, 2, 3, "cpu.f32.unfused", 1, "tiny-gpt", 2},
                    Grid{1, 1, 2, 2, "cpu.f32", 1, "tiny-gpt", 4, 4},
                    Grid{1, 1, 2, 3, "cpu.f32", 1, "tiny-llama", 4, 2}),
    [](const auto& grid) { return grid_name(grid.param); });

}  // namespace
}  // namespace zplan
