// PipeDream against its definition [Harlap18 sec 3.3]: stage s of p trains micro-batch t on
// parameters that lack the updates of the p - 1 - s micro-batches before it. Once by hand, from
// runs of a plain plan on one rank between whose steps old parameters are put in place; then
// against the plan of one rank with as many chunks, for all that a plan can have beside it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "tests/support/sanitized.h"
#include "tests/support/stale_pipelines.h"

namespace zplan {
namespace {

using testing_support::expect_near;
using testing_support::states;
using testing_support::steps;
using testing_support::train;
using testing_support::Trained;
using testing_support::unclipped_rank;

constexpr double kTolerance = 1e-10;
constexpr int kSteps = testing_support::kSanitized ? 2 : 4;

Plan piped(const std::string& model, std::int64_t global_batch, std::int32_t pp) {
  return testing_support::unclipped_pipeline(model, global_batch, pp, Schedule::kWeightStashing);
}

// The same training on one rank.
Plan in_chunks(const Plan& plan) {
  Plan one = unclipped_rank(plan.model, plan.batch.global_batch);
  one.batch.micro_batch = plan.batch.micro_batch * plan.parallel.dp;
  one.schedule = plan.schedule;
  one.parallel.chunks = plan.pieces();
  one.stage_layers = plan.stage_layers;
  one.optimizer = plan.optimizer;
  one.train = plan.train;
  return one;
}

// Trains a plain plan of one rank, whose steps are the micro-batches. Each of its updates it works
// out again from what it has kept, and leaves in place of the result what the next one is to see.
class Definition {
 public:
  Definition(const Plan& piped, int micro_batches) : piped_(piped), layers_(4) {
    Plan plan = unclipped_rank(piped.model, piped.batch.micro_batch);
    trained_.job = testing_support::placed_job(plan);
    exec::RunOptions options = steps(micro_batches);
    options.mode = exec::RunMode::kSerial;
    config_ = options.train;
    options.observer = [this](const exec::NodeEvent& event) { observe(event); };
    trained_.result = testing_support::run_text(trained_.job, options);
  }
  const Trained& trained() const { return trained_; }

 private:
  struct Kept {
    std::vector<std::vector<double>> versions;  // after so many updates
    std::vector<double> m, v;
  };

  std::int32_t stage_of(const Unit& unit, std::int32_t layer) const {
    const std::int32_t last = piped_.parallel.pp - 1;
    if (!unit.per_layer) return unit.name.starts_with("embedding") ? 0 : last;
    std::int32_t stage = 0;
    while (layer >= piped_.layers_of_piece(layers_, stage))
      layer -= piped_.layers_of_piece(layers_, stage++);
    return stage;
  }

  void observe(const exec::NodeEvent& event) {
    const Node& node = event.program->nodes[event.node];
    if (node.kind != OpKind::kKernel || node.kernel != KernelId::kAdamW) return;
    ASSERT_EQ(event.operands.size(), 6U);
    const AttributeValues attributes = resolve(event.program->attributes_of(node), {});
    const Unit& unit = trained_.job.units[static_cast<std::size_t>(attributes[2])];
    const std::int32_t layer = unit.per_layer ? static_cast<std::int32_t>(event.env.layer) : 0;
    Kept& kept = kept_[{attributes[2], layer}];
    update(event, attributes[1], kept);
    const auto behind = static_cast<std::size_t>(piped_.parallel.pp - 1 - stage_of(unit, layer));
    const std::size_t updates = kept.versions.size() - 1;
    const std::vector<double>& next = kept.versions[updates > behind ? updates - behind : 0];
    std::copy(next.begin(), next.end(), event.operands[0].as<double>());
  }

  // The first parameters are what the first update is undone to [Loshchilov19 Algorithm 2].
  void update(const exec::NodeEvent& event, std::int64_t decay_end, Kept& kept) const {
    const double* gradient = event.operands[3].as<double>();
    const auto n = static_cast<std::size_t>(event.operands[0].elements());
    const double t = static_cast<double>(event.step) + 1, rate = config_.learning_rate;
    kept.m.resize(n);
    kept.v.resize(n);
    std::vector<double> first(n), p(n);
    for (std::size_t i = 0; i < n; ++i) {
      const double g = gradient[i];
      kept.m[i] = config_.beta1 * kept.m[i] + (1 - config_.beta1) * g;
      kept.v[i] = config_.beta2 * kept.v[i] + (1 - config_.beta2) * g * g;
      const double m = kept.m[i] / (1 - std::pow(config_.beta1, t));
      const double v = kept.v[i] / (1 - std::pow(config_.beta2, t));
      const double step = rate * m / (std::sqrt(v) + config_.epsilon);
      const bool decays = static_cast<std::int64_t>(i) < decay_end;
      const double left = 1 - (decays ? rate * config_.weight_decay : 0);
      if (event.step == 0) first[i] = (event.operands[0].as<double>()[i] + step) / left;
      p[i] = (event.step == 0 ? first[i] : kept.versions.back()[i]) * left - step;
    }
    if (event.step == 0) kept.versions.push_back(std::move(first));
    kept.versions.push_back(std::move(p));
  }

  Plan piped_;
  std::int64_t layers_;
  Trained trained_;
  TrainConfig config_;
  std::map<std::pair<std::int64_t, std::int32_t>, Kept> kept_;
};

TEST(WeightStashing, IsWhatItsDefinitionSays) {
  for (const std::int32_t pp : {2, 3, 4}) {
    SCOPED_TRACE(pp);
    constexpr int kMicroSteps = 5;
    const Plan plan = piped("tiny-llama", kMicroSteps, pp);
    const auto got = train(plan, steps(kSteps));
    const Definition definition(plan, kSteps * kMicroSteps);
    expect_near(states(*got, exec::State::kParam),
                states(definition.trained(), exec::State::kParam), kTolerance);
    for (std::size_t i = 0; i < kSteps; ++i) {
      double sum = 0;
      for (std::size_t micro = 0; micro < kMicroSteps; ++micro)
        sum += definition.trained().result.steps[i * kMicroSteps + micro].loss;
      EXPECT_NEAR(got->result.steps[i].loss, sum / kMicroSteps, kTolerance);
    }
  }
}

// After every number of steps: each stage is as many updates behind as the chunk is.
void expect_agreement(const Plan& plan) {
  for (const Plan& p : {plan, in_chunks(plan)})
    ASSERT_EQ(illegal(p, shape_of(load_model(p.model))), std::nullopt);
  for (const int n : {1, kSteps}) {
    SCOPED_TRACE(n);
    const auto got = train(plan, steps(n)), expected = train(in_chunks(plan), steps(n));
    testing_support::expect_same_training(*got, *expected, kTolerance);
  }
}

TEST(WeightStashing, IsWhatAsManyChunksOfOneRankTrain) {
  for (const std::int32_t pp : {2, 3, 4})
    for (const std::int64_t micro_steps : {4, 7, 8}) {
      SCOPED_TRACE(pp);
      SCOPED_TRACE(micro_steps);
      expect_agreement(piped("tiny-llama", micro_steps, pp));
    }
}

TEST(WeightStashing, AgreesWithShardsTiersAndRecomputation) {
  auto changes = testing_support::changes_beside_the_schedule();
  changes.insert(changes.end(), {[](Plan& p) { p.gather = Gather::kLayer; },
                                 [](Plan& p) { p.optimizer.kind = OptimizerKind::kSgdMomentum; },
                                 [](Plan& p) { p.optimizer.kind = OptimizerKind::kMuon; },
                                 [](Plan& p) { p.train.what = zplan::Trained::kLora; }});
  for (std::size_t i = 0; i < changes.size(); ++i) {
    SCOPED_TRACE(i);
    Plan plan = piped("tiny-llama", 8, 2);
    changes[i](plan);
    expect_agreement(plan);
  }
}

// So that agreement says something: other staleness, other parameters.
TEST(WeightStashing, IsNeitherWhatAFlushNorWhatTwoVersionsTrain) {
  const auto own = train(piped("tiny-llama", 8, 2), steps(kSteps));
  for (const Schedule schedule : {Schedule::kOneForwardOneBackward, Schedule::kDoubleBuffered}) {
    Plan other = piped("tiny-llama", 8, 2);
    other.schedule = schedule;
    const auto theirs = train(other, steps(kSteps));
    EXPECT_GT(testing_support::furthest_parameter(*own, *theirs), 1e-4) << name(schedule);
  }
}

}  // namespace
}  // namespace zplan
