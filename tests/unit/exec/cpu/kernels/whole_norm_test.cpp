// The norm of several heads together is the RMSNorm of all their elements, also where two ranks
// have some of the heads each and add up their sums. A LayerNorm without a gain or a bias is that
// with a gain of 1 or a bias of 0.
#include "exec/cpu/kernels/whole_norm.h"

#include <gtest/gtest.h>

#include "exec/cpu/kernels/norm.h"
#include "tests/unit/exec/cpu/kernels/kernel_test_support.h"

namespace zplan::exec::cpu {
namespace {

constexpr std::int64_t kTokens = 3, kHeads = 4, kSize = 5, kWidth = kHeads * kSize;
constexpr double kEpsilon = 1e-5;

// Each of two ranks has two of the heads, behind a head of other things.
struct Rank {
  std::vector<double> x = buffer<double>(kTokens * 3 * kSize), kept = buffer<double>(kTokens * 10);
  std::vector<double> gain, dgain = buffer<double>(10);
  HeadNormShape shape{kTokens, 3, kSize, 1, 2};
};

// Elements [begin, +10) of each token of all heads, into heads 1 and 2 of the rank or back.
void take(const std::vector<double>& all, std::size_t begin, std::vector<double>& own) {
  for (std::size_t t = 0; t < kTokens; ++t)
    for (std::size_t j = 0; j < 10; ++j) own[t * 15 + 5 + j] = all[t * kWidth + begin + j];
}
void give(const std::vector<double>& own, std::size_t begin, std::vector<double>& all) {
  for (std::size_t t = 0; t < kTokens; ++t)
    for (std::size_t j = 0; j < 10; ++j) all[t * kWidth + begin + j] = own[t * 15 + 5 + j];
}

void expect_near(const std::vector<double>& got, const std::vector<double>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-14) << i;
}

TEST(WholeNorm, OfTwoRanksIsTheRmsNormOfAllHeads) {
  const auto x = random_values<double>(kTokens * kWidth, 1);
  const auto gain = random_values<double>(kWidth, 2),
             dy = random_values<double>(kTokens * kWidth, 3);
  auto y = buffer<double>(kTokens * kWidth), rstd = buffer<double>(kTokens);
  const NormShape rows{kTokens, kWidth};
  rmsnorm_forward<double>(
      rows, {y.data(), nullptr, rstd.data(), x.data(), gain.data(), nullptr, kEpsilon});
  auto dx = buffer<double>(kTokens * kWidth), dgain = buffer<double>(kWidth);
  rmsnorm_backward<double>(rows, {dx.data(), dgain.data(), nullptr, dy.data(), x.data(), nullptr,
                                  rstd.data(), gain.data(), false, false});

  Rank ranks[2];
  std::vector<double> squares(kTokens), products(kTokens), part(kTokens);
  const auto add = [&](std::vector<double>& sums) {
    for (std::size_t t = 0; t < kTokens; ++t) sums[t] += part[t];
  };
  for (std::size_t r = 0; r < 2; ++r) {
    Rank& own = ranks[r];
    own.gain.assign(gain.begin() + static_cast<std::ptrdiff_t>(10 * r),
                    gain.begin() + static_cast<std::ptrdiff_t>(10 * r + 10));
    take(x, 10 * r, own.x);
    whole_norm_squares<double>(own.shape, {own.x.data(), own.kept.data(), part.data()});
    add(squares);
  }
  auto got = buffer<double>(kTokens * kWidth);
  for (std::size_t r = 0; r < 2; ++r) {
    Rank& own = ranks[r];
    whole_norm_forward<double>(own.shape, {own.x.data(), own.kept.data(), squares.data(),
                                           own.gain.data(), kWidth, kEpsilon});
    give(own.x, 10 * r, got);
    EXPECT_EQ(own.x[0], buffer<double>(1)[0]) << "what lies beside the heads stays";
    take(dy, 10 * r, own.x);
    whole_norm_products<double>(own.shape,
                                {own.x.data(), own.kept.data(), own.gain.data(), part.data()});
    add(products);
  }
  expect_near(got, y);
  for (std::size_t r = 0; r < 2; ++r) {
    Rank& own = ranks[r];
    whole_norm_backward<double>(own.shape,
                                {own.x.data(), own.dgain.data(), own.kept.data(), squares.data(),
                                 products.data(), own.gain.data(), kWidth, kEpsilon, false});
    give(own.x, 10 * r, got);
    expect_near(own.dgain, {dgain.begin() + static_cast<std::ptrdiff_t>(10 * r),
                            dgain.begin() + static_cast<std::ptrdiff_t>(10 * r + 10)});
  }
  expect_near(got, dx);
}

TEST(LayerNorm, WithoutGainAndBiasHasOnesAndZerosThere) {
  const auto x = random_values<double>(kTokens * kWidth, 1),
             dy = random_values<double>(kTokens * kWidth, 2);
  const std::vector<double> ones(kWidth, 1.0), zeros(kWidth, 0.0);
  const auto gain = random_values<double>(kWidth, 3);
  const NormShape rows{kTokens, kWidth};
  for (const bool has_gain : {false, true}) {
    const double* own = has_gain ? gain.data() : nullptr;
    const std::vector<double>& all = has_gain ? gain : ones;
    auto y = buffer<double>(kTokens * kWidth), expected = y;
    auto mean = buffer<double>(kTokens), rstd = mean;
    layernorm_forward<double>(
        rows, {expected.data(), mean.data(), rstd.data(), x.data(), all.data(), zeros.data()});
    layernorm_forward<double>(rows, {y.data(), mean.data(), rstd.data(), x.data(), own, nullptr});
    EXPECT_EQ(y, expected);
    auto dx = buffer<double>(kTokens * kWidth), expected_dx = dx;
    auto dgain = buffer<double>(kWidth), expected_gain = dgain, dbias = dgain;
    layernorm_backward<double>(
        rows, {expected_dx.data(), expected_gain.data(), dbias.data(), dy.data(), x.data(),
               mean.data(), rstd.data(), all.data(), false, false});
    layernorm_backward<double>(
        rows, {dx.data(), has_gain ? dgain.data() : nullptr, nullptr, dy.data(), x.data(),
               mean.data(), rstd.data(), own, false, false});
    EXPECT_EQ(dx, expected_dx);
    if (has_gain) {
      EXPECT_EQ(dgain, expected_gain);
    }
  }
}

}  // namespace
}  // namespace zplan::exec::cpu
