// Which operation is overdue, with events reached at will.
#include <gtest/gtest.h>

#include <array>
#include <optional>

#include "exec/cuda/operation_watch.h"

namespace zplan::exec::cuda {
namespace {

using std::chrono::seconds;

constexpr seconds kDeadline{10};

class OperationWatchTest : public ::testing::Test {
 protected:
  static TimePoint at(int second) { return TimePoint{} + seconds(1000 + second); }
  void queue(OpId op, int second) {
    const std::size_t event = watch.queue(op, at(second));
    ASSERT_LT(event, done.size());
    done[event] = false;
    last = event;
  }
  std::optional<OperationWatch::Overdue> check(int second) {
    return watch.check([this](std::size_t event) { return done[event]; }, at(second));
  }

  std::array<bool, 3> done{};
  std::size_t last = 0;
  OperationWatch watch{3, kDeadline};
};

TEST_F(OperationWatchTest, NothingQueuedIsNeverOverdue) { EXPECT_FALSE(check(100000)); }

TEST_F(OperationWatchTest, AnOperationIsOverdueAfterTheDeadlineOnly) {
  queue(7, 0);
  EXPECT_FALSE(check(10));
  const auto overdue = check(11);
  ASSERT_TRUE(overdue);
  EXPECT_EQ(overdue->op, 7u);
  EXPECT_EQ(overdue->waited, seconds(11));
}

TEST_F(OperationWatchTest, TheOldestThatIsNotDoneIsKnownBeforeTheDeadline) {
  queue(7, 0);
  done[last] = true;
  queue(8, 1);
  queue(9, 2);
  const auto oldest = watch.oldest([this](std::size_t event) { return done[event]; }, at(3));
  ASSERT_TRUE(oldest);
  EXPECT_EQ(oldest->op, 8u);
}

TEST_F(OperationWatchTest, AnOperationThatIsDoneIsForgotten) {
  queue(7, 0);
  done[last] = true;
  EXPECT_FALSE(check(11));
  done[last] = false;
  EXPECT_FALSE(check(100));
}

TEST_F(OperationWatchTest, TimeCountsFromWhenTheOneBeforeWasDone) {
  queue(1, 0);
  const std::size_t first = last;
  queue(2, 0);
  EXPECT_FALSE(check(9));
  done[first] = true;
  EXPECT_FALSE(check(9));
  EXPECT_FALSE(check(19));
  const auto overdue = check(20);
  ASSERT_TRUE(overdue);
  EXPECT_EQ(overdue->op, 2u);
  EXPECT_EQ(overdue->waited, seconds(11));
}

TEST_F(OperationWatchTest, TheOldestIsTheOneNamed) {
  queue(1, 0);
  queue(2, 5);
  const auto overdue = check(30);
  ASSERT_TRUE(overdue);
  EXPECT_EQ(overdue->op, 1u);
}

TEST_F(OperationWatchTest, WithoutEventsLeftTheNewestTakesOver) {
  for (OpId op = 1; op <= 5; ++op) queue(op, static_cast<int>(op));
  EXPECT_EQ(check(30)->op, 1u);
  done[0] = done[1] = true;
  EXPECT_FALSE(check(31));
  EXPECT_EQ(check(60)->op, 5u);
  done[2] = true;
  EXPECT_FALSE(check(61));
}

TEST_F(OperationWatchTest, EventsAreUsedAgain) {
  for (int round = 0; round < 100; ++round) {
    queue(static_cast<OpId>(round), round);
    EXPECT_FALSE(check(round));
    done[last] = true;
  }
}

}  // namespace
}  // namespace zplan::exec::cuda
