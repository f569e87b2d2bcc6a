// Muon on a model with experts: the matrix of each moves as the definition [Jordan24] says of it
// alone, written here in plain loops; and plans of several ranks, which have other experts, train
// as one rank does, in fp64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/program/verify/verify.h"
#include "tests/support/plan_space.h"
#include "tests/support/trained.h"

namespace zplan {
namespace {

constexpr double kTolerance = 1e-10;

Plan plan_of(const char* model = "tiny-moe", Gather gather = Gather(Gather::kOperator)) {
  Plan plan = testing_support::base_plan("cpu.f64", model);
  plan.optimizer.kind = OptimizerKind::kMuon;
  plan.expert_imbalance = 0;  // room for whatever comes
  plan.gather = gather;
  return plan;
}

struct Matrix {
  std::int64_t rows, columns;
  std::vector<double> values;

  double operator()(std::int64_t i, std::int64_t j) const {
    return values[static_cast<std::size_t>(i * columns + j)];
  }
};

Matrix zeros(std::int64_t rows, std::int64_t columns) {
  return {rows, columns, std::vector<double>(static_cast<std::size_t>(rows * columns))};
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix out = zeros(a.rows, b.columns);
  for (std::int64_t i = 0; i < out.rows; ++i)
    for (std::int64_t j = 0; j < out.columns; ++j)
      for (std::int64_t k = 0; k < a.columns; ++k)
        out.values[static_cast<std::size_t>(i * out.columns + j)] += a(i, k) * b(k, j);
  return out;
}

Matrix transposed(const Matrix& a) {
  Matrix out = zeros(a.columns, a.rows);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t j = 0; j < a.columns; ++j)
      out.values[static_cast<std::size_t>(j * a.rows + i)] = a(i, j);
  return out;
}

// x = a x + (b x x^T + c x x^T x x^T) x, of a matrix with more rows than columns of its transpose.
Matrix orthogonal(Matrix x) {
  if (x.rows > x.columns) return transposed(orthogonal(transposed(x)));
  double squares = 0;
  for (const double value : x.values) squares += value * value;
  for (double& value : x.values) value /= std::sqrt(squares);
  for (int step = 0; step < 5; ++step) {
    const Matrix gram = product(x, transposed(x));
    const Matrix once = product(gram, x), twice = product(gram, once);
    for (std::size_t i = 0; i < x.values.size(); ++i)
      x.values[i] = 3.4445 * x.values[i] - 4.7750 * once.values[i] + 2.0315 * twice.values[i];
  }
  return x;
}

// The first update goes down what is in the direction of the moment. Without steps the parameters
// are those that it began with.
TEST(MuonOfExperts, MovesTheMatrixOfEachByItself) {
  exec::RunOptions options = testing_support::steps(1);
  options.train.weight_decay = 0;
  const double rate = options.train.learning_rate_at(1);
  const auto after = testing_support::train(plan_of(), options);
  options.train.learning_rate = 0;
  const auto before = testing_support::train(plan_of(), options);
  const testing_support::Tensors moved = testing_support::states(*after),
                                 begun = testing_support::states(*before),
                                 moments = testing_support::states(*after, exec::State::kMoment1);
  const ModelConfig model = load_model("tiny-moe");
  const std::int64_t count = model.experts->count, h = model.hidden, f = model.experts->ffn;
  int tensors = 0;
  for (const auto& [name, values] : moved) {
    const bool is_up = name.ends_with("experts.gate_up_proj.weight");
    if (!is_up && !name.ends_with("experts.down_proj.weight")) continue;
    ++tensors;
    const auto [rows, columns] = is_up ? std::pair{h, 2 * f} : std::pair{f, h};
    ASSERT_EQ(std::ssize(values), count * rows * columns) << name;
    for (std::int64_t e = 0; e < count; ++e) {
      const std::int64_t from = e * rows * columns;
      const auto first = moments.at(name).begin() + from;
      const Matrix expected = orthogonal({rows, columns, {first, first + rows * columns}});
      const double size = 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
      for (std::size_t i = 0; i < expected.values.size(); ++i) {
        const std::size_t at = static_cast<std::size_t>(from) + i;
        ASSERT_NEAR(begun.at(name)[at] - values[at], rate * size * expected.values[i], kTolerance)
            << name << " of expert " << e;
      }
    }
  }
  EXPECT_EQ(tensors, 2 * model.layers);
}

// Experts as they are, beside shared ones and latent attention, with biases, and of an encoder.
constexpr std::int64_t kRanks[] = {1, 2, 4, 2};  // with other experts, by ZeRO stage

class MuonOfExperts : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(MuonOfExperts, RanksWithOtherExpertsTrainAsOneDoes) {
  const auto [model, zero_stage] = GetParam();
  const auto one = testing_support::train(plan_of(model), testing_support::steps(2));
  for (const Gather gather : {Gather(Gather::kOperator), Gather(Gather::kLayer)}) {
    Plan plan = plan_of(model, gather);
    plan.zero_stage = zero_stage;
    plan.parallel.dp = 4;
    plan.parallel.ep =
        static_cast<std::int32_t>(std::gcd(kRanks[zero_stage], load_model(model).experts->count));
    plan.batch.micro_batch = 2;
    ASSERT_EQ(illegal(plan, shape_of(load_model(plan.model))), std::nullopt);
    const auto got = testing_support::train(plan, testing_support::steps(2));
    EXPECT_EQ(verify(got->job), std::vector<std::string>{});
    testing_support::expect_near(testing_support::states(*got), testing_support::states(*one),
                                 kTolerance);
    EXPECT_EQ(exec::replica_mismatch(got->job, got->result.memory), std::nullopt);
  }
}

INSTANTIATE_TEST_SUITE_P(ModelsAndZeroStages, MuonOfExperts,
                         testing::Combine(testing::Values("tiny-moe", "tiny-deepseek",
                                                          "tiny-gpt-oss", "tiny-switch"),
                                          testing::Range(0, 4)));

}  // namespace
}  // namespace zplan
