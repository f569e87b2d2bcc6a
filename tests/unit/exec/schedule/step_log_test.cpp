#include "exec/schedule/step_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <string>
#include <vector>

namespace zplan::exec {
namespace {

using std::chrono::milliseconds;

// Steps of two lanes, of which rank 0 and 1 have one each, told by hand.
class StepLogs : public ::testing::Test {
 protected:
  explicit StepLogs(const ValidationTimes& times = {.every = 2, .batches = 2})
      : services_({&data_, &data_}, 1, train_, 0, StepSequence(3, {.step = 10}, times)),
        log_(
            services_, [&](std::int64_t step, const StepResult&) { told_.push_back(step); },
            [&](const ValidationResult& result) { validated_.push_back(result.step); }) {
    log_.begin(2, start_);
  }

  void end(std::int64_t run_step, double loss, milliseconds first, milliseconds second,
           milliseconds busy = milliseconds(0)) {
    services_.report_of(run_step).loss = loss;
    log_.computed(run_step, busy);
    log_.lane_done(run_step, start_ + first);
    log_.computed(run_step, 3 * busy);
    log_.lane_done(run_step, start_ + second);
  }

  TrainConfig train_;
  DataSource data_{{1, 2, 3}, "three"};
  RunServices services_;
  TimePoint start_ = TimePoint() + milliseconds(500);
  std::vector<std::int64_t> told_, validated_;
  StepLog log_;
};

// Steps 10, 11, two batches, 12, two batches.
TEST_F(StepLogs, KeepsTrainingAndValidationApart) {
  end(0, 5, milliseconds(100), milliseconds(90));
  end(1, 4, milliseconds(150), milliseconds(200));
  end(2, 3, milliseconds(210), milliseconds(210));
  EXPECT_TRUE(validated_.empty());  // one of two
  end(3, 2, milliseconds(240), milliseconds(230));
  end(4, 1, milliseconds(300), milliseconds(300));
  EXPECT_EQ(told_, (std::vector<std::int64_t>{10, 11, 12}));
  EXPECT_EQ(validated_, (std::vector<std::int64_t>{12}));
  ASSERT_EQ(log_.results().size(), 3);
  EXPECT_EQ(log_.results()[2].loss, 1);
  EXPECT_NEAR(log_.results()[1].wall.value, 0.1, 1e-9);
  EXPECT_NEAR(log_.results()[2].wall.value, 0.06, 1e-9);  // from the end of the validation
  ASSERT_EQ(log_.validations().size(), 1);
  EXPECT_EQ(log_.validations()[0].loss, 2.5);
  EXPECT_NEAR(log_.validations()[0].wall.value, 0.04, 1e-9);
}

// Ranks that computed for 20 and 60 ms of 100.
TEST_F(StepLogs, ExposedIsWhatNoComputeLaneRanAMeanOverRanks) {
  end(0, 5, milliseconds(100), milliseconds(100), milliseconds(20));
  ASSERT_TRUE(log_.results()[0].exposed.has_value());
  EXPECT_NEAR(log_.results()[0].exposed->value, 0.06, 1e-9);
}

// Its gradients have overflowed, which the loss scale is for; an update with them is the end.
TEST_F(StepLogs, OnlyAStepThatIsSkippedMayHaveNoNorm) {
  services_.report_of(0).gradient_norm = INFINITY;
  services_.report_of(0).skipped = true;
  end(0, 5, milliseconds(1), milliseconds(1));
  EXPECT_EQ(told_.size(), 1);
  services_.report_of(1).gradient_norm = INFINITY;
  EXPECT_THROW(end(1, 5, milliseconds(2), milliseconds(2)), Error);
}

// Of a training of many steps, whose loss is scaled or not.
class SkippedUpdates : public ::testing::Test {
 protected:
  void end(double loss_scale, bool skipped = true) {
    StepResult& result = services_.report_of(step_);
    result.loss = result.gradient_norm = skipped ? NAN : 1;
    result.skipped = skipped;
    result.loss_scale = loss_scale;
    log_.lane_done(step_++, TimePoint());
  }
  std::string error_of_next(double loss_scale) {
    try {
      end(loss_scale);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kCheckFailed);
      return error.what();
    }
    return "";
  }

  TrainConfig train_;
  DataSource data_{{1, 2, 3}, "three"};
  RunServices services_{{&data_, nullptr}, 1, train_, 0, StepSequence(100, {.step = 10})};
  StepLog log_{services_, {}, {}};
  std::int64_t step_ = 0;
};

TEST_F(SkippedUpdates, ThatNoLossScaleMendsEndTheTraining) {
  log_.begin(1, TimePoint());
  end(1, false);
  for (int i = 1; i < kMostSkipped; ++i) end(1);
  EXPECT_THAT(
      error_of_next(1),
      ::testing::AllOf(::testing::HasSubstr("step 19: every update since step 12 was skipped"),
                       ::testing::HasSubstr("the last 8 with a loss scale that cannot be "
                                            "halved: the loss is nan")));
  EXPECT_EQ(log_.results().size(), 9);  // the last one counts
}

TEST_F(SkippedUpdates, WhileTheLossScaleIsHalvedDoNot) {
  log_.begin(1, TimePoint());
  for (double scale = 65536; scale > 1; scale /= 2) end(scale);
  EXPECT_EQ(step_, 16);
  for (int i = 1; i < kMostSkipped; ++i) end(1);
  EXPECT_THAT(error_of_next(1), ::testing::HasSubstr("every update since step 11 was skipped"));
}

TEST_F(SkippedUpdates, BetweenOthersDoNot) {
  log_.begin(1, TimePoint());
  for (int i = 0; i < 3 * kMostSkipped; ++i) end(1, i % kMostSkipped != 0);
  EXPECT_EQ(log_.results().size(), static_cast<std::size_t>(3 * kMostSkipped));
}

TEST_F(StepLogs, AValidationThatIsNoNumberEndsTheRun) {
  end(0, 5, milliseconds(1), milliseconds(1));
  end(1, 5, milliseconds(2), milliseconds(2));
  end(2, NAN, milliseconds(3), milliseconds(3));
  try {
    end(3, 5, milliseconds(4), milliseconds(4));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kCheckFailed);
    EXPECT_NE(std::string(error.what()).find("validation after step 12"), std::string::npos);
  }
}

}  // namespace
}  // namespace zplan::exec
