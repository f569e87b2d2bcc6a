#include "planner/program/schedule/check.h"

#include <gtest/gtest.h>

#include "planner/program/schedule/one_forward_one_backward.h"
#include "tests/support/schedules.h"

namespace zplan {
namespace {

using testing_support::schedule_of;

std::string fault(ChunkMap chunks, std::int32_t micro_batches,
                  const std::vector<std::string>& ranks) {
  return fault_of(schedule_of(std::move(chunks), micro_batches, ranks)).value_or("none");
}

TEST(ScheduleCheck, PassesOneForwardOneBackwardAndGpipe) {
  for (const std::int32_t p : {1, 2, 3, 5, 8}) {
    for (const std::int32_t m : {1, 2, 4, 8, 16, 24}) {
      EXPECT_EQ(fault_of(one_forward_one_backward(p, m)), std::nullopt);
      EXPECT_EQ(fault_of(gpipe(p, m)), std::nullopt);
    }
  }
}

TEST(ScheduleCheck, NamesAPassThatIsMissing) {
  EXPECT_EQ(fault(looped_chunks(1, 1), 2, {"F0.0 B0.0"}),
            "rank 0: forward of micro-batch 1, chunk 0 is missing");
  EXPECT_EQ(fault(looped_chunks(1, 1), 2, {"F0.0 B0.0 F0.1"}),
            "rank 0: backward of micro-batch 1, chunk 0 is missing");
  EXPECT_EQ(fault(looped_chunks(1, 2), 1, {"F0.0 F1.0 B1.0 I0.0"}),
            "rank 0: weight backward of micro-batch 0, chunk 0 is missing");
}

TEST(ScheduleCheck, NamesAPassThatComesTwice) {
  EXPECT_EQ(fault(looped_chunks(1, 1), 1, {"F0.0 F0.0 B0.0"}),
            "rank 0: forward of micro-batch 0, chunk 0 comes a second time");
  EXPECT_EQ(fault(looped_chunks(1, 1), 1, {"F0.0 I0.0 B0.0"}),
            "rank 0: backward of micro-batch 0, chunk 0 comes a second time");
  EXPECT_EQ(fault(looped_chunks(1, 1), 1, {"F0.0 B0.0 W0.0"}),
            "rank 0: weight backward of micro-batch 0, chunk 0 comes a second time");
}

TEST(ScheduleCheck, NamesAPassThatComesTooEarly) {
  EXPECT_EQ(fault(looped_chunks(1, 1), 1, {"B0.0 F0.0"}),
            "rank 0: backward of micro-batch 0, chunk 0 comes before its forward");
  EXPECT_EQ(fault(looped_chunks(1, 1), 1, {"F0.0 W0.0 I0.0"}),
            "rank 0: weight backward of micro-batch 0, chunk 0 comes before its input backward");
}

TEST(ScheduleCheck, NamesAPassThatThereIsNoSuch) {
  EXPECT_EQ(fault(looped_chunks(1, 1), 1, {"F0.0 B0.0 F0.1"}),
            "rank 0: forward of micro-batch 1, chunk 0: a step has 1 micro-batches");
  EXPECT_EQ(fault(looped_chunks(1, 1), 1, {"F1.0"}),
            "rank 0: forward of micro-batch 0, chunk 1: a rank has 1 chunks");
  EXPECT_EQ(fault(looped_chunks(2, 1), 1, {"F0.0 B0.0"}), "passes are given for 1 ranks of 2");
}

TEST(ScheduleCheck, NamesTheCircleOfADeadlock) {
  EXPECT_EQ(fault(looped_chunks(2, 1), 2, {"F0.0 B0.0 F0.1 B0.1", "F0.0 F0.1 B0.0 B0.1"}),
            "rank 0 waits at backward of micro-batch 0, chunk 0 for the gradient of chunk 0 on "
            "rank 1, which waits at forward of micro-batch 1, chunk 0 for the output of chunk 0 on "
            "rank 0");
}

TEST(ScheduleCheck, NamesTheCircleAndNotThoseThatWaitForIt) {
  const std::string line =
      fault(looped_chunks(3, 1), 2,
            {"F0.0 F0.1 B0.0 B0.1", "F0.0 B0.0 F0.1 B0.1", "F0.0 F0.1 B0.0 B0.1"});
  EXPECT_EQ(line,
            "rank 1 waits at backward of micro-batch 0, chunk 0 for the gradient of chunk 0 on "
            "rank 2, which waits at forward of micro-batch 1, chunk 0 for the output of chunk 0 on "
            "rank 1");
}

TEST(ScheduleCheck, NamesARankThatWaitsForItself) {
  EXPECT_EQ(
      fault(v_shaped_chunks(1, 2), 1, {"F1.0 F0.0 B1.0 B0.0"}),
      "rank 0 waits at forward of micro-batch 0, chunk 1 for the output of chunk 0 on rank 0");
}

TEST(ScheduleCheck, NamesMessagesThatCross) {
  EXPECT_EQ(fault(looped_chunks(2, 1), 2, {"F0.0 F0.1 B0.0 B0.1", "F0.1 F0.0 B0.0 B0.1"}),
            "rank 0 sends rank 1 the output of micro-batch 0 for chunk 0 where rank 1 reads that "
            "of micro-batch 1 for chunk 0");
  EXPECT_EQ(fault(looped_chunks(2, 1), 2, {"F0.0 F0.1 B0.1 B0.0", "F0.0 F0.1 B0.0 B0.1"}),
            "rank 1 sends rank 0 the gradient of micro-batch 0 for chunk 0 where rank 0 reads that "
            "of micro-batch 1 for chunk 0");
}

// Rank 1 sends output, gradient, output, gradient; rank 0 reads both outputs first.
TEST(ScheduleCheck, LetsOutputsAndGradientsPassEachOther) {
  EXPECT_EQ(
      fault(v_shaped_chunks(2, 2), 2,
            {"F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 B0.0 B0.1", "F0.0 F1.0 B1.0 B0.0 F0.1 F1.1 B1.1 B0.1"}),
      "none");
}

}  // namespace
}  // namespace zplan
