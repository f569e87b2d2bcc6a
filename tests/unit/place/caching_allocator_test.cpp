#include "planner/place/caching_allocator.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace zplan {
namespace {

constexpr Bytes kKiB{1 << 10}, kMiB{1 << 20};

TEST(CachingAllocator, RoundsRequestsAndTakesSegmentsByTheirSize) {
  CachingAllocator a(false);
  a.allocate(Bytes{1});
  EXPECT_EQ(a.allocated(), Bytes{512});
  EXPECT_EQ(a.reserved(), 2 * kMiB) << "small";
  a.allocate(kMiB);
  EXPECT_EQ(a.reserved(), 2 * kMiB) << "fits beside the first";
  a.allocate(kMiB + Bytes{1});
  EXPECT_EQ(a.reserved(), 22 * kMiB) << "large";
  a.allocate(10 * kMiB - Bytes{512});
  EXPECT_EQ(a.reserved(), 22 * kMiB) << "of the same segment";
  a.allocate(11 * kMiB);
  EXPECT_EQ(a.reserved(), 34 * kMiB) << "rounded up to 2 MiB, not 20";
  EXPECT_EQ(a.allocated(), 24 * kMiB + Bytes{512}) << "1 MiB of the last segment is not split off";
}

TEST(CachingAllocator, ReusesTheSmallestFreeBlockThatHoldsTheRequest) {
  CachingAllocator a(false);
  const auto large = a.allocate(40 * kMiB);
  const auto middle = a.allocate(30 * kMiB);
  a.release(large);
  a.release(middle);
  EXPECT_EQ(a.allocate(30 * kMiB), middle);
  EXPECT_EQ(a.allocate(31 * kMiB), large);
  EXPECT_EQ(a.reserved(), 70 * kMiB);
}

TEST(CachingAllocator, SplitsOnlyWhatIsWorthABlock) {
  CachingAllocator a(false);
  a.release(a.allocate(40 * kMiB));
  a.allocate(39 * kMiB);  // leaves 1 MiB: too little for a block of the large pool
  EXPECT_EQ(a.allocated(), 40 * kMiB);
  CachingAllocator b(false);
  b.release(b.allocate(40 * kMiB));
  b.allocate(38 * kMiB);
  EXPECT_EQ(b.allocated(), 38 * kMiB);
  b.allocate(2 * kMiB);
  EXPECT_EQ(b.reserved(), 40 * kMiB) << "the rest serves the next";
}

TEST(CachingAllocator, ARestOfTheLeastSizeIsSplitOff) {
  CachingAllocator small(false);
  const auto first = small.allocate(kKiB);
  small.allocate(kKiB / 2);  // stands between the first and the rest of the segment
  small.release(first);
  small.allocate(kKiB / 2);
  EXPECT_EQ(small.allocated(), kKiB) << "half of the first, and the second";
  CachingAllocator expandable(true);
  expandable.release(expandable.allocate(40 * kMiB));
  expandable.allocate(40 * kMiB - kKiB);
  EXPECT_EQ(expandable.allocated(), 40 * kMiB - kKiB) << "of expandable segments in both pools";
}

TEST(CachingAllocator, ExpandableSegmentsGrowByPagesOfTheirPool) {
  CachingAllocator a(true);
  a.allocate(kKiB);
  EXPECT_EQ(a.reserved(), 2 * kMiB);
  a.allocate(2 * kMiB);
  EXPECT_EQ(a.reserved(), 22 * kMiB);
}

TEST(CachingAllocator, TenMebibytesHaveASegmentOfTheirSize) {
  CachingAllocator a(false);
  a.allocate(10 * kMiB);
  EXPECT_EQ(a.reserved(), 10 * kMiB);
}

TEST(CachingAllocator, NeighboursJoin) {
  CachingAllocator a(false);
  a.release(a.allocate(60 * kMiB));
  const auto first = a.allocate(20 * kMiB), second = a.allocate(20 * kMiB),
             third = a.allocate(20 * kMiB);
  a.release(first);
  a.release(third);
  a.release(second);
  a.allocate(60 * kMiB);
  EXPECT_EQ(a.reserved(), 60 * kMiB);
}

TEST(CachingAllocator, FragmentsWhereExpandableSegmentsDoNot) {
  const auto reserved = [](bool expandable) {
    CachingAllocator a(expandable);
    const auto first = a.allocate(100 * kMiB);
    a.release(first);
    const auto kept = a.allocate(60 * kMiB);  // in the first segment
    a.allocate(60 * kMiB);                    // its rest is too small
    a.release(kept);
    return a.most_reserved();
  };
  EXPECT_EQ(reserved(false), 160 * kMiB);
  EXPECT_EQ(reserved(true), 120 * kMiB) << "grown by a page, not by a segment";
}

// The last 16 of 64 MiB are in use, 32 MiB are not.
TEST(CachingAllocator, GivesBackSegmentsOfWhichNothingIsInUse) {
  CachingAllocator a(false);
  const auto whole = a.allocate(64 * kMiB);
  const auto other = a.allocate(32 * kMiB);
  a.release(whole);
  const auto front = a.allocate(48 * kMiB);
  a.allocate(16 * kMiB);
  a.release(front);
  a.release(other);
  EXPECT_FALSE(a.has_room(64 * kMiB, 128 * kMiB));
  a.give_back();
  EXPECT_EQ(a.reserved(), 64 * kMiB);
  EXPECT_TRUE(a.has_room(64 * kMiB, 128 * kMiB)) << "in a segment of its own";
  EXPECT_FALSE(a.has_room(64 * kMiB, 127 * kMiB));
  EXPECT_TRUE(a.has_room(48 * kMiB, Bytes{0})) << "where the front was";
  EXPECT_EQ(a.most_reserved(), 96 * kMiB);
}

TEST(CachingAllocator, PeaksStay) {
  CachingAllocator a(false);
  const auto block = a.allocate(64 * kMiB);
  a.release(block);
  a.allocate(kKiB);
  EXPECT_EQ(a.allocated(), kKiB);
  EXPECT_EQ(a.most_allocated(), 64 * kMiB);
  EXPECT_EQ(a.most_reserved(), 66 * kMiB);
}

// Whatever is asked for: what is in use is the sum of what was asked for but for unsplit rests, and
// once all is given back one request of each segment's size finds its segment again.
TEST(CachingAllocator, NothingIsLostOverManyRequests) {
  for (const bool expandable : {false, true}) {
    CachingAllocator a(expandable);
    std::vector<std::pair<CachingAllocator::Handle, Bytes>> held;
    Bytes asked{0};
    std::uint64_t state = 7;
    const auto draw = [&](std::uint64_t below) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      return (state >> 33) % below;
    };
    for (int i = 0; i < 20'000; ++i) {
      if (!held.empty() && draw(2) == 0) {
        const std::size_t which = draw(held.size());
        a.release(held[which].first);
        asked -= held[which].second;
        held[which] = held.back();
        held.pop_back();
      } else {
        const Bytes size{static_cast<std::int64_t>(512 * (1 + draw(draw(2) == 0 ? 64 : 60'000)))};
        held.emplace_back(a.allocate(size), size);
        asked += size;
      }
      ASSERT_GE(a.allocated(), asked);
      ASSERT_LE(a.allocated(), asked + static_cast<std::int64_t>(held.size()) * kMiB);
      ASSERT_LE(a.allocated(), a.reserved());
    }
    for (const auto& [block, size] : held) a.release(block);
    EXPECT_EQ(a.allocated(), Bytes{0});
    const Bytes before = a.reserved();
    if (!expandable) continue;
    a.allocate(before / 2);
    EXPECT_EQ(a.reserved(), before) << "all of the segment is one block again";
  }
}

}  // namespace
}  // namespace zplan
