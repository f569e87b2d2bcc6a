// Checkpoints and failures: the 980 GB of a checkpoint of 70B parameters, and the 54 days of
// Llama 3 405B [Dubey24 sec 3.3.4]: 419 unexpected interruptions of 16,384 H100, over 90 % of the
// time effective.
#include "planner/cost/goodput.h"

#include <gtest/gtest.h>

#include <cmath>

#include "models/model_formulas.h"
#include "planner/lower/lower.h"
#include "planner/plan/plan.h"

namespace zplan {
namespace {

constexpr double kAdamBytes = 14;  // 2 + 4 + 4 + 4
constexpr Seconds kHour{3600};

Plan plan_of(int dp, int tp, int pp, int zero) {
  Plan plan;
  plan.kernel_set = "cuda.sm90.bf16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.dp = dp;
  plan.parallel.tp = tp;
  plan.parallel.pp = pp;
  plan.zero_stage = zero;
  plan.batch = {.global_batch = 16, .micro_batch = 1, .sequence = 1024};
  return plan;
}

double checkpoint(const char* model, const Plan& plan) {
  return checkpoint_bytes(lower(plan, load_model(model))).total();
}

TEST(Goodput, ACheckpointHasFourteenBytesPerParameterHoweverTheyAreCut) {
  const ModelConfig model = load_model("llama3-70b");
  const double wanted = kAdamBytes * static_cast<double>(parameter_count(model));
  EXPECT_NEAR(wanted / 1e9, 980, 0.01 * 980);  // of 70B, as the name has it
  for (const Plan& plan : {plan_of(1, 1, 1, 0), plan_of(16, 1, 1, 3), plan_of(2, 8, 1, 1),
                           plan_of(2, 2, 4, 0), plan_of(4, 4, 1, 2)})
    EXPECT_NEAR(checkpoint("llama3-70b", plan) / wanted, 1, 1e-9)
        << plan.parallel.dp << " " << plan.parallel.tp << " " << plan.parallel.pp;
}

TEST(Goodput, TiedEmbeddingsOfTwoStagesAreWrittenOnce) {
  EXPECT_DOUBLE_EQ(checkpoint("gpt2", plan_of(1, 1, 2, 0)),
                   checkpoint("gpt2", plan_of(1, 1, 1, 0)));
}

TEST(Goodput, ExpertsAreWrittenOnceWhereRanksShareThem) {
  Plan shared = plan_of(8, 1, 1, 1);
  const double whole = checkpoint("mixtral-8x7b", shared);
  shared.parallel.ep = 8;
  EXPECT_NEAR(checkpoint("mixtral-8x7b", shared) / whole, 1, 1e-9);
}

TEST(Goodput, ReachesThePublishedShareOfLlama3) {
  const Failures failures{.mtbf = kLlamaDeviceMtbf / kLlamaDevices, .restart = kUsualRestart};
  EXPECT_NEAR(failures.mtbf.value / kHour.value, 3.09, 0.005);  // one every three hours
  const Seconds write{kAdamBytes * 405e9 / 2e12};               // storage of 2 TB/s
  const Goodput found = goodput(write, failures);
  EXPECT_GT(found.effective, 0.90);
  EXPECT_LT(found.effective, 0.95);
  EXPECT_NEAR(found.effective + found.checkpointing + found.rework + found.restarting, 1, 1e-12);
  // What is assumed is the restart: the published share bounds it.
  const auto share = [&](double minutes) {
    return goodput(write, {.mtbf = failures.mtbf, .restart = {60 * minutes}}).effective;
  };
  EXPECT_GT(share(14), 0.90);
  EXPECT_LT(share(16), 0.90);
}

TEST(Goodput, DalysIntervalIsBest) {
  for (const double write : {3.0, 60.0, 600.0}) {
    const Failures failures{.mtbf = kHour * 3, .restart = {300}};
    const Goodput best = goodput({write}, failures);
    for (const double factor : {0.7, 0.9, 1.1, 1.4})
      EXPECT_LT(goodput_at(best.interval * factor, {write}, failures).effective, best.effective);
    EXPECT_NEAR(best.young.value, std::sqrt(2 * write * 3 * kHour.value), 1e-9);
  }
}

// [Daly06 Figs. 3, 4, 5] the interval that the model predicts for checkpoints of 5 min, printed
// beside the plots.
TEST(Goodput, DalysIntervalIsThatOfHisFigures) {
  constexpr double kMinute = 60;
  const auto minutes = [&](Seconds mtbf) {
    return goodput({5 * kMinute}, {.mtbf = mtbf, .restart = {10 * kMinute}}).interval.value /
           kMinute;
  };
  EXPECT_NEAR(minutes(kHour * 24), 117, 0.5);
  EXPECT_NEAR(minutes(kHour * 6), 57, 0.5);
  EXPECT_NEAR(minutes(kHour * 0.25), 9.1, 0.05);
}

TEST(Goodput, FirstOrderShareOfShortCheckpoints) {
  // Lost: d / tau, half an interval and a restart per failure.
  const Failures failures{.mtbf = kHour * 1000, .restart = {60}};
  const Goodput found = goodput({1}, failures);
  const double tau = found.interval.value, m = failures.mtbf.value;
  EXPECT_NEAR(1 - found.effective, 1 / tau + tau / 2 / m + 60 / m, 1e-5);
}

TEST(Goodput, TheNarrowestPartOfTheWayDecides) {
  const Cluster cluster = load_cluster("dgx2x4");
  const CheckpointPath own = checkpoint_path(cluster, 4, {});
  EXPECT_NEAR(own.to_host.value, 4 * 48e9, 1);  // four uplinks of 12 GB/s [Rajbhandari21]
  EXPECT_NEAR(own.storage.value, 4 * 25.6e9, 1);
  EXPECT_EQ(own.rate(), own.storage);
  EXPECT_EQ(checkpoint_path(cluster, 4, BytesPerSecond{1e12}).rate(), own.to_host);
}

}  // namespace
}  // namespace zplan
