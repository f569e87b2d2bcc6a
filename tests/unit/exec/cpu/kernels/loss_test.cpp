// Cross-entropy, whole and by pieces of the vocabulary, against softmax - onehot in double.
#include "exec/cpu/kernels/cross_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/unit/exec/cpu/kernels/kernel_test_support.h"

namespace zplan::exec::cpu {
namespace {

template <typename T>
class LossTest : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(LossTest, Types);

TYPED_TEST(LossTest, CrossEntropyMatchesSoftmaxMinusOneHot) {
  using T = TypeParam;
  const LogitShape s{4, 37, 48};
  const auto logits = random_values<T>(s.tokens * s.columns, 3, 9.0);
  const std::vector<std::int32_t> targets{0, 36, kIgnoredTarget, 5};
  std::vector<double> expected(logits.size());
  double expected_loss = 1.5;
  for (std::size_t t = 0; t < 4; ++t) {
    if (targets[t] == kIgnoredTarget) continue;
    double total = 0;
    for (std::size_t j = 0; j < 37; ++j) total += std::exp(double{logits[t * 48 + j]});
    for (std::size_t j = 0; j < 37; ++j) {
      const double p = std::exp(double{logits[t * 48 + j]}) / total;
      const bool is_target = j == static_cast<std::size_t>(targets[t]);
      expected[t * 48 + j] = 0.5 * (p - (is_target ? 1 : 0));
      if (is_target) expected_loss -= std::log(p);
    }
  }
  auto gradient = logits;
  double loss = 1.5;  // the kernel adds to what is there
  Workspace scratch(cross_entropy_scratch_bytes(s));
  cross_entropy<T>(s, {gradient.data(), targets.data(), 0.5, &loss}, scratch.span());
  expect_near(gradient, expected, 8);
  EXPECT_NEAR(loss, expected_loss, 100 * std::numeric_limits<T>::epsilon());
}

TYPED_TEST(LossTest, CrossEntropyIgnoresWhatIsInThePadding) {
  using T = TypeParam;
  const LogitShape s{1, 2, 4};
  std::vector<T> logits{0, 0, static_cast<T>(std::nan("")), static_cast<T>(1e30)};
  const std::vector<std::int32_t> targets{1};
  double loss = 0;
  Workspace scratch(cross_entropy_scratch_bytes(s));
  cross_entropy<T>(s, {logits.data(), targets.data(), 1.0, &loss}, scratch.span());
  EXPECT_EQ(logits, (std::vector<T>{T{0.5}, T{-0.5}, 0, 0}));
  EXPECT_NEAR(loss, std::log(2.0), 1e-7);
}

// Logits 2 tanh(x / 2), by the slope of the loss of softmax.
TYPED_TEST(LossTest, CappedLogitsHaveTheSlopeOfTheirLoss) {
  using T = TypeParam;
  const LogitShape s{.tokens = 1, .valid = 5, .columns = 5, .cap = 2};
  const auto logits = random_values<T>(5, 3, 3.0);
  const std::vector<std::int32_t> targets{3};
  std::vector<double> expected;
  double total = 0;
  const auto capped = [&](std::size_t j) { return 2 * std::tanh(double{logits[j]} / 2); };
  for (std::size_t j = 0; j < 5; ++j) total += std::exp(capped(j));
  for (std::size_t j = 0; j < 5; ++j) {
    const double slope = 1 - std::pow(capped(j) / 2, 2);
    expected.push_back((std::exp(capped(j)) / total - (j == 3 ? 1 : 0)) * slope);
  }
  auto gradient = logits;
  double loss = 0;
  Workspace scratch(cross_entropy_scratch_bytes(s));
  cross_entropy<T>(s, {gradient.data(), targets.data(), 1.0, &loss}, scratch.span());
  expect_near(gradient, expected, 8);
  EXPECT_NEAR(loss, std::log(total) - capped(3), 100 * kEpsilon<T>);
}

// Columns [first, first + count) of rows that are `columns` long.
template <typename T>
std::vector<T> columns_of(const std::vector<T>& logits, std::size_t columns, std::size_t first,
                          std::size_t count) {
  std::vector<T> result;
  for (std::size_t at = first; at < logits.size(); at += columns)
    result.insert(result.end(), logits.begin() + static_cast<std::ptrdiff_t>(at),
                  logits.begin() + static_cast<std::ptrdiff_t>(at + count));
  return result;
}

// 38 columns in four pieces of 12: the last has 2 and padding, with 60 columns a fifth has none.
TYPED_TEST(LossTest, PiecesOfTheVocabularyAreTheWhole) {
  using T = TypeParam;
  constexpr std::size_t kTokens = 5, kColumns = 60, kPiece = 12, kPieces = 5;
  const std::int64_t vocab = 38;
  const auto logits = random_values<T>(kTokens * kColumns, 3, 9.0);
  const std::vector<std::int32_t> targets{0, 37, kIgnoredTarget, 12, 23};
  Workspace scratch(cross_entropy_scratch_bytes({kTokens, vocab, kColumns}));
  auto whole = logits;
  double loss = 0;
  cross_entropy<T>({kTokens, vocab, kColumns}, {whole.data(), targets.data(), 0.5, &loss},
                   scratch.span());

  const auto shape = [&](std::size_t piece) {
    const auto first = static_cast<std::int64_t>(piece * kPiece);
    return LogitShape{kTokens, std::clamp<std::int64_t>(vocab - first, 0, kPiece), kPiece, first};
  };
  std::vector<T> statistics(kPieces * kTokens * 3);
  for (std::size_t piece = 0; piece < kPieces; ++piece) {
    const auto own = columns_of(logits, kColumns, piece * kPiece, kPiece);
    cross_entropy_statistics<T>(
        shape(piece), {statistics.data() + piece * kTokens * 3, own.data(), targets.data()});
  }
  for (std::size_t piece = 0; piece < kPieces; ++piece) {
    auto own = columns_of(logits, kColumns, piece * kPiece, kPiece);
    double own_loss = 0;
    cross_entropy_gradient<T>(
        shape(piece),
        {own.data(), targets.data(), statistics.data(), kPieces, kTokens * 3, 0.5, &own_loss},
        scratch.span());
    expect_near(own, converted<double>(columns_of(whole, kColumns, piece * kPiece, kPiece)), 4);
    EXPECT_NEAR(own_loss, loss, 100 * kEpsilon<T>);
  }
}

}  // namespace
}  // namespace zplan::exec::cpu
