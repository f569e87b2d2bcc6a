#include "exec/checkpoint/piece_runs.h"

#include <gtest/gtest.h>

#include <tuple>
#include <vector>

namespace zplan::exec {
namespace {

using Runs = std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>>;

// Global, local, length.
Runs runs_of(const Tensor& tensor, std::int64_t first, std::int64_t elements,
             std::int64_t piece = 0, std::int64_t pieces = 1) {
  Runs all;
  for (const PieceRun& run : piece_runs(tensor, piece, pieces, first, elements))
    all.emplace_back(run.global, run.local, run.length);
  return all;
}

// Ten elements that stand behind four others, cut into shards of eight.
TEST(PieceRuns, OfAShardBeginWhereItDoes) {
  const Tensor tensor{.name = "t", .shape = {10}, .offset = 4};
  EXPECT_EQ(runs_of(tensor, 0, 8), (Runs{{0, 4, 4}}));
  EXPECT_EQ(runs_of(tensor, 8, 8), (Runs{{4, 0, 6}}));
  EXPECT_EQ(runs_of(tensor, 16, 8), Runs{});
  EXPECT_EQ(runs_of(tensor, 0, 24), (Runs{{0, 4, 10}}));
}

// The second of two ranks has the last columns of each of three rows.
TEST(PieceRuns, OfColumnsAreThoseOfEachRow) {
  const Tensor tensor{.name = "t",
                      .shape = {3, 4},
                      .offset = 2,
                      .split = {.kind = Split::Kind::kColumns, .segments = {4}}};
  EXPECT_EQ(runs_of(tensor, 0, 8, 1, 2), (Runs{{2, 2, 2}, {6, 4, 2}, {10, 6, 2}}));
  EXPECT_EQ(runs_of(tensor, 5, 3, 1, 2), (Runs{{7, 0, 1}, {10, 1, 2}}));
}

}  // namespace
}  // namespace zplan::exec
