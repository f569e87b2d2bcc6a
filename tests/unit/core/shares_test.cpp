#include "planner/core/shares.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace zplan {
namespace {

TEST(RoundedShares, AddUpToTheWhole) {
  const std::vector<double> thirds{1, 1, 1};
  EXPECT_EQ(rounded_shares(thirds, 1000), (std::vector<std::int64_t>{334, 333, 333}));
  const std::vector<double> parts{0.5, 99.4, 0.1};
  EXPECT_EQ(rounded_shares(parts, 100), (std::vector<std::int64_t>{1, 99, 0}));
}

TEST(RoundedShares, AreLessThanAUnitOff) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> size(0, 1);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> parts(1 + random() % 15);
    for (double& part : parts) part = size(random);
    const double whole = std::accumulate(parts.begin(), parts.end(), 0.0);
    const std::vector<std::int64_t> shares = rounded_shares(parts, 1000);
    EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), std::int64_t{0}), 1000);
    for (std::size_t i = 0; i < parts.size(); ++i)
      EXPECT_LT(std::abs(static_cast<double>(shares[i]) - parts[i] / whole * 1000), 1);
  }
}

TEST(RoundedShares, OfNothingAreNothing) {
  const std::vector<double> none{0, 0};
  EXPECT_EQ(rounded_shares(none, 1000), (std::vector<std::int64_t>{0, 0}));
  EXPECT_TRUE(rounded_shares({}, 1000).empty());
}

}  // namespace
}  // namespace zplan
