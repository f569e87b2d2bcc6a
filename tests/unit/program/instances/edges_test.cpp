// How far the derived edges reach: exactly as far as the slots demand, where that can be said.
#include "planner/program/instances/edges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "tests/support/sample_job.h"

namespace zplan {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

const Shape kFloats{64};

class Edges : public ::testing::Test {
 protected:
  BufferId buffer(std::int32_t slots) {
    const auto number = std::to_string(b_.program().buffers.size());
    return b_.buffer("b" + number, 256, slots, Category::kActivations);
  }
  NodeIndex use(Lane lane, Access access, BufferId id, SlotExpr slot) {
    return b_.node({.kind = OpKind::kKernel, .lane = lane},
                   {sample_view(id, access, kFloats, slot)});
  }
  NodeIndex write(Lane lane, BufferId id, SlotExpr slot) {
    return use(lane, Access::kWrite, id, slot);
  }
  NodeIndex read(Lane lane, BufferId id, SlotExpr slot) {
    return use(lane, Access::kRead, id, slot);
  }
  NodeIndex move(BufferId from, BufferId to) {
    return b_.node(
        {.kind = OpKind::kKernel, .lane = kUse},
        {sample_view(from, Access::kRead, kFloats), sample_view(to, Access::kWrite, kFloats)});
  }
  void loop(Var var, std::int32_t count, const std::function<void()>& body, bool down = false) {
    b_.begin(count, var, down ? count - 1 : 0, down ? -1 : 1);
    body();
    b_.end();
  }
  void derive() {
    program_ = b_.finish();
    derive_data_edges(program_);
  }
  std::vector<Edge> of(NodeIndex node) const {
    const auto edges = program_.after(program_.nodes[node]);
    return {edges.begin(), edges.end()};
  }

  static constexpr Lane kFill = Lane::kCommGather, kUse = Lane::kCompute;
  SampleBuilder b_;
  Program program_;
};

TEST_F(Edges, ARingOfTilesIsFilledAsFarAheadAsItHasSlots) {
  const BufferId ring = buffer(3);
  NodeIndex w = 0, r = 0;
  loop(Var::kTile, 8, [&] {
    w = write(kFill, ring, {.per_tile = 1});
    r = read(kUse, ring, {.per_tile = 1});
  });
  derive();
  EXPECT_THAT(of(r), UnorderedElementsAre(Edge{.node = w, .level = 1}));
  EXPECT_THAT(of(w), UnorderedElementsAre(Edge{.node = r, .level = 1, .delta = 3},
                                          Edge{.node = r, .level = 0, .delta = 1}));
}

TEST_F(Edges, WhatOtherEdgesImplyStaysOnlyWhereItMay) {
  const BufferId first = buffer(1), second = buffer(1);
  const NodeIndex w = write(kFill, first, {}), m = move(first, second);
  const NodeIndex r = b_.node(
      {.kind = OpKind::kKernel, .lane = Lane::kD2h},
      {sample_view(first, Access::kRead, kFloats), sample_view(second, Access::kRead, kFloats)});
  derive();
  EXPECT_THAT(of(r), UnorderedElementsAre(Edge{.node = m}));
  derive_data_edges(program_, ImpliedEdges::kMayStay);
  EXPECT_THAT(of(r), UnorderedElementsAre(Edge{.node = m}, Edge{.node = w}));
}

TEST_F(Edges, TilesWithSlotsOfTheirOwnMeetOneByOne) {
  const BufferId saved = buffer(4);
  NodeIndex w = 0, r = 0, m = 0;
  loop(Var::kLayer, 3, [&] {
    loop(Var::kTile, 4, [&] { w = write(kFill, saved, {.per_layer = 4, .per_tile = 1}); });
    loop(Var::kTile, 4, [&] { r = read(kUse, saved, {.per_layer = 4, .per_tile = 1}); });
    loop(
        Var::kTile, 4, [&] { m = read(Lane::kD2h, saved, {.per_layer = 4, .per_tile = 1}); }, true);
  });
  derive();
  const Edge same{.node = w, .level = 1, .match = Match::kSame, .from_depth = 2};
  Edge mirrored = same;
  mirrored.match = Match::kMirror;
  EXPECT_THAT(of(r), UnorderedElementsAre(same));
  EXPECT_THAT(of(m), UnorderedElementsAre(mirrored));
}

// A loop has two micro-batches, of which the second goes through the layers in reverse.
TEST_F(Edges, WhatGoesUpMeetsWhatGoesDownWhereTheirSlotsDo) {
  const BufferId apart = buffer(6), shared = buffer(4), one = buffer(3);
  NodeIndex up = 0, up_shared = 0, up_one = 0, down = 0, down_shared = 0, down_one = 0;
  loop(Var::kLayer, 3, [&] {
    up = write(kFill, apart, {.base = 3, .per_layer = 1});
    up_shared = write(kFill, shared, {.base = 3, .per_layer = -1});
    up_one = write(kFill, one, {.per_layer = 1});
    b_.begin(1, Var::kLayer, 2, -1, true, true);
    down = read(kUse, apart, {.per_layer = 1});
    down_shared = read(kUse, shared, {.per_layer = 1});
    down_one = read(kUse, one, {.per_layer = 1});
    b_.end();
  });
  derive();
  const auto within = [&](NodeIndex node) {
    std::vector<Edge> edges = of(node);
    std::erase_if(edges, [](const Edge& edge) { return edge.level == 0; });
    return edges;
  };
  EXPECT_THAT(within(up), testing::IsEmpty());
  EXPECT_THAT(within(down), testing::IsEmpty());
  EXPECT_THAT(within(up_shared),
              UnorderedElementsAre(Edge{.node = down_shared, .level = 1, .delta = 1}));
  EXPECT_THAT(within(down_one), UnorderedElementsAre(Edge{.node = up_one, .level = 1}));
}

TEST_F(Edges, LayersMeetOneByOneWhateverTheirTiles) {
  const BufferId home = buffer(12);
  const SlotExpr slot{.per_layer = 4, .per_tile = 1};
  NodeIndex r = 0, w = 0;
  loop(Var::kLayer, 3, [&] { loop(Var::kTile, 4, [&] { r = read(kFill, home, slot); }); });
  loop(Var::kLayer, 3, [&] { loop(Var::kTile, 4, [&] { w = write(kUse, home, slot); }); });
  derive();
  EXPECT_THAT(of(w), UnorderedElementsAre(
                         Edge{.node = r, .level = 0, .match = Match::kSame, .from_depth = 1}));
  EXPECT_THAT(of(r),
              UnorderedElementsAre(
                  Edge{.node = w, .level = 0, .delta = 1, .match = Match::kSame, .from_depth = 1}));
}

TEST_F(Edges, LayersThatShareSlotsWaitForTheWholeLoop) {
  const BufferId home = buffer(8);  // layer 2 has the slots of layer 0
  const SlotExpr slot{.per_layer = 4, .per_tile = 1};
  NodeIndex r = 0, w = 0;
  loop(Var::kLayer, 3, [&] { loop(Var::kTile, 4, [&] { r = read(kFill, home, slot); }); });
  loop(Var::kLayer, 3, [&] { loop(Var::kTile, 4, [&] { w = write(kUse, home, slot); }); });
  derive();
  EXPECT_THAT(of(w), UnorderedElementsAre(Edge{.node = r, .level = 0}));
}

TEST_F(Edges, PartsThatMoveAlikeOverTheRanksMeetOnlyWhereTheyOverlap) {
  const BufferId whole = buffer(1);
  View lower = sample_view(whole, Access::kWrite, {8}), upper = lower, all = lower;
  upper.offset = {32};
  lower.strides[0] = upper.strides[0] = 64;
  all.shape = kFloats;
  all.access = Access::kRead;
  const NodeIndex a = b_.node({.kind = OpKind::kKernel, .lane = kFill}, {lower});
  const NodeIndex b = b_.node({.kind = OpKind::kKernel, .lane = kUse}, {upper});
  const NodeIndex c = b_.node({.kind = OpKind::kKernel, .lane = Lane::kD2h}, {all});
  derive();
  const Edge last_step{.node = c, .level = 0, .delta = 1};
  EXPECT_THAT(of(a), UnorderedElementsAre(last_step));
  EXPECT_THAT(of(b), UnorderedElementsAre(last_step));
  EXPECT_THAT(of(c), UnorderedElementsAre(Edge{.node = a}, Edge{.node = b}));
}

TEST_F(Edges, WhatAnotherWaitImpliesIsLeftOut) {
  const BufferId first = buffer(1), second = buffer(1);
  NodeIndex w = 0, u = 0, r = 0;
  loop(Var::kLayer, 4, [&] {
    w = write(kFill, first, {});
    u = b_.node(
        {.kind = OpKind::kKernel, .lane = kUse},
        {sample_view(first, Access::kRead, kFloats), sample_view(second, Access::kWrite, kFloats)});
    r = b_.node(
        {.kind = OpKind::kKernel, .lane = Lane::kD2h},
        {sample_view(first, Access::kRead, kFloats), sample_view(second, Access::kRead, kFloats)});
  });
  derive();
  const Edge begin{.node = r, .level = 0, .delta = 1}, before{.node = r, .level = 1, .delta = 1};
  EXPECT_THAT(of(r), UnorderedElementsAre(Edge{.node = u, .level = 1})) << "and by it w";
  EXPECT_THAT(of(u), UnorderedElementsAre(Edge{.node = w, .level = 1})) << "and by it r before";
  EXPECT_THAT(of(w), UnorderedElementsAre(begin, before)) << "and by them u before";
}

TEST_F(Edges, DataIsWaitedForWhereReuseWouldDo) {
  const BufferId own = buffer(1), early = buffer(1), late = buffer(1);
  const NodeIndex w = write(kFill, own, {});
  const NodeIndex last = write(kFill, early, {});
  const NodeIndex r = move(own, late);
  derive();
  add_reuse_edges(program_, {{early, late}});
  EXPECT_THAT(of(r), UnorderedElementsAre(Edge{.node = w, .level = 0},
                                          Edge{.node = last, .level = 0, .reuse = true}));
}

TEST_F(Edges, ReuseIsNotWaitedForWhereDataIs) {
  const BufferId own = buffer(1), early = buffer(1), late = buffer(1);
  write(kFill, early, {});
  const NodeIndex w = write(kFill, own, {});
  const NodeIndex r = move(own, late);
  derive();
  add_reuse_edges(program_, {{early, late}});
  EXPECT_THAT(of(r), UnorderedElementsAre(Edge{.node = w, .level = 0}));
}

// A pass of a pipeline's steady state works on a micro-batch some iterations ahead of the loop's
// own: a receive into its slot 2m waits for what the slot held before, never for the send of the
// slot 2m + 1 of the micro-batch before, which may wait for a partner.
TEST_F(Edges, PassesOfOtherMicroBatchesMeetWhereTheirSlotsDo) {
  constexpr std::int32_t kSlots = 8;  // of four micro-batches in flight
  const BufferId inputs = buffer(kSlots);
  NodeIndex receive = 0, send = 0, last = 0;
  loop(Var::kMicro, 12, [&] {
    b_.begin(1, Var::kMicro, 3, 1, true);
    receive = write(kFill, inputs, {.per_micro = 2});
    send = read(Lane::kD2h, inputs, {.base = 1, .per_micro = 2});
    b_.end();
    last = read(kUse, inputs, {.per_micro = 2});
  });
  derive();
  for (const Edge& edge : of(send)) EXPECT_EQ(edge.level, 0) << "only for the step before";
  for (const Edge& edge : of(receive)) EXPECT_TRUE(edge.node != send || edge.level == 0);
  // The loop's own micro-batch reads what the pass three iterations before received.
  EXPECT_THAT(of(last), testing::Contains(Edge{.node = receive, .level = 1, .delta = 3}));
  EXPECT_THAT(of(receive), testing::Contains(Edge{.node = last, .level = 1, .delta = 1}));
}

}  // namespace
}  // namespace zplan
