// Muon's kernels against their definitions.
#include "exec/cpu/kernels/muon.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/unit/exec/cpu/kernels/kernel_test_support.h"

namespace zplan::exec::cpu {
namespace {

constexpr AdamwScalars kScalars{1e-2, 0.9, 0.95, 1e-8, 0.1, 1 - 0.9, 1 - 0.95, 0.5, false};

struct Matrix {
  std::int64_t rows, columns;
};

class Orthogonal : public testing::TestWithParam<Matrix> {};

// Newton-Schulz leaves singular values between 0.68 and 1.14 [Jordan24], wherever they were.
TEST_P(Orthogonal, RowsOrColumnsAreAboutOrthogonal) {
  const auto [rows, columns] = GetParam();
  const std::int64_t q = std::min(rows, columns);
  auto x = random_values<double>(rows * columns, 1), next = x;
  std::vector<double> gram(static_cast<std::size_t>(q * q)), polynomial = gram;
  orthogonalise(
      Orthogonalise<double>{x.data(), next.data(), gram.data(), polynomial.data(), rows, columns});
  const double size = 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
  double squares = 0;
  for (const double value : x) squares += value * value / (size * size);
  EXPECT_GT(squares, 0.68 * 0.68 * static_cast<double>(q));
  EXPECT_LT(squares, 1.14 * 1.14 * static_cast<double>(q));
}

INSTANTIATE_TEST_SUITE_P(Shapes, Orthogonal,
                         testing::Values(Matrix{8, 8}, Matrix{12, 40}, Matrix{40, 12}, Matrix{1, 9},
                                         Matrix{64, 48}));

TEST(Muon, MomentumIsNesterovs) {
  constexpr std::int64_t n = 700;
  auto m = random_values<double>(n, 1), grad = random_values<double>(n, 2);
  const auto before = m;
  auto update = buffer<double>(n, 7.0);
  muon_momentum(kScalars, {elements_of(m), elements_of(grad), elements_of(update), n, 0});
  for (std::size_t i = 0; i < n; ++i) {
    const double g = 0.5 * grad[i], kept = 0.9 * before[i] + (1 - 0.9) * g;
    ASSERT_NEAR(m[i], kept, 1e-15);
    ASSERT_NEAR(update[i], 0.9 * kept + (1 - 0.9) * g, 1e-15);
  }
  AdamwScalars skipped = kScalars;
  skipped.skip = true;
  const auto kept = m;
  muon_momentum(skipped, {elements_of(m), elements_of(grad), elements_of(update), n, 0});
  EXPECT_EQ(m, kept);
  EXPECT_EQ(update, buffer<double>(n, 0.0));
}

TEST(Muon, GoesDownTheUpdateAndDecays) {
  constexpr std::int64_t n = 700;
  auto p = random_values<float>(n, 1), update = random_values<float>(n, 2), param = p;
  const auto before = p;
  muon(kScalars, {elements_of(p),
                  {nullptr, DType::kF32},
                  elements_of(update),
                  elements_of(param),
                  n,
                  100,
                  400});
  for (std::size_t i = 0; i < n; ++i) {
    const double keep = i + 100 < 400 ? 1 - 1e-2 * 0.1 : 1;
    ASSERT_NEAR(p[i], before[i] * keep - 1e-2 * update[i], 1e-6);
  }
  EXPECT_EQ(param, p);
}

}  // namespace
}  // namespace zplan::exec::cpu
