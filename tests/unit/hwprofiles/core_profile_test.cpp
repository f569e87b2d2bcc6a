#include "hwprofiles/core_profile.h"

#include <gtest/gtest.h>

#include "planner/core/error.h"
#include "tests/support/error_message.h"
#include "tests/support/measured_cores.h"

namespace zplan {
namespace {

using testing_support::message_of;

constexpr double kNano = 1e-9;

TEST(CoreProfile, AProductTakesTheTimesOfItsRowsAndBetweenThemThatOfTheSum) {
  const CoreProfile cores = measured_cores();
  EXPECT_NEAR(cores.kernel("linear_forward", 1, {100, 100, 100})->value, 1000 * kNano, 1e-12);
  EXPECT_NEAR(cores.kernel("linear_forward", 1, {200, 100, 300})->value, 6000 * kNano, 60 * kNano);
}

TEST(CoreProfile, TheGreatestMeasuredNumberOfThreadsThatIsNotAboveCounts) {
  const CoreProfile cores = measured_cores();
  EXPECT_NEAR(cores.kernel("linear_forward", 2, {100, 100, 100})->value, 500 * kNano, 1e-15);
  EXPECT_NEAR(cores.kernel("linear_forward", 8, {100, 100, 100})->value, 500 * kNano, 1e-15);
}

TEST(CoreProfile, WhatStreamsIsStraightBetweenRowsAndInProportionAboveThem) {
  const CoreProfile cores = measured_cores();
  EXPECT_NEAR(cores.kernel("fill_zero", 1, {50'000, 1, 1})->value, 50'000 * kNano, 1e-12);
  EXPECT_NEAR(cores.copy(Bytes{10'000'000}).value, 10'000'000 * kNano, 1e-9);
  EXPECT_NEAR(cores.copy(Bytes{10}).value, 1000 * kNano, 1e-12) << "as its least row";
  EXPECT_NEAR(cores.transfer(Bytes{2000}).value, 6000 * kNano, 1e-12);
}

TEST(CoreProfile, ACollectiveIsThatOfTheNearestGroup) {
  const auto met = measured_cores().collective("all_gather", 4, Bytes{2000});
  EXPECT_EQ(met->ranks, 2);
  EXPECT_NEAR(met->time.value, 4000 * kNano, 1e-12);
}

TEST(CoreProfile, WhatWasNotMeasuredIsNotKnown) {
  const CoreProfile cores = measured_cores();
  EXPECT_FALSE(cores.kernel("adamw", 1, {1000, 1, 1}));
  EXPECT_FALSE(cores.collective("all_reduce", 2, Bytes{1000}));
  EXPECT_FALSE(cores.read(Bytes{4096}));
}

std::string error_of(const std::string& reads) {
  const std::string member =
      R"(, "reads": {"value": [)" + reads + R"(], "source": "measured", "ref": "made up"})";
  return message_of([&] { measured_cores(member); });
}

TEST(CoreProfile, ABrokenRowIsOneClearLine) {
  EXPECT_NE(error_of(R"("4096")").find("/reads/value/0: expected a row of 2 words"),
            std::string::npos);
  EXPECT_NE(error_of(R"("4096 fast")").find("expected a number from"), std::string::npos);
  EXPECT_NE(error_of(R"("4096 -1")").find("in place of -1"), std::string::npos);
  EXPECT_NE(error_of("").find("expected at least one row"), std::string::npos);
  EXPECT_EQ(error_of(R"("4096 1")"), "no error");
}

}  // namespace
}  // namespace zplan
