#include "planner/search/questions/fewest_nodes.h"

#include <gtest/gtest.h>

#include <vector>

namespace zplan {
namespace {

// Good from `enough` on, where `legal` divides the count.
FewestNodes ask(std::int64_t enough, std::int64_t most, std::vector<std::int64_t>* tried = nullptr,
                std::int64_t odd_factor = 0) {
  return fewest_nodes(most,
                      [&](std::int64_t nodes) {
                        if (tried != nullptr) tried->push_back(nodes);
                        NodeCount count;
                        count.nodes = nodes;
                        count.good =
                            nodes >= enough && (odd_factor == 0 || nodes % odd_factor == 0);
                        return count;
                      },
                      {});
}

TEST(FewestNodes, DoublesAndThenLooksInBetween) {
  std::vector<std::int64_t> tried;
  EXPECT_EQ(ask(11, 1024, &tried).found->nodes, 11);
  EXPECT_EQ(tried, (std::vector<std::int64_t>{1, 2, 4, 8, 16, 9, 10, 11}));
}

TEST(FewestNodes, OneIsTheLeast) { EXPECT_EQ(ask(1, 1024).found->nodes, 1); }

TEST(FewestNodes, GoesInEighthsAboveEightNodes) { EXPECT_EQ(ask(41, 1024).found->nodes, 44); }

TEST(FewestNodes, NothingIsFoundBeyondTheMost) {
  const FewestNodes none = ask(100, 64);
  EXPECT_FALSE(none.found.has_value());
  EXPECT_EQ(none.closest.nodes, 64);
}

TEST(FewestNodes, AsManyAsThereMayBeAreTriedToo) {
  std::vector<std::int64_t> tried;
  EXPECT_EQ(ask(90, 100, &tried).found->nodes, 96);
  EXPECT_EQ(tried, (std::vector<std::int64_t>{1, 2, 4, 8, 16, 32, 64, 100, 72, 80, 88, 96}));
  EXPECT_EQ(ask(100, 100).found->nodes, 100);
  EXPECT_EQ(ask(101, 100).closest.nodes, 100);
}

TEST(FewestNodes, EndWhereTheyAreStopped) {
  int asked = 0;
  const FewestNodes stopped = fewest_nodes(
      1024,
      [](std::int64_t nodes) {
        return NodeCount{.nodes = nodes, .best = {}, .why = {}, .good = false};
      },
      [&] { return ++asked == 3; });
  EXPECT_TRUE(stopped.interrupted);
  EXPECT_EQ(stopped.tried, 3);
}

// With a guess, where fewer than enough are too slow.
std::vector<std::int64_t> tried_with(std::int64_t guess, std::int64_t enough) {
  std::vector<std::int64_t> tried;
  const FewestNodes fewest = fewest_nodes(
      1024,
      [&](std::int64_t nodes) {
        tried.push_back(nodes);
        const bool good = nodes >= enough;
        return NodeCount{.nodes = nodes, .best = {}, .why = {}, .good = good, .too_slow = !good};
      },
      {}, guess);
  EXPECT_EQ(fewest.found->nodes, ask(enough, 1024).found->nodes);
  EXPECT_EQ(fewest.tried, static_cast<int>(tried.size()));
  return tried;
}

TEST(FewestNodes, AGuessThatHoldsIsTriedWithTwoCountsBelowItAlone) {
  EXPECT_EQ(tried_with(44, 41), (std::vector<std::int64_t>{44, 40, 36}));
  EXPECT_EQ(tried_with(64, 61), (std::vector<std::int64_t>{64, 60, 56}));
  EXPECT_EQ(tried_with(1, 1), (std::vector<std::int64_t>{1}));
}

TEST(FewestNodes, AGuessThatDoesNotHoldChangesNothing) {
  for (const std::int64_t guess : {1, 3, 44, 64, 700})
    for (const std::int64_t enough : {1, 2, 7, 41, 64, 900}) tried_with(guess, enough);
}

TEST(FewestNodes, DoublingEndsWhereItIsOfNoUse) {
  std::vector<std::int64_t> tried;
  const FewestNodes none = fewest_nodes(1024,
                                        [&](std::int64_t nodes) {
                                          tried.push_back(nodes);
                                          NodeCount count;
                                          count.nodes = nodes;
                                          count.too_slow = true;
                                          count.time =
                                              Seconds{100.0 / static_cast<double>(nodes) + 10};
                                          return count;
                                        },
                                        {});
  EXPECT_FALSE(none.found.has_value());
  EXPECT_EQ(tried, (std::vector<std::int64_t>{1, 2, 4, 8, 16, 32, 64, 128}));
  EXPECT_EQ(none.closest.nodes, 128);
}

TEST(FewestNodes, CountsThatAreNotGoodArePassedOver) {
  EXPECT_EQ(ask(9, 1024, nullptr, 4).found->nodes, 12);
}

}  // namespace
}  // namespace zplan
