// Choices that must not change a single bit at fixed dp, pp, micro-batch, kernel set and threads
// per rank: where states live, recomputation, prefetch, slack, the executor's mode and schedule,
// and ZeRO 0 = 1, 2 = 3.
#include <gtest/gtest.h>

#include "exec/run.h"
#include "exec/state_access.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "tests/support/plan_space.h"

namespace zplan {
namespace {

struct Trained {
  Job job;
  exec::RunResult result;
};

struct Variant {
  std::string name;
  Plan plan;
  exec::RunMode mode = exec::RunMode::kThreaded;
  std::uint64_t schedule_seed = 0;
};

std::unique_ptr<Trained> train(const Variant& v) {
  auto trained = std::make_unique<Trained>();
  trained->job = lower(v.plan, load_model(v.plan.model));
  place(trained->job, {.slack = v.plan.slack});
  exec::RunOptions options;
  options.steps = 3;
  options.mode = v.mode;
  options.schedule_seed = v.schedule_seed;
  const auto text = exec::DataSource::from_file(ZPLAN_SOURCE_DIR "/tests/data/text.txt");
  trained->result = exec::run(trained->job, text, options);
  return trained;
}

void expect_equal(const Trained& a, const Trained& b, const std::string& name) {
  ASSERT_EQ(a.result.steps.size(), b.result.steps.size()) << name;
  for (std::size_t i = 0; i < a.result.steps.size(); ++i) {
    EXPECT_EQ(a.result.steps[i].loss, b.result.steps[i].loss) << name;
    EXPECT_EQ(a.result.steps[i].gradient_norm, b.result.steps[i].gradient_norm) << name;
  }
  for (exec::State state : exec::kStates) {
    const auto difference =
        exec::largest_difference(a.job, a.result.memory, b.job, b.result.memory, state);
    if (difference)
      ADD_FAILURE() << name << ": " << difference->tensor << "[" << difference->element << "] is "
                    << difference->first << " and " << difference->second;
  }
}

struct Grid {
  int dp, pp, micro_steps, zero_stage;
};

std::string grid_name(const Grid& g) {
  return "Dp" + std::to_string(g.dp) + "Pp" + std::to_string(g.pp) + "M" +
         std::to_string(g.micro_steps) + "Zero" + std::to_string(g.zero_stage) +
         std::to_string(g.zero_stage + 1);
}

Plan base(const Grid& g) {
  Plan p = testing_support::base_plan("cpu.f32");
  p.parallel = {.dp = g.dp, .pp = g.pp};
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
  add("serial", [](Variant& v) { v.mode = exec::RunMode::kSerial; });
  add("serial, random schedule", [](Variant& v) {
    v.mode = exec::RunMode::kSerial;
    v.schedule_seed = 7;
  });
  add("next ZeRO stage", [](Variant& v) { ++v.plan.zero_stage; });
  add("optimizer on cpu", [](Variant& v) { v.plan.placement.optimizer = Tier::kCpu; });
  add("recompute full", [](Variant& v) { v.plan.recompute = Recompute::kFull; });
  add("checkpoints on cpu", [](Variant& v) {
    v.plan.recompute = Recompute::kFull;
    v.plan.placement.activations = Tier::kCpu;
  });
  add("no prefetch", [](Variant& v) { v.plan.prefetch = 0; });
  add("prefetch 3", [](Variant& v) { v.plan.prefetch = 3; });
  add("no slack", [](Variant& v) { v.plan.slack = 0; });
  add("slack 0.3", [](Variant& v) { v.plan.slack = 0.3; });
  if (g.zero_stage == 2) {
    add("gradients on cpu",
        [](Variant& v) { v.plan.placement.grads = v.plan.placement.optimizer = Tier::kCpu; });
    add("everything on cpu", [](Variant& v) {
      v.plan.zero_stage = 3;
      v.plan.recompute = Recompute::kFull;
      v.plan.placement = {Tier::kCpu, Tier::kCpu, Tier::kCpu, Tier::kCpu};
    });
    add("parameters on cpu", [](Variant& v) {
      v.plan.zero_stage = 3;
      v.plan.placement.params = Tier::kCpu;
    });
  }
  return list;
}

class Bitwise : public testing::TestWithParam<Grid> {};

TEST_P(Bitwise, VariantsGiveTheSameBits) {
  const auto expected = train({"base", base(GetParam())});
  for (const Variant& v : variants(GetParam())) {
    ASSERT_EQ(illegal(v.plan, 4), std::nullopt) << v.name;
    expect_equal(*train(v), *expected, v.name);
  }
}

INSTANTIATE_TEST_SUITE_P(Grids, Bitwise,
                         testing::Values(Grid{1, 1, 1, 0}, Grid{2, 1, 1, 0}, Grid{2, 1, 2, 0},
                                         Grid{4, 1, 2, 0}, Grid{2, 2, 2, 0}, Grid{1, 1, 2, 2},
                                         Grid{2, 1, 1, 2}, Grid{2, 1, 2, 2}, Grid{4, 1, 1, 2},
                                         Grid{2, 2, 4, 2}),
                         [](const auto& grid) { return grid_name(grid.param); });

}  // namespace
}  // namespace zplan
