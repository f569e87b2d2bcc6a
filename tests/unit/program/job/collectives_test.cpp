#include "planner/program/job/collectives.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>
#include <utility>

namespace zplan {
namespace {

constexpr int kMembers = 4, kRoot = 2;

TEST(Collectives, EachHasAWordOfItsOwn) {
  std::set<std::string_view> words;
  for (const CollectiveRow& row : kCollectiveRows) EXPECT_TRUE(words.insert(row.word).second);
  EXPECT_EQ(words.size(), static_cast<std::size_t>(kCollectiveKindCount));
}

// What MPI and NCCL say of the collectives that they have, too.
TEST(Collectives, PartsComeFromWhereTheirNamesSay) {
  const auto from = [](CollectiveKind kind, int to, int j) {
    return source_of(kind, kMembers, kRoot, to, j);
  };
  EXPECT_EQ(from(CollectiveKind::kAllGather, 1, 3), (PartOf{3, 0}));
  EXPECT_EQ(from(CollectiveKind::kBroadcast, 1, 0), (PartOf{kRoot, 0}));
  EXPECT_EQ(from(CollectiveKind::kAllToAll, 1, 3), (PartOf{3, 1}));
  EXPECT_EQ(from(CollectiveKind::kShift, 1, 0), (PartOf{0, 0}));
  EXPECT_EQ(from(CollectiveKind::kShift, 0, 0), (PartOf{3, 0}));
  EXPECT_EQ(from(CollectiveKind::kReduceScatter, 1, 0).part, 1);
  EXPECT_EQ(from(CollectiveKind::kAllReduce, 1, 0).part, 0);
}

// So many bodies send at most one message from a member to another.
TEST(Collectives, NoMemberGetsTwoPartsOfAnother) {
  for (int number = 0; number < kCollectiveKindCount; ++number) {
    const auto kind = static_cast<CollectiveKind>(number);
    if (adds_up(kind)) continue;
    for (int to = 0; to < kMembers; ++to) {
      std::set<int> members;
      for (int j = 0; j < parts_of(row_of(kind).output, kMembers); ++j) {
        const PartOf from = source_of(kind, kMembers, kRoot, to, j);
        EXPECT_TRUE(members.insert(from.member).second) << name(kind);
        EXPECT_TRUE(takes_part(row_of(kind).input, from.member, kRoot)) << name(kind);
        EXPECT_LT(from.part, parts_of(row_of(kind).input, kMembers)) << name(kind);
      }
    }
  }
}

TEST(Collectives, SomeAreNeverInPlace) {
  EXPECT_TRUE(hands_on(CollectiveKind::kAllToAll));
  EXPECT_TRUE(hands_on(CollectiveKind::kShift));
  for (const CollectiveKind kind :
       {CollectiveKind::kAllGather, CollectiveKind::kReduceScatter, CollectiveKind::kAllReduce,
        CollectiveKind::kBroadcast, CollectiveKind::kReduce})
    EXPECT_FALSE(hands_on(kind)) << name(kind);
  EXPECT_TRUE(keeps_part_in_place(CollectiveKind::kAllGather));
  EXPECT_TRUE(keeps_part_in_place(CollectiveKind::kReduceScatter));
  EXPECT_FALSE(keeps_part_in_place(CollectiveKind::kAllReduce));
}

// Rows that nothing needs yet: what they would mean follows from the words.
TEST(Collectives, WordsAlsoSayWhatOneMemberDealsOutOrCollects) {
  const CollectiveRow scatter{"scatter", Holding::kPartsOfRoot, Holding::kPart, Result::kCopy};
  const CollectiveRow gather{"gather", Holding::kPart, Holding::kPartsOfRoot, Result::kCopy};
  EXPECT_EQ(source_of(scatter, kMembers, kRoot, 3, 0), (PartOf{kRoot, 3}));
  EXPECT_EQ(source_of(gather, kMembers, kRoot, kRoot, 3), (PartOf{3, 0}));
  EXPECT_EQ(parts_of(scatter.input, kMembers), kMembers);
  EXPECT_EQ(parts_of(gather.output, kMembers), kMembers);
  EXPECT_FALSE(takes_part(gather.output, 0, kRoot));
  EXPECT_TRUE(takes_part(gather.output, kRoot, kRoot));
}

}  // namespace
}  // namespace zplan
