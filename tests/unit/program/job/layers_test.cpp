#include <gtest/gtest.h>

#include "planner/program/job/job.h"

namespace zplan {
namespace {

TEST(RankClassLayers, ComeChunkAfterChunk) {
  RankClass c;
  c.layers = {{8, 2}, {2, 3}, {0, 0}};
  EXPECT_EQ(c.layer_count(), 5);
  const std::int64_t layers[] = {8, 9, 2, 3, 4};
  for (std::int64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(c.layer_at(i), layers[i]);
    EXPECT_EQ(c.index_of(layers[i]), i);
  }
  for (const std::int64_t other : {0, 1, 5, 7, 10}) EXPECT_EQ(c.index_of(other), std::nullopt);
}

}  // namespace
}  // namespace zplan
