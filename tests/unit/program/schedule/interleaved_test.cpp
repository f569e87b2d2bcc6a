#include "planner/program/schedule/interleaved.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <span>
#include <tuple>

#include "planner/program/schedule/check.h"
#include "planner/program/schedule/in_flight.h"
#include "tests/support/schedules.h"

namespace zplan {
namespace {

using testing_support::folded;
using testing_support::text_of;

TEST(Interleaved, GoesRoundByRoundThroughTheChunks) {
  EXPECT_EQ(text_of(interleaved_order(3, 4, 2, 4).passes),
            "F0.0 F0.1 F0.2 F0.3 F1.0 B1.0 F1.1 B1.1 F1.2 B1.2 F1.3 B1.3 B0.0 B0.1 B0.2 B0.3");
}

TEST(Interleaved, WarmsUpByTwoMorePassesForEachRankBehind) {
  EXPECT_THAT(interleaved_order(3, 4, 2, 8).cuts, testing::ElementsAre(4, 28));
  EXPECT_THAT(interleaved_order(0, 4, 2, 8).cuts, testing::ElementsAre(10, 22));
  EXPECT_THAT(interleaved_order(0, 4, 2, 4).cuts, testing::ElementsAre(8, 8));
}

TEST(Interleaved, WithOneRankIsOneForwardOneBackwardOfTheLastChunk) {
  EXPECT_EQ(text_of(interleaved_order(0, 1, 1, 2).passes), "F0.0 B0.0 F0.1 B0.1");
}

TEST(Interleaved, NamesTheNearestMicroBatchesThatMakeEqualRounds) {
  EXPECT_EQ(nearest_rounds(4, 3), 3);
  EXPECT_EQ(nearest_rounds(4, 8), 8);
  EXPECT_EQ(nearest_rounds(4, 9), 10);
}

TEST(Interleaved, CanBeWorkedOff) {
  for (const std::int32_t p : {1, 2, 3, 5, 8})
    for (const std::int32_t m : {1, 2, 4, 8, 16, 24})
      for (const std::int32_t v : {1, 2, 3, 4})
        EXPECT_EQ(fault_of(interleaved(p, v, nearest_rounds(p, m))), std::nullopt)
            << p << " " << v << " " << m;
}

// Each rank is one forward further ahead, so that no backward waits for the forward beside it.
TEST(Interleaved, HasForwardsBesideBackwardsOfOtherPasses) {
  EXPECT_EQ(text_of(interleaved_order(3, 4, 2, 4, true).passes),
            "F0.0 F0.1 F0.2 F0.3 F1.0 F1.1 B1.0 F1.2 B1.1 F1.3 B1.2 B1.3 B0.0 B0.1 B0.2 B0.3");
  EXPECT_EQ(folded(interleaved_order(3, 4, 2, 8, true)),
            "4x(F0)@0 1x(F1)@0 3x(F1&+1 B1)@0 1x(F0&+1 B1)@3 3x(F0&+5 B0)@0 1x(F1&+1 B0)@3 "
            "3x(F1&+1 B1)@4 1x(B1)@7 4x(B0)@4");
}

// A pair begins when both of its inputs are there, and ends with both of its results.
bool can_be_worked_off_in_pairs(std::int32_t ranks, std::int32_t chunks, std::int32_t micros) {
  const ChunkMap map = looped_chunks(ranks, chunks);
  std::vector<PassOrder> orders;
  for (std::int32_t rank = 0; rank < ranks; ++rank)
    orders.push_back(interleaved_order(rank, ranks, chunks, micros, true));
  std::vector<std::size_t> done(orders.size());
  std::set<std::tuple<bool, std::int32_t, std::int32_t>> given;  // forward, piece, micro-batch
  const auto has_inputs = [&](std::int32_t rank, const Pass& pass) {
    const std::int32_t piece = map.position(rank, pass.chunk);
    if (pass.kind == PassKind::kForward)
      return piece == 0 || given.contains({true, piece - 1, pass.micro});
    return given.contains({true, piece, pass.micro}) &&
           (piece + 1 == map.size() || given.contains({false, piece + 1, pass.micro}));
  };
  for (bool moves = true; moves;) {
    moves = false;
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      const std::vector<Pass>& passes = orders[static_cast<std::size_t>(rank)].passes;
      std::size_t& at = done[static_cast<std::size_t>(rank)];
      if (at == passes.size()) continue;
      const std::size_t count = passes[at].beside ? 2 : 1;
      const auto all = std::span(passes).subspan(at, count);
      if (!std::ranges::all_of(all, [&](const Pass& pass) { return has_inputs(rank, pass); }))
        continue;
      for (const Pass& pass : all)
        given.insert({pass.kind == PassKind::kForward, map.position(rank, pass.chunk), pass.micro});
      at += count;
      moves = true;
    }
  }
  for (std::size_t rank = 0; rank < orders.size(); ++rank)
    if (done[rank] < orders[rank].passes.size()) return false;
  return true;
}

TEST(Interleaved, CanBeWorkedOffInPairs) {
  for (const std::int32_t p : {2, 3, 4, 8})
    for (const std::int32_t v : {2, 3, 4})
      for (const std::int32_t rounds : {1, 2, 5})
        EXPECT_TRUE(can_be_worked_off_in_pairs(p, v, p * rounds)) << p << " " << v << " " << rounds;
}

TEST(Interleaved, KeepsMicroBatchesOfAChunkInOrder) {
  const PassOrder order = interleaved_order(0, 4, 3, 16);
  std::int32_t all = 0;
  for (std::int32_t chunk = 0; chunk < 3; ++chunk) {
    const InFlight count = forward_to_backward(order.passes, chunk);
    EXPECT_EQ(count.span, count.most) << chunk;
    all += count.most;
  }
  EXPECT_GE(all, most_chunks_in_flight(order.passes));
}

TEST(Interleaved, HasLoopsInnerLoopsWithinThePeriod) {
  EXPECT_EQ(folded(interleaved_order(3, 4, 2, 16)),
            "4x(F0)@0 3/4x(4x(F1 B1)@0 4x(F0+4 B0)@0)@0 4x(F1 B1)@12 4x(B0)@12");
}

TEST(Interleaved, FoldsToFourPassesPerChunkInThePeriod) {
  for (const std::int32_t p : {2, 3, 4, 8, 16}) {
    for (const std::int32_t v : {2, 3, 4, 7}) {
      for (std::int32_t rank = 0; rank < p; ++rank) {
        const PassOrder order = interleaved_order(rank, p, v, 12 * p);
        const std::vector<PassLoop> loops = fold(order);
        EXPECT_EQ(unfold(loops), order.passes);
        for (const PassLoop& loop : loops)
          EXPECT_LE(body_size({loop}), static_cast<std::size_t>(4 * v)) << p << " " << v;
        // The period, one that is cut off, and the runs of single chunks in warm-up and drain.
        const auto all = static_cast<std::size_t>(4 * v + 4 * v + 2 * (v + 3));
        EXPECT_LE(body_size(loops), all) << p << " " << v;
      }
    }
  }
}

TEST(Interleaved, DoesNotGrowWithMicroBatchesWhenFolded) {
  for (std::int32_t rank = 0; rank < 8; ++rank)
    EXPECT_EQ(body_size(fold(interleaved_order(rank, 8, 3, 80))),
              body_size(fold(interleaved_order(rank, 8, 3, 800))));
}

TEST(Interleaved, FoldsInMilliseconds) {
  const PassOrder order = interleaved_order(5, 64, 4, 4096);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) EXPECT_LT(body_size(fold(order)), 60U);
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(taken.count(), 1.0) << "ten folds of 32,768 passes";
}

}  // namespace
}  // namespace zplan
