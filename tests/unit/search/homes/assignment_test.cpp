#include "planner/search/homes/assignment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>

namespace zplan {
namespace {

constexpr double kClose = 1e-9;  // [derived] sums of some tens of doubles

HomeOption option(std::vector<double> bytes, std::vector<double> seconds) {
  return {std::move(bytes), std::move(seconds)};
}

// The least time by trying everything; infinite: nothing fits.
double brute_force(const TensorChain& chain) {
  std::vector<std::size_t> at(chain.tensors.size());
  double best = std::numeric_limits<double>::infinity();
  while (true) {
    std::vector<double> bytes(chain.room.size()), seconds = chain.base;
    for (std::size_t t = 0; t < at.size(); ++t) {
      const HomeOption& o = chain.tensors[t][at[t]];
      for (std::size_t m = 0; m < bytes.size(); ++m) bytes[m] += o.bytes[m];
      for (std::size_t r = 0; r < seconds.size(); ++r) seconds[r] += o.seconds[r];
    }
    bool fits = true;
    for (std::size_t m = 0; m < bytes.size(); ++m) fits = fits && bytes[m] <= chain.room[m];
    if (fits) best = std::min(best, chain.time_of(seconds));
    std::size_t t = 0;
    while (t < at.size() && ++at[t] == chain.tensors[t].size()) at[t++] = 0;
    if (t == at.size()) return best;
  }
}

// Chains of kept, recomputed, on the CPU, on NVMe; forward and backward; compute and two links.
class RandomChains {
 public:
  TensorChain next(std::size_t tensors) {
    TensorChain chain{.phases = 2, .resources = 3, .room = {}, .base = {}, .tensors = {}};
    double kept = 0;
    for (int i = 0; i < 6; ++i) chain.base.push_back(real(0, 20));
    for (std::size_t t = 0; t < tensors; ++t) {
      const double b = whole(1, 9), pcie = real(0.1, 2), nvme = real(0.1, 6);
      kept += b;
      chain.tensors.push_back({option({b, 0, 0}, {0, 0, 0, 0, 0, 0}),
                               option({whole(0, 1), 0, 0}, {0, 0, 0, real(0, 8), 0, 0}),
                               option({0, b, 0}, {0, b * pcie, 0, 0, b * pcie, 0}),
                               option({0, 0, b}, {0, b * pcie, b * nvme, 0, b * pcie, b * nvme})});
    }
    chain.room = {kept * real(0, 1.1), kept * real(0, 0.8), whole(0, 3) == 0 ? 0 : kept};
    return chain;
  }

 private:
  double real(double from, double to) {
    return std::uniform_real_distribution<double>(from, to)(random_);
  }
  double whole(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random_); }
  std::mt19937_64 random_{20261123};
};

TEST(AssignHomes, EqualsBruteForceOnChainsOfUpToEightTensors) {
  RandomChains chains;
  int found = 0;
  for (int i = 0; i < 200; ++i) {
    const TensorChain chain = chains.next(1 + static_cast<std::size_t>(i) % 8);
    const double least = brute_force(chain);
    const auto assignment = assign_homes(chain);
    ASSERT_EQ(assignment.has_value(), least < std::numeric_limits<double>::infinity()) << i;
    if (!assignment) continue;
    ++found;
    EXPECT_NEAR(assignment->seconds, least, kClose * least) << i;
    EXPECT_LE(assignment->bound, least * (1 + kClose)) << i;
    std::vector<double> seconds = chain.base;
    for (std::size_t t = 0; t < chain.tensors.size(); ++t)
      for (std::size_t r = 0; r < seconds.size(); ++r)
        seconds[r] += chain.tensors[t][assignment->option[t]].seconds[r];
    EXPECT_NEAR(chain.time_of(seconds), least, kClose * least) << i;
  }
  EXPECT_GT(found, 150);
}

// What is best in some room is best in no more of it than it takes, which it fills to the last
// byte.
TEST(AssignHomes, FillMemoriesToTheLastByte) {
  RandomChains chains;
  for (int i = 0; i < 200; ++i) {
    TensorChain chain = chains.next(1 + static_cast<std::size_t>(i) % 8);
    const auto best = assign_homes(chain);
    if (!best) continue;
    chain.room.assign(chain.room.size(), 0);
    for (std::size_t t = 0; t < chain.tensors.size(); ++t)
      for (std::size_t m = 0; m < chain.room.size(); ++m)
        chain.room[m] += chain.tensors[t][best->option[t]].bytes[m];
    const auto again = assign_homes(chain);
    ASSERT_TRUE(again) << i;
    EXPECT_NEAR(again->seconds, best->seconds, kClose * best->seconds) << i;
  }
}

// A search that was cut short proves no more than the dual does.
TEST(AssignHomes, OfFewNodesTheBoundIsBelowTheBest) {
  RandomChains chains;
  int worse = 0;
  for (int i = 0; i < 200; ++i) {
    const TensorChain chain = chains.next(8);
    const auto best = assign_homes(chain), found = assign_homes(chain, {.most_nodes = 1});
    if (!found) continue;
    EXPECT_LE(found->bound, best->seconds * (1 + kClose)) << i;
    if (found->seconds > best->seconds * (1 + kClose)) ++worse;
  }
  EXPECT_GT(worse, 0);
}

TEST(AssignHomes, WithoutLinksRecomputesWhatFreesMostBytesASecond) {
  TensorChain chain{.phases = 1, .resources = 1, .room = {10}, .base = {100}, .tensors = {}};
  for (const double seconds : {1.0, 2.0, 4.0})
    chain.tensors.push_back({option({8}, {0}), option({0}, {seconds})});
  const auto assignment = assign_homes(chain);
  ASSERT_TRUE(assignment);
  EXPECT_EQ(assignment->option, (std::vector<std::size_t>{1, 1, 0}));
  EXPECT_DOUBLE_EQ(assignment->seconds, 103);
}

TEST(AssignHomes, FillsALinkAsFarAsComputeHidesItAndRecomputesTheRest) {
  TensorChain chain{
      .phases = 1, .resources = 2, .room = {0.5, 100}, .base = {10, 0}, .tensors = {}};
  for (int i = 0; i < 4; ++i)
    chain.tensors.push_back(
        {option({1, 0}, {0, 0}), option({0, 0}, {3, 0}), option({0, 1}, {0, 5})});
  const auto assignment = assign_homes(chain);
  ASSERT_TRUE(assignment);
  EXPECT_DOUBLE_EQ(assignment->seconds, 15);  // three away beside ten and three seconds
  EXPECT_EQ(std::ranges::count(assignment->option, 2U), 3);
}

TEST(AssignHomes, SaysThatNothingFits) {
  const TensorChain chain{
      .phases = 1, .resources = 1, .room = {1}, .base = {1}, .tensors = {{option({2}, {0})}}};
  EXPECT_FALSE(assign_homes(chain));
}

TEST(AssignHomes, OfManyTensorsIsWithinTheToleranceOfItsBound) {
  RandomChains chains;
  for (int i = 0; i < 5; ++i) {
    const TensorChain chain = chains.next(40);
    const auto assignment = assign_homes(chain, {.tolerance = 0.02, .most_nodes = 200'000});
    if (!assignment) continue;
    EXPECT_LE(assignment->bound, assignment->seconds);
    EXPECT_GE(assignment->bound, assignment->seconds * 0.9) << i;
  }
}

}  // namespace
}  // namespace zplan
