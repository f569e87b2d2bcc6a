// FNV-1a against published values [FNV].
#include "planner/core/hash.h"

#include <gtest/gtest.h>

namespace zplan {
namespace {

TEST(Hash128, MatchesPublishedValues) {
  EXPECT_EQ(to_hex(fnv1a128("")), "6c62272e07bb014262b821756295c58d");
  EXPECT_EQ(to_hex(fnv1a128("a")), "d228cb696f1a8caf78912b704e4a8964");
  EXPECT_EQ(to_hex(fnv1a128("foobar")), "343e1662793c64bf6f0d3597ba446f18");
}

TEST(Hash128, ContinuesOverPieces) {
  EXPECT_EQ(fnv1a128("bar", fnv1a128("foo")), fnv1a128("foobar"));
}

TEST(Hash32, MatchesPublishedValues) {
  EXPECT_EQ(fnv1a32(""), 0x811c9dc5u);
  EXPECT_EQ(fnv1a32("a"), 0xe40c292cu);
  EXPECT_EQ(fnv1a32("foobar"), 0xbf9cf968u);
}

}  // namespace
}  // namespace zplan
