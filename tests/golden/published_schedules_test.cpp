// Bubbles and micro-batches in flight of pipeline schedules, counted from their passes, against
// what was published. Forward takes one unit and backward two, or each of its parts one. Exact.
#include <gtest/gtest.h>

#include "planner/program/schedule/dual_pipe_v.h"
#include "planner/program/schedule/in_flight.h"
#include "planner/program/schedule/interleaved.h"
#include "planner/program/schedule/one_forward_one_backward.h"
#include "planner/program/schedule/timing.h"
#include "planner/program/schedule/zero_bubble_h1.h"
#include "planner/program/schedule/zero_bubble_v.h"

namespace zplan {
namespace {

ScheduleTime time_of(const PipelineSchedule& schedule) {
  return time_of(schedule,
                 std::vector<PassUnits>(static_cast<std::size_t>(schedule.chunks.size())));
}

std::int32_t in_flight(const PipelineSchedule& schedule, std::int32_t rank) {
  return most_chunks_in_flight(schedule.ranks[static_cast<std::size_t>(rank)].passes);
}

// (p - 1) / m for both; p - i and m micro-batches [Narayanan21 sec 2.2.1], [Huang19 sec 2.3].
TEST(PublishedSchedules, OneForwardOneBackwardAndGpipe) {
  for (const std::int32_t p : {1, 2, 4, 8, 64}) {
    for (const std::int32_t m : {p, 2 * p, 4 * p + 3}) {
      const PipelineSchedule one = one_forward_one_backward(p, m), all = gpipe(p, m);
      const double bubble = static_cast<double>(p - 1) / m;
      EXPECT_DOUBLE_EQ(time_of(one).bubble(), bubble) << p << " " << m;
      EXPECT_DOUBLE_EQ(time_of(all).bubble(), bubble) << p << " " << m;
      for (std::int32_t i = 0; i < p; ++i) {
        EXPECT_EQ(in_flight(one, i), p - i);
        EXPECT_EQ(in_flight(all, i), m);
      }
    }
  }
}

// (p - 1) / (v m) [Narayanan21 sec 2.2.2]; the first rank keeps the activations of all layers of
// p micro-batches' worth and (p - 1) / (p v) of that more [Korthikanti22 sec 4.2.3].
TEST(PublishedSchedules, Interleaved) {
  for (const std::int32_t p : {2, 4, 8, 16}) {
    for (const std::int32_t v : {2, 3, 8}) {
      for (const std::int32_t m : {2 * p, 8 * p}) {
        const PipelineSchedule s = interleaved(p, v, m);
        EXPECT_DOUBLE_EQ(time_of(s).bubble(), static_cast<double>(p - 1) / (v * m))
            << p << " " << v << " " << m;
        EXPECT_EQ(in_flight(s, 0), p * v + p - 1) << p << " " << v << " " << m;
        EXPECT_EQ(in_flight(s, p - 1), p * (v - 1) + 1) << p << " " << v << " " << m;
      }
    }
  }
}

// 1F1B's bubble (p - 1)(F + I + W), a step of it p - 1 passes long; ZB-H1's (p - 1)(F + I - W), and
// no more micro-batches kept than by 1F1B's first stage [Qi24 Tables 1 and 2].
TEST(PublishedSchedules, ZeroBubbleH1) {
  for (const std::int32_t p : {2, 3, 4, 8, 16}) {
    for (const std::int32_t m : {p, 2 * p, 5 * p + 1}) {
      const PipelineSchedule s = zero_bubble_h1(p, m);
      EXPECT_EQ(time_of(s).makespan() - 3 * m, p - 1) << p << " " << m;
      EXPECT_EQ(time_of(one_forward_one_backward(p, m)).makespan() - 3 * m, 3 * (p - 1));
      for (std::int32_t stage = 0; stage < p; ++stage) EXPECT_LE(in_flight(s, stage), p);
    }
  }
}

// DualPipe of q ranks waits for (q / 2 - 1)(FB + I + W - 3 W) and keeps q + 1 micro-batches'
// chunks; cut in half it has p = q / 2 ranks [DualPipe]. Here FB, a forward beside a whole
// backward, takes as long as both; the rest is what the orders give [derived].
TEST(PublishedSchedules, DualPipeV) {
  for (const std::int32_t p : {2, 3, 4, 8, 16}) {
    for (const std::int32_t m : {2 * p, 3 * p, 5 * p + 1}) {
      const PipelineSchedule s = dual_pipe_v(p, m);
      const ScheduleTime time = time_of(s);
      for (std::int32_t rank = 0; rank < p; ++rank) {
        const RankTime& at = time.ranks[static_cast<std::size_t>(rank)];
        EXPECT_EQ(at.end - at.start - at.busy, p - 1 - rank) << "rank " << rank << ", m " << m;
        EXPECT_LE(at.end - at.start - at.busy, (p - 1) * (3 + 2 - 3));
        EXPECT_EQ(in_flight(s, rank), 2 * p + 1);
      }
    }
  }
}

// No rank waits between its first and its last pass where F = B = W, and no rank keeps more than
// the first one of 1F1B: p micro-batches of both its chunks [Qi24 sec 6].
TEST(PublishedSchedules, ZeroBubbleV) {
  for (const std::int32_t p : {2, 3, 4, 8, 16}) {
    for (const std::int32_t m : {2 * p - 1, 2 * p, 5 * p + 1}) {
      const PipelineSchedule s = zero_bubble_v(p, m);
      const ScheduleTime time = time_of(s);
      for (std::int32_t rank = 0; rank < p; ++rank) {
        const RankTime& at = time.ranks[static_cast<std::size_t>(rank)];
        EXPECT_EQ(at.busy, 6 * m);
        EXPECT_EQ(at.end - at.start, at.busy) << "rank " << rank << " of " << p << ", m " << m;
        EXPECT_LE(in_flight(s, rank), 2 * p);
      }
      EXPECT_EQ(time.makespan(), 6 * m + p - 1);  // the last rank begins p - 1 forwards later
    }
  }
}

}  // namespace
}  // namespace zplan
