// Precision recipes: 16-bit kernels with the states that each recipe keeps. Sums in 16 bit depend
// on their order, so plans of several ranks agree with one rank within that rounding; what does not
// change the order of a sum changes no bit (bitwise_test.cpp).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "exec/memory/state_access.h"
#include "planner/program/kernels/kernel_set.h"
#include "tests/support/plan_space.h"
#include "tests/support/sanitized.h"
#include "tests/support/trained.h"

namespace zplan {
namespace {

using testing_support::steps;
using testing_support::train;
using testing_support::Trained;

constexpr int kSteps = testing_support::steps_of(10);
// Relative, of the loss. One unit in the last place is 2^-8 of bf16 and 2^-11 of fp16; losses are
// means of 256 tokens whose logits carry a few of them. Against fp32 the parameters differ, too.
constexpr double kBf16 = 4e-3, kF16 = 5e-4, kAgainstF32 = 1e-2;

struct Case {
  const char* kernel_set;
  const char* recipe;
  std::int64_t bytes_per_parameter;  // with gradients, of all states
  bool scaled = true;                // the loss, where the kernels may need it
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.kernel_set << " " << c.recipe; }

Plan plan_with(const Case& c) {
  Plan plan = testing_support::base_plan(c.kernel_set);
  plan.precision = *find_recipe(c.recipe, c.kernel_set);
  plan.loss_scaling = c.scaled && find_kernel_set(c.kernel_set).loss_scaling;
  const bool casts = plan.precision.grad_cast != GradientCast::kNone;
  plan.zero_stage = plan.casts_params() ? 3 : casts ? 2 : 0;
  plan.batch.micro_batch = 2;
  return plan;
}

class Recipes : public testing::TestWithParam<Case> {};

// [Rajbhandari20 sec 3.1] 16; [Narayanan21] 18; [Rajbhandari21 sec 3] 20; [Zhao23 sec 4.4] 16.
TEST_P(Recipes, StatesTakeTheirBytesPerParameter) {
  const Job job = testing_support::placed_job(plan_with(GetParam()));
  Bytes states{0};
  for (const Buffer& b : job.classes[0].program.buffers) states += b.unpadded;
  std::int64_t parameters = 0;
  for (const Unit& u : job.units) parameters += u.elements * (u.per_layer ? 4 : 1);
  EXPECT_EQ(states.value, GetParam().bytes_per_parameter * parameters);
}

TEST_P(Recipes, TrainsLikeFp32) {
  const auto got = train(plan_with(GetParam()), steps(kSteps));
  const auto expected = train(testing_support::base_plan("cpu.f32"), steps(kSteps));
  for (std::size_t i = 0; i < kSteps; ++i) {
    const double loss = expected->result.steps[i].loss;
    EXPECT_NEAR(got->result.steps[i].loss, loss, kAgainstF32 * loss) << i;
  }
}

TEST_P(Recipes, PlansOfSeveralRanksAgreeWithOne) {
  constexpr int kFewSteps = 3;
  const auto expected = train(plan_with(GetParam()), steps(kFewSteps));
  const bool bf16 = std::string(GetParam().kernel_set) == "cpu.bf16";
  static testing_support::Thinned plans(testing_support::one_in(13));
  for (int zero : {0, 1, 2, 3})
    for (int tp : {1, 2})
      for (Tier optimizer : {Tier::kGpu, Tier::kCpu, Tier::kNvme}) {
        Plan plan = plan_with(GetParam());
        if (zero < plan.zero_stage || plans.skips()) continue;
        plan.zero_stage = zero;
        plan.parallel.dp = 2;
        plan.parallel.tp = tp;
        plan.parallel.sequence_parallel = tp > 1 && zero == 3;
        plan.placement.optimizer = optimizer;
        const auto got = train(plan, steps(kFewSteps));
        for (std::size_t i = 0; i < kFewSteps; ++i) {
          const double loss = expected->result.steps[i].loss;
          EXPECT_NEAR(got->result.steps[i].loss, loss, (bf16 ? kBf16 : kF16) * loss)
              << "ZeRO " << zero << " tp " << tp << " " << name(optimizer) << " step " << i;
        }
        EXPECT_EQ(exec::replica_mismatch(got->job, got->result.memory), std::nullopt);
      }
}

INSTANTIATE_TEST_SUITE_P(
    All, Recipes,
    testing::Values(Case{"cpu.bf16", "standard", 16}, Case{"cpu.bf16", "fp32-gradients", 18},
                    Case{"cpu.bf16", "main-gradients", 20}, Case{"cpu.bf16", "lean", 8},
                    Case{"cpu.fp16", "standard", 16}, Case{"cpu.fp16", "fp32-gradients", 18},
                    Case{"cpu.fp16", "main-gradients", 20}, Case{"cpu.bf16", "fsdp", 16},
                    Case{"cpu.bf16", "fsdp-pure", 16}, Case{"cpu.fp16", "fsdp", 16},
                    Case{"cpu.fp16", "fsdp-pure", 16}, Case{"cpu.bf16", "fp32-reduction", 18},
                    Case{"cpu.bf16", "half-reduction", 18},
                    Case{"cpu.fp16", "standard", 16, false}),
    [](const auto& c) {
      std::string name = std::string(c.param.kernel_set).substr(4) + "_" + c.param.recipe +
                         (c.param.scaled ? "" : "_unscaled");
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

// What is gathered is cast before, what is reduced as the recipe says; each rank holds and updates
// its share of the fp32 states only.
TEST(Fsdp, GathersTheComputeTypeAndReducesWhatTheRecipeSays) {
  for (const char* recipe : {"fsdp", "fsdp-pure"}) {
    Plan plan = plan_with({"cpu.bf16", recipe, 16});
    plan.parallel.dp = 2;
    plan.gather = Gather::kLayer;
    const Job job = testing_support::placed_job(plan);
    const Program& program = job.classes[0].program;
    int gathers = 0, reductions = 0;
    for (const Node& node : program.nodes) {
      if (node.kind != OpKind::kCollective || node.group.axes != job.mesh.named(kDataAxis))
        continue;
      const DType type = program.operands(node)[0].dtype;
      if (node.collective == CollectiveKind::kAllGather) {
        EXPECT_EQ(type, DType::kBf16);
        ++gathers;
      }
      if (node.collective == CollectiveKind::kReduceScatter) {
        EXPECT_EQ(type, recipe == std::string("fsdp") ? DType::kF32 : DType::kBf16);
        ++reductions;
      }
    }
    EXPECT_GT(gathers, 0);
    EXPECT_GT(reductions, 0);
    Bytes states{0}, resident{0};
    for (const Buffer& b : program.buffers) {
      if (b.unpadded.value == 0) continue;
      EXPECT_EQ(b.dtype, DType::kF32) << b.name;
      states += b.unpadded;
      resident += b.size();
    }
    EXPECT_NEAR(static_cast<double>(resident.value), static_cast<double>(states.value) / 2,
                0.01 * static_cast<double>(states.value));
  }
}

// Backward writes 16 bits, fp32 is added up at home; between the two the recipe says what travels.
TEST(Reductions, AreInTheTypeThatTheRecipeSays) {
  for (const char* recipe : {"fp32-reduction", "half-reduction"})
    for (const std::int32_t zero : {2, 3}) {
      Plan plan = plan_with({"cpu.bf16", recipe, 18});
      plan.parallel.dp = 2;
      plan.zero_stage = zero;
      const Job job = testing_support::placed_job(plan);
      const Program& program = job.classes[0].program;
      int reductions = 0;
      for (const Node& node : program.nodes) {
        if (node.kind != OpKind::kCollective || node.collective != CollectiveKind::kReduceScatter)
          continue;
        EXPECT_EQ(program.operands(node)[0].dtype,
                  recipe == std::string("fp32-reduction") ? DType::kF32 : DType::kBf16);
        ++reductions;
      }
      EXPECT_GT(reductions, 0);
    }
}

// Where states live, what is recomputed and how far ahead units are gathered.
TEST(Fsdp, ResidenceAndRecomputationChangeNoBit) {
  for (const char* recipe : {"fsdp", "fsdp-pure"})
    for (const std::int64_t micro_batch : {2, 4}) {
      Plan plan = plan_with({"cpu.bf16", recipe, 16});
      plan.parallel.dp = 2;
      plan.batch.micro_batch = micro_batch;
      const auto expected = train(plan, steps(3));
      const auto same = [&](const char* what, const Plan& other) {
        testing_support::expect_same_bits(*train(other, steps(3)), *expected,
                                          std::string(recipe) + " " + what);
      };
      Plan away = plan;
      away.placement = {Tier::kCpu, Tier::kCpu, Tier::kCpu, Tier::kGpu};
      same("host", away);
      away.placement = {Tier::kNvme, Tier::kNvme, Tier::kNvme, Tier::kGpu};
      same("storage", away);
      Plan again = plan;
      again.recompute = {{Recompute::kFull, 0}};
      again.gather = Gather::kLayer;
      again.prefetch = 2;
      same("recomputed", again);
    }
}

// Of sharding groups, owners of layers, tiles and stages.
TEST(Fsdp, AgreesWithOneRankWhateverIsSharded) {
  for (const char* recipe : {"fsdp", "fsdp-pure"}) {
    const Plan one = plan_with({"cpu.bf16", recipe, 16});
    const auto expected = train(one, steps(kSteps));
    const auto close = [&](const char* what, auto change) {
      Plan plan = one;
      plan.parallel.dp = 2;
      change(plan);
      const auto got = train(plan, steps(kSteps));
      for (std::size_t i = 0; i < kSteps; ++i) {
        const double loss = expected->result.steps[i].loss;
        EXPECT_NEAR(got->result.steps[i].loss, loss, kBf16 * loss) << recipe << " " << what;
      }
      EXPECT_EQ(exec::replica_mismatch(got->job, got->result.memory), std::nullopt) << what;
    };
    close("groups of one", [](Plan& p) { p.parallel.shards = 1; });
    close("groups of two", [](Plan& p) { p.parallel = {.dp = 4, .shards = 2}; });
    close("owners", [](Plan& p) { p.gather = Gather::kOwned; });
    close("tiles", [](Plan& p) { p.gather = Gather::in_tiles(2); });
    close("stages", [](Plan& p) { p.parallel.pp = 2; });
    close("one micro-step", [](Plan& p) { p.batch.micro_batch = 4; });
  }
}

// Where every step has the same gradients and nothing moves, the first moments, which are those
// gradients, change by their rounding alone.
TEST(LeanRecipe, RoundsAnewInEveryStep) {
  const Job job = testing_support::placed_job(plan_with({"cpu.bf16", "lean", 8}));
  const exec::DataSource same(std::vector<std::uint8_t>(1000, 'a'), "same");
  exec::RunOptions options;
  options.train.learning_rate = options.train.beta1 = options.train.beta2 = 0;
  options.train.weight_decay = 0;
  options.train.clip_norm = 0.01;
  const auto moments = [&](int steps) {
    options.steps = steps;
    return testing_support::tensors(job, exec::run(job, same, options), exec::State::kMoment1);
  };
  const auto first = moments(1), second = moments(2);
  int values = 0, different = 0;
  for (const auto& [name, of_first] : first)
    for (std::size_t i = 0; i < of_first.size(); ++i) {
      if (of_first[i] == 0) continue;
      const double other = second.at(name)[i];
      EXPECT_NEAR(other, of_first[i], 0x1p-7 * std::abs(of_first[i])) << name << "[" << i << "]";
      ++values;
      different += other != of_first[i] ? 1 : 0;
    }
  // [derived] of draws with evenly spread chances to round up, a third differ from one another.
  EXPECT_NEAR(different / static_cast<double>(values), 1.0 / 3, 0.1);
}

// A scale that overflows fp16 skips updates and halves until the gradients are finite.
TEST(LossScaling, OverflowSkipsTheUpdateAndHalvesTheScale) {
  exec::RunOptions options = steps(24);
  options.train.initial_loss_scale = 0x1p30;
  const Plan plan = plan_with({"cpu.fp16", "standard", 16});
  const auto got = train(plan, options);
  const std::vector<exec::StepResult>& seen = got->result.steps;
  const auto first_update =
      std::find_if(seen.begin(), seen.end(), [](const auto& step) { return !step.skipped; });
  ASSERT_NE(first_update, seen.begin());
  ASSERT_NE(first_update, seen.end());
  double scale = options.train.initial_loss_scale;
  for (auto step = seen.begin(); step <= first_update; ++step, scale /= 2) {
    EXPECT_EQ(step->loss_scale, scale) << "step " << step - seen.begin();
  }
  options.steps = static_cast<int>(first_update - seen.begin());
  const auto skipped = train(plan, options);
  const auto differs = [&](const testing_support::Trained& a, const testing_support::Trained& b) {
    return exec::largest_difference(a.job, a.result.memory, b.job, b.result.memory).has_value();
  };
  ++options.steps;
  const auto updated = train(plan, options);
  options.steps = 0;
  const auto none = train(plan, options);
  EXPECT_FALSE(differs(*skipped, *none));
  EXPECT_TRUE(differs(*updated, *none));
}

}  // namespace
}  // namespace zplan
