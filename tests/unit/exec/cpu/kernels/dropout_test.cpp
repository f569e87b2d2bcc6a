// Dropout on the CPU: which elements are dropped follows from the elements, not from how they are
// cut, and so many are.
#include "exec/cpu/kernels/dropout.h"

#include <gtest/gtest.h>

#include <vector>

namespace zplan::exec::cpu {
namespace {

constexpr DropoutDraws kDraws{{7, 11}, 3, 0.25};

struct Dropped {
  std::vector<double> y;
  std::vector<std::uint8_t> mask;
};

Dropped drop(const DropoutRows& rows, const DropoutDraws& draws = kDraws) {
  const auto n = static_cast<std::size_t>(rows.rows * rows.columns);
  const std::vector<double> x(n, 3.0);
  Dropped result{std::vector<double>(n), std::vector<std::uint8_t>(n)};
  dropout_forward(rows, draws, result.y.data(), result.mask.data(), x.data());
  return result;
}

TEST(Dropout, ScalesWhatItKeepsAndDropsAsManyAsTheRateSays) {
  const Dropped all = drop({400, 50, 0, 1, 100});
  std::int64_t kept = 0;
  for (std::size_t i = 0; i < all.y.size(); ++i) {
    EXPECT_EQ(all.y[i], all.mask[i] != 0 ? 4.0 : 0.0);
    kept += all.mask[i];
  }
  EXPECT_NEAR(static_cast<double>(kept), 0.75 * 20000, 4 * 61.0);  // 4 standard deviations
}

// Four sequences of 10 tokens: as one micro-batch; as the second half of the tokens of a tensor
// parallel rank; as the second half of each sequence on a context parallel rank.
TEST(Dropout, OfTokensIsTheSameInEveryPart) {
  const Dropped all = drop({40, 6, 8, 1, 10});
  const Dropped last = drop({20, 6, 8, 1, 10, 20});
  EXPECT_TRUE(std::equal(last.mask.begin(), last.mask.end(), all.mask.begin() + 20 * 6));
  const Dropped later = drop({20, 6, 8, 1, 5, 0, 5});
  for (std::size_t row = 0; row < 20; ++row)
    for (std::size_t column = 0; column < 6; ++column)
      EXPECT_EQ(later.mask[row * 6 + column],
                all.mask[((row / 5) * 10 + 5 + row % 5) * 6 + column]);
  const Dropped next = drop({10, 6, 9, 1, 10});
  EXPECT_TRUE(std::equal(next.mask.begin(), next.mask.end(), all.mask.begin() + 10 * 6));
}

// Two sequences of four heads of 5 x 5 scores: the two last heads of each on another rank.
TEST(Dropout, OfScoresIsTheSameInEveryPart) {
  const Dropped all = drop({40, 5, 2, 4, 5, 0, 0, true});
  const Dropped half = drop({20, 5, 2, 2, 5, 0, 2, true});
  for (std::size_t i = 0; i < half.mask.size(); ++i)
    EXPECT_EQ(half.mask[i], all.mask[i / 50 * 100 + 50 + i % 50]) << i;
}

TEST(Dropout, DiffersFromStepToStepLayerToLayerAndPartToPart) {
  const DropoutRows rows{40, 6, 8, 1, 10};
  const Dropped all = drop(rows);
  EXPECT_NE(drop(rows, {{7, 11}, 4, 0.25}).mask, all.mask);
  EXPECT_NE(dropout_key(5, 1, 2), dropout_key(5, 2, 2));
  EXPECT_NE(dropout_key(5, 1, 2), dropout_key(5, 1, 3));
  EXPECT_NE(dropout_key(5, 0, 0), (PhiloxKey{5, 0}));  // that of initial values
}

TEST(Dropout, GradientsAndResidualsFollowTheMask) {
  const DropoutRows rows{10, 6, 8, 1, 10};
  const Dropped all = drop(rows);
  const std::vector<double> x(60, 1.0), y(60, 2.0), bias(6, 1.0);
  std::vector<double> dx(60), out(60);
  std::vector<std::uint8_t> mask(60);
  dropout_backward(60, kDraws.rate, dx.data(), y.data(), all.mask.data());
  dropout_residual_add(rows, kDraws, out.data(), mask.data(), x.data(), y.data(), bias.data());
  EXPECT_EQ(mask, all.mask);
  for (std::size_t i = 0; i < 60; ++i) {
    EXPECT_DOUBLE_EQ(dx[i], mask[i] != 0 ? 2.0 / 0.75 : 0.0);
    EXPECT_DOUBLE_EQ(out[i], mask[i] != 0 ? 1.0 + 3.0 / 0.75 : 1.0);
  }
}

}  // namespace
}  // namespace zplan::exec::cpu
