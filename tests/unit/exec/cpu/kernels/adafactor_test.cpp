// Adafactor's kernels against their definitions, of whole tensors and of pieces.
#include "exec/cpu/kernels/adafactor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/unit/exec/cpu/kernels/kernel_test_support.h"

namespace zplan::exec::cpu {
namespace {

constexpr double kEpsilon = 2.220446049250313e-16;

struct Tensor {
  std::int64_t matrices, rows, columns;  // columns 0: a vector
};
void PrintTo(const Tensor& t, std::ostream* out) {
  *out << t.matrices << "x" << t.rows << "x" << t.columns;
}

struct State {
  std::vector<double> update, master, moments;
};

// In one go, as torch.optim.Adafactor is documented, for learning rate 1.
void expected_update(const Tensor& t, double step, State& s) {
  const auto rows = static_cast<std::size_t>(t.rows),
             columns = static_cast<std::size_t>(std::max<std::int64_t>(1, t.columns));
  const double weight = std::pow(step, -0.8);
  double squares = 0, size = 0;
  for (std::size_t k = 0; k < static_cast<std::size_t>(t.matrices); ++k) {
    double* const g = s.update.data() + k * rows * columns;
    double* const r = s.moments.data() + k * rows;
    double* const c = s.moments.data() + static_cast<std::size_t>(t.matrices) * rows + k * columns;
    double mean = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < columns; ++j) sum += g[i * columns + j] * g[i * columns + j];
      r[i] = (1 - weight) * r[i] + weight * sum / static_cast<double>(columns);
      mean += r[i] / static_cast<double>(rows);
    }
    for (std::size_t j = 0; j < columns && t.columns > 0; ++j) {
      double sum = 0;
      for (std::size_t i = 0; i < rows; ++i) sum += g[i * columns + j] * g[i * columns + j];
      c[j] = (1 - weight) * c[j] + weight * sum / static_cast<double>(rows);
    }
    for (std::size_t i = 0; i < rows * columns; ++i) {
      const double v =
          t.columns > 0 ? r[i / columns] * c[i % columns] / std::max(mean, kEpsilon) : r[i];
      g[i] /= std::sqrt(std::max(v, kEpsilon * kEpsilon));
      squares += g[i] * g[i];
    }
  }
  for (const double p : s.master) size += p * p;
  const auto n = static_cast<double>(s.update.size());
  const double factor = std::max(1e-3, std::sqrt(size / n)) * std::min(1.0, 1 / std::sqrt(step)) /
                        std::max(1.0, std::sqrt(squares / n));
  for (double& g : s.update) g *= factor;
}

class Adafactor : public testing::TestWithParam<Tensor> {};

// The pieces of several ranks, of which the last ends behind the tensor, share their sums.
TEST_P(Adafactor, PiecesUpdateAsTheWholeDoes) {
  const Tensor t = GetParam();
  const std::int64_t n = t.matrices * t.rows * std::max<std::int64_t>(1, t.columns);
  const std::int64_t sums_of = t.matrices * (t.rows + t.columns);
  constexpr std::int64_t kBegin = 5;
  for (const std::int64_t pieces : {1, 3, 7}) {
    const std::int64_t size = ceil_div(kBegin + n + 4, pieces);
    State whole{random_values<double>(n, 1), random_values<double>(n, 2, 0.1),
                buffer<double>(sums_of, 0.0)};
    std::vector<double> flat(static_cast<std::size_t>(size * pieces), 3.0), master = flat;
    std::vector<std::vector<double>> moments(static_cast<std::size_t>(pieces), whole.moments);
    std::copy(whole.master.begin(), whole.master.end(), master.begin() + kBegin);
    for (const double step : {1.0, 2.0, 9.0}) {
      whole.update = random_values<double>(n, static_cast<unsigned>(step));
      std::copy(whole.update.begin(), whole.update.end(), flat.begin() + kBegin);
      expected_update(t, step, whole);
      std::vector<double> sums = buffer<double>(sums_of, 0.0), own = sums;
      double of_master = 0, of_update = 0;
      const auto each = [&](const auto& body) {
        for (std::int64_t p = 0; p < pieces; ++p) {
          const FactoredPart part{size, p * size, kBegin, t.matrices, t.rows, t.columns};
          body(part, Elements{flat.data() + p * size, DType::kF64}, p);
        }
      };
      each([&](const FactoredPart& part, const Elements& update, std::int64_t p) {
        double square = -1;
        adafactor_sums(part, update, {master.data() + p * size, DType::kF64}, own.data(), &square);
        for (std::size_t i = 0; i < own.size(); ++i) sums[i] += own[i];
        of_master += square;
      });
      each([&](const FactoredPart& part, const Elements& update, std::int64_t p) {
        double square = -1;
        FactoredMoments x{};
        x.part = part;
        x.update = update;
        x.moments = elements_of(moments[static_cast<std::size_t>(p)]);
        x.sums = sums.data();
        x.squares = &square;
        adafactor_factors(x, step, {});
        of_update += square;
      });
      each([&](const FactoredPart& part, const Elements& update, std::int64_t) {
        adafactor_scale(part, update, {of_master, of_update, 1.0, step});
      });
      for (std::size_t i = 0; i < whole.update.size(); ++i)
        ASSERT_NEAR(flat[kBegin + i], whole.update[i], 1e-13) << pieces << " " << step << " " << i;
      for (const auto& kept : moments)
        for (std::size_t i = 0; i < kept.size(); ++i)
          ASSERT_NEAR(kept[i], whole.moments[i], 1e-13) << pieces << " " << i;
    }
    for (std::size_t i = 0; i < kBegin; ++i) ASSERT_EQ(flat[i], 3.0);
    for (std::size_t i = kBegin + whole.update.size(); i < flat.size(); ++i)
      ASSERT_EQ(flat[i], 3.0);
  }
}

INSTANTIATE_TEST_SUITE_P(Tensors, Adafactor,
                         testing::Values(Tensor{1, 8, 8}, Tensor{1, 130, 70}, Tensor{1, 1, 9},
                                         Tensor{1, 700, 0}, Tensor{3, 20, 12}));

TEST(AdafactorGradient, IsClippedOrZero) {
  constexpr std::int64_t n = 9000;
  auto grad = random_values<float>(n, 1), update = buffer<float>(n, 7.0F);
  adafactor_gradient(elements_of(grad), 0.5, elements_of(update), n);
  for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(update[i], 0.5F * grad[i]);
  grad[3] = std::numeric_limits<float>::infinity();
  adafactor_gradient(elements_of(grad), 0, elements_of(update), n);
  EXPECT_EQ(update, buffer<float>(n, 0.0F));
}

// In float, with moments of 16 bits: what is kept divides.
TEST(AdafactorFactors, KeepMomentsOf16Bits) {
  constexpr std::int64_t rows = 40, columns = 30, n = rows * columns;
  auto update = random_values<float>(n, 1);
  const auto gradient = update;
  auto moments = buffer<Bf16>(rows + columns, Bf16(0.0F));
  std::vector<double> sums(rows + columns, 0.0);
  auto master = random_values<float>(n, 2);
  double square = 0;
  FactoredMoments x{};
  x.part = {n, 0, 0, 1, rows, columns};
  x.update = elements_of(update);
  x.moments = elements_of(moments);
  x.sums = sums.data();
  x.squares = &square;
  adafactor_sums(x.part, x.update, elements_of(master), sums.data(), &square);
  adafactor_factors(x, 1, {});
  double mean = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    const double kept = static_cast<float>(moments[i]);
    EXPECT_NEAR(kept, sums[i] / columns, sums[i] / columns / 128);
    mean += kept / rows;
  }
  for (std::size_t i = 0; i < n; ++i) {
    const double second = static_cast<float>(moments[i / columns]) *
                          static_cast<float>(moments[rows + i % columns]) / mean;
    ASSERT_NEAR(update[i], gradient[i] / std::sqrt(second), 1e-5);
  }
}

}  // namespace
}  // namespace zplan::exec::cpu
