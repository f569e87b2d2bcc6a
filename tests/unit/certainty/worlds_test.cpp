#include "planner/certainty/worlds.h"

#include <gtest/gtest.h>

#include <cmath>

#include "planner/cost/reliance.h"

namespace zplan {
namespace {

const Constant kGemm = constant_of(&StackRates::gemm);
const Constant kNetwork = constant_of(&StackRates::network);

Knowledge open(double run_sd) {
  Knowledge knowledge;
  knowledge.covariance[kGemm][kGemm] = 0.04;
  knowledge.covariance[kNetwork][kNetwork] = 0.09;
  knowledge.run_sd = run_sd;
  return knowledge;
}

Contender plan(double seconds, double gemm, double network, std::uint64_t key) {
  Contender contender{Seconds{seconds}, std::vector<double>(constant_count()), key};
  contender.reliances[kGemm] = gemm;
  contender.reliances[kNetwork] = network;
  return contender;
}

TEST(Worlds, TellApartPlansThatRestOnTheSameThings) {
  const Worlds worlds(open(0));
  EXPECT_EQ(worlds.wins(plan(1, 0.9, 0, 1), plan(1.001, 0.9, 0, 2)), kWorlds);
  EXPECT_EQ(worlds.wins(plan(1.001, 0.9, 0, 2), plan(1, 0.9, 0, 1)), 0);
}

TEST(Worlds, DoubtPlansThatRestOnOtherThings) {
  const Worlds worlds(open(0));
  const int wins = worlds.wins(plan(1, 1, 0, 1), plan(1.02, 0, -1, 2));
  EXPECT_GT(wins, 35);
  EXPECT_LT(wins, 70);
}

TEST(Worlds, GiveEveryPlanAnErrorOfItsOwn) {
  const Worlds worlds(open(0.05));
  const int wins = worlds.wins(plan(1, 0.9, 0, 1), plan(1.02, 0.9, 0, 2));
  EXPECT_GT(wins, 45);
  EXPECT_LT(wins, 80);
  EXPECT_GE(worlds.wins(plan(1, 0.9, 0, 1), plan(1.3, 0.9, 0, 2)), 98);
}

TEST(Worlds, AreTheSameEachTime) {
  const Worlds once(open(0.05)), again(open(0.05));
  for (int world = 0; world < kWorlds; ++world)
    EXPECT_EQ(once.log_time(world, plan(1, 0.4, -0.2, 7)),
              again.log_time(world, plan(1, 0.4, -0.2, 7)));
}

TEST(Worlds, HaveTheSpreadOfTheKnowledge) {
  const Worlds worlds(open(0));
  double sum = 0, squares = 0;
  for (int world = 0; world < kWorlds; ++world) {
    const double x = worlds.log_time(world, plan(1, 1, 0, 1));
    sum += x / kWorlds;
    squares += x * x / kWorlds;
  }
  EXPECT_NEAR(sum, 0, 0.06);  // 3 standard errors of 100 draws
  EXPECT_NEAR(std::sqrt(squares - sum * sum), 0.2, 0.045);
}

TEST(Worlds, FollowCorrelations) {
  Knowledge knowledge = open(0);
  knowledge.covariance[kGemm][kNetwork] = knowledge.covariance[kNetwork][kGemm] = 0.06;
  const Worlds worlds(knowledge);  // the network is 1.5 times what the products are
  for (int world = 0; world < kWorlds; ++world)
    EXPECT_NEAR(worlds.log_time(world, plan(1, 1.5, -1, 1)), 0, 1e-9);
}

TEST(Worlds, OnlySlowDownWhatIsIdeal) {
  Knowledge knowledge = open(0);
  knowledge.covariance[kGemm][kGemm] = 0;
  knowledge.slower[kGemm] = 0.3;
  const Worlds worlds(knowledge);
  for (int world = 0; world < kWorlds; ++world)
    EXPECT_GE(worlds.log_time(world, plan(1, 1, 0, 1)), 0);
}

}  // namespace
}  // namespace zplan
