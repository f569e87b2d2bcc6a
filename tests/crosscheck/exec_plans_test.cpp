// Every plan of the pairwise cover trains the tiny model on the CPU executor like the reference:
// one rank, nothing sharded, recomputed or offloaded. In fp64 any disagreement is a bug, since
// rounding is 1e-16; in fp32 the tolerances leave room for another order of summation.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "exec/state_access.h"
#include "tests/support/gradient_log.h"
#include "tests/support/plan_space.h"
#include "tests/support/trained.h"

namespace zplan {
namespace {

using testing_support::Choice;
using testing_support::GradientLog;

constexpr int kSteps = testing_support::steps_of(10);
// The tolerances of `zplan run --check` (planner/cli/check.cpp), whose comparison is written a
// second time here so that a slip in one of them shows. Here the query and the value part of the
// QKV bias are held against their own norms, there against the whole bias.
constexpr double kF64Tolerance = 1e-10;
constexpr double kF32Tolerance = 1e-5;
// Of the distance that the updates have moved a tensor. In f32 the greatest is 1.6e-4; the command
// leaves ten times this, for any plan and number of steps.
constexpr double kF32Way = 1e-3, kF64Way = 1e-10;
constexpr double kF32KeyBiasTolerance = 1e-6;

struct Trained {
  Job job;
  exec::RunResult result;
  GradientLog gradients;  // of the first step
};

std::unique_ptr<Trained> train(const Plan& plan) {
  auto trained = std::make_unique<Trained>();
  trained->job = testing_support::placed_job(plan);
  exec::RunOptions options;
  options.steps = kSteps;
  options.observer = trained->gradients.observer(trained->job, 0);
  trained->result = testing_support::run_text(trained->job, options);
  return trained;
}

// Of the same model on the same kernel set.
const Trained& reference(const Plan& plan) {
  static std::map<std::string, std::unique_ptr<Trained>> known;
  auto& entry = known[plan.model + plan.kernel_set];
  if (!entry) entry = train(testing_support::reference_plan(plan.kernel_set, plan.model));
  return *entry;
}

double norm(const std::vector<double>& v) {
  double sum = 0;
  for (double x : v) sum += x * x;
  return std::sqrt(sum);
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// Parts of tensors whose content matters; of the QKV bias not that of the keys: softmax ignores a
// constant added to all scores of a query.
std::vector<std::vector<double>> parts(const std::string& tensor, const std::vector<double>& v) {
  if (!tensor.ends_with("c_attn.bias")) return {v};
  const auto third = static_cast<std::ptrdiff_t>(v.size() / 3);
  return {{v.begin(), v.begin() + third}, {v.end() - third, v.end()}};
}

// Where training of the same model on the same kernel set starts.
const testing_support::Tensors& start(const Plan& plan) {
  static std::map<std::string, testing_support::Tensors> known;
  const auto [entry, is_new] = known.try_emplace(plan.model + plan.kernel_set);
  if (is_new) {
    exec::RunOptions options;
    options.steps = 0;
    const auto untrained = testing_support::train(
        testing_support::reference_plan(plan.kernel_set, plan.model), options);
    entry->second = testing_support::tensors(untrained->job, untrained->result);
  }
  return entry->second;
}

// Differences of parameters, part by part, against the distance travelled: single elements whose
// gradient is itself of the size of rounding drift apart by up to the learning rate in every step,
// since AdamW normalises it.
void expect_agreement_within_rounding(const Trained& got, const Trained& expected,
                                      const testing_support::Tensors& from, double of_way) {
  const auto mine = testing_support::tensors(got.job, got.result);
  for (const auto& [tensor, values] : testing_support::tensors(expected.job, expected.result)) {
    const auto ours = parts(tensor, mine.at(tensor)), theirs = parts(tensor, values),
               begin = parts(tensor, from.at(tensor));
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      EXPECT_GT(distance(theirs[i], begin[i]), 0) << tensor;
      EXPECT_LE(distance(ours[i], theirs[i]), of_way * distance(theirs[i], begin[i])) << tensor;
    }
  }
}

class ExecPlans : public testing::TestWithParam<Choice> {};

TEST_P(ExecPlans, Fp64AgreesWithTheReferenceTo1em10AfterTenSteps) {
  const Plan plan = testing_support::plan_of(GetParam(), "cpu.f64");
  const Trained& expected = reference(plan);
  const auto got = train(plan);
  ASSERT_EQ(got->result.steps.size(), std::size_t{kSteps});
  for (std::size_t i = 0; i < kSteps; ++i) {
    const double loss = expected.result.steps[i].loss;
    EXPECT_NEAR(got->result.steps[i].loss, loss, kF64Tolerance * loss);
    EXPECT_NEAR(got->result.steps[i].gradient_norm, expected.result.steps[i].gradient_norm,
                kF64Tolerance);
  }
  const auto worst =
      exec::largest_difference(got->job, got->result.memory, expected.job, expected.result.memory);
  if (worst) {
    EXPECT_NEAR(worst->first, worst->second, kF64Tolerance) << worst->tensor;
  }
  expect_agreement_within_rounding(*got, expected, start(plan), kF64Way);
  EXPECT_EQ(exec::replica_mismatch(got->job, got->result.memory), std::nullopt);
}

// The K part of the QKV bias has an exactly zero gradient: softmax ignores a constant added to all
// scores of a query. What is there is rounding, so it is held against its layer's gradient.
void expect_agreement_of_gradients(const Trained& trained, const Trained& one_rank) {
  const auto expected = one_rank.gradients.tensors(one_rank.job);
  const auto got = trained.gradients.tensors(trained.job);
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [tensor, gradient] : expected) {
    const std::vector<double>& mine = got.at(tensor);
    ASSERT_EQ(mine.size(), gradient.size()) << tensor;
    if (!tensor.ends_with("c_attn.bias")) {
      EXPECT_LE(distance(mine, gradient), kF32Tolerance * norm(gradient)) << tensor;
      continue;
    }
    const std::string layer = tensor.substr(0, tensor.find("attn."));
    double layer_square = 0;
    for (const auto& [other, values] : expected)
      if (other.starts_with(layer)) layer_square += norm(values) * norm(values);
    const std::size_t h = gradient.size() / 3;
    const auto third = [&](const std::vector<double>& v, std::size_t part) {
      return std::vector<double>(v.begin() + static_cast<std::ptrdiff_t>(part * h),
                                 v.begin() + static_cast<std::ptrdiff_t>((part + 1) * h));
    };
    for (std::size_t part : {0U, 2U})
      EXPECT_LE(distance(third(mine, part), third(gradient, part)),
                kF32Tolerance * norm(third(gradient, part)))
          << tensor << " part " << part;
    EXPECT_LE(distance(third(mine, 1), third(gradient, 1)),
              kF32KeyBiasTolerance * std::sqrt(layer_square))
        << tensor << " K part";
  }
}

TEST_P(ExecPlans, Fp32AgreesWithTheReferenceInFirstGradientsAndAfterTenSteps) {
  const Plan plan = testing_support::plan_of(GetParam(), "cpu.f32");
  const Trained& expected = reference(plan);
  const auto got = train(plan);
  {
    SCOPED_TRACE("after all steps");
    ASSERT_EQ(got->result.steps.size(), std::size_t{kSteps});
    for (std::size_t i = 0; i < kSteps; ++i) {
      const double loss = expected.result.steps[i].loss;
      EXPECT_NEAR(got->result.steps[i].loss, loss, kF32Tolerance * loss);
    }
    expect_agreement_within_rounding(*got, expected, start(plan), kF32Way);
  }
  SCOPED_TRACE("gradients of the first step");
  expect_agreement_of_gradients(*got, expected);
}

INSTANTIATE_TEST_SUITE_P(Pairwise, ExecPlans,
                         testing::ValuesIn(testing_support::pairwise_choices()),
                         [](const auto& plan) { return testing_support::name_of(plan.param); });

// A training sequence below the model's leaves positions without gradients.
TEST(ShortSequence, ShardedTrainingAgreesWithTheReferenceIn64Bit) {
  Plan plan = testing_support::reference_plan("cpu.f64");
  plan.batch.sequence = 12;
  const auto expected = train(plan);
  for (int stage : {0, 1, 2, 3}) {
    plan.zero_stage = stage;
    plan.parallel.dp = 2;
    const auto got = train(plan);
    const auto worst = exec::largest_difference(got->job, got->result.memory, expected->job,
                                                expected->result.memory);
    if (worst) {
      EXPECT_NEAR(worst->first, worst->second, kF64Tolerance) << worst->tensor;
    }
  }
}

TEST(PlanSpace, TheCoverHasAtLeast80Plans) {
  EXPECT_GE(testing_support::pairwise_choices().size() * testing_support::kEvery, 80U);
}

// Of which sanitizers run a part, too.
TEST(PlanSpace, ThePlansThatRunHaveEveryLevelOfEveryFactor) {
  std::set<std::pair<std::size_t, int>> seen;
  for (const Choice& c : testing_support::pairwise_choices())
    for (std::size_t f = 0; f < c.size(); ++f) seen.emplace(f, c[f]);
  const std::vector<testing_support::Factor>& factors = testing_support::factors();
  for (std::size_t f = 0; f < factors.size(); ++f)
    for (int level = 0; level < factors[f].levels; ++level)
      EXPECT_TRUE(seen.contains({f, level})) << factors[f].pointer << ", level " << level;
}

}  // namespace
}  // namespace zplan
