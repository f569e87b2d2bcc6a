#include "exec/schedule/process_timeline.h"

#include <gtest/gtest.h>

namespace zplan::exec {
namespace {

constexpr SimTime ms(std::int64_t milliseconds) { return SimTime{milliseconds * 1'000'000'000}; }

// Of one rank with one operation.
Timeline part(std::int32_t rank, SimTime start, std::map<std::string, std::string> kernels = {}) {
  RankTimeline own{.stage = 0, .rank = rank, .spans = {}};
  own.spans.push_back({.ready = start, .start = start + ms(1), .end = start + ms(3)});
  return {.source = "exec", .fingerprint = "f", .ranks = {own}, .kernels = std::move(kernels)};
}

TEST(ProcessTimeline, AStartIsFoundThoughSomeMessagesAreLate) {
  const std::vector<SimTime> first{ms(100), ms(110), ms(135), ms(140), ms(150)};
  const std::vector<SimTime> other{ms(93), ms(103), ms(113), ms(163), ms(143)};
  EXPECT_EQ(start_offset(first, other), ms(7));
  EXPECT_EQ(start_offset(other, first), ms(-7));
}

TEST(ProcessTimeline, RanksLieOnTheClockOfTheEarliestStart) {
  const std::vector<SimTime> offsets{ms(0), ms(-4), ms(6)};
  const Timeline all = join_timelines(
      {part(0, ms(10), {{"a", "x"}}), part(2, ms(10)), part(1, ms(10), {{"b", "y"}})}, offsets);
  ASSERT_EQ(all.ranks.size(), 3u);
  EXPECT_EQ(all.ranks[0], part(0, ms(14)).ranks[0]);
  EXPECT_EQ(all.ranks[1], part(1, ms(20)).ranks[0]);
  EXPECT_EQ(all.ranks[2], part(2, ms(10)).ranks[0]);
  EXPECT_EQ(all.kernels, (std::map<std::string, std::string>{{"a", "x"}, {"b", "y"}}));
}

}  // namespace
}  // namespace zplan::exec
