#include "planner/place/lifetime.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/core/error.h"
#include "planner/lower/program_builder.h"
#include "tests/support/meshes.h"

namespace zplan {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr Role kRole{Phase::kForward, Part::kLayer, Action::kCompute};
constexpr std::int64_t kFloats = 64;  // one slot: 256 bytes

// Programs of fill (write), accumulate (read, update) and gelu (read, write) kernels.
class Lifetimes : public ::testing::Test {
 protected:
  BufferId buffer(const char* name, std::int32_t slots = 1, bool persistent = false) {
    return out_.add({.name = name,
                     .slot_size = size_of(DType::kF32) * kFloats,
                     .slots = slots,
                     .persistent = persistent});
  }
  View view(BufferId id, SlotExpr slot = {}, std::int64_t first = 0, std::int64_t n = kFloats) {
    View v;
    v.buffer = id;
    v.slot = slot;
    v.offset = size_of(DType::kF32) * first;
    v.shape = {n};
    return v;
  }
  void fill(const View& to) {
    out_.kernel(kRole, Lane::kCompute, KernelId::kFillZero, {write(to)});
  }
  void gelu(const View& from, const View& to) {
    out_.kernel(kRole, Lane::kCompute, KernelId::kGeluForward, {read(from), write(to)});
  }
  void add(const View& from, const View& to) {
    out_.kernel(kRole, Lane::kCompute, KernelId::kAccumulate, {read(from), update(to)});
  }
  std::vector<Lifetime> result() { return lifetimes(out_.finish(), Mesh{}); }

  ProgramBuilder out_;
};

TEST_F(Lifetimes, ABufferLivesFromItsFirstToItsLastUse) {
  const BufferId a = buffer("a"), b = buffer("b"), c = buffer("c"), unused = buffer("unused");
  fill(view(a));           // 0
  gelu(view(a), view(b));  // 1
  gelu(view(b), view(c));  // 2
  const auto lives = result();
  EXPECT_EQ(lives[a], (Lifetime{0, 1}));
  EXPECT_EQ(lives[b], (Lifetime{1, 2}));
  EXPECT_EQ(lives[c], (Lifetime{2, 2}));
  EXPECT_FALSE(lives[unused].used());
  EXPECT_FALSE(lives[unused].overlaps(lives[a]));
  EXPECT_TRUE(lives[a].overlaps(lives[b]));
  EXPECT_FALSE(lives[a].overlaps(lives[c]));
}

TEST_F(Lifetimes, APersistentBufferAlwaysLives) {
  const BufferId a = buffer("a", 1, true), b = buffer("b");
  fill(view(b));
  gelu(view(a), view(b));
  fill(view(b));
  EXPECT_EQ(result()[a], (Lifetime{0, 2}));
}

TEST_F(Lifetimes, ATransientOfALoopBodyLivesWithinOneIteration) {
  const BufferId x = buffer("x"), a = buffer("a"), b = buffer("b");
  fill(view(x));  // 0
  out_.repeat({.count = 3, .var = Var::kLayer}, [&] {
    gelu(view(x), view(a));  // 1
    gelu(view(a), view(b));  // 2
    fill(view(a));           // 3
    add(view(b), view(x));   // 4
  });
  fill(view(x));  // 5
  const auto lives = result();
  EXPECT_EQ(lives[a], (Lifetime{1, 3}));
  EXPECT_EQ(lives[b], (Lifetime{2, 4}));
  EXPECT_EQ(lives[x], (Lifetime{0, 5}));
}

TEST_F(Lifetimes, AUseInALoopHoldsWhatComesFromOutsideForAllIterations) {
  const BufferId x = buffer("x"), y = buffer("y");
  fill(view(x));  // 0
  out_.repeat({.count = 3, .var = Var::kLayer}, [&] {
    fill(view(y));           // 1
    gelu(view(x), view(y));  // 2
    fill(view(y));           // 3
  });
  EXPECT_EQ(result()[x], (Lifetime{0, 3}));
}

TEST_F(Lifetimes, OfLoopsInEachOtherTheOutermostHoldsWhatComesFromOutside) {
  const BufferId x = buffer("x"), y = buffer("y");
  fill(view(x));  // 0
  out_.repeat({.count = 2, .var = Var::kMicro}, [&] {
    fill(view(y));                                                                   // 1
    out_.repeat({.count = 2, .var = Var::kLayer}, [&] { gelu(view(x), view(y)); });  // 2
    fill(view(y));                                                                   // 3
  });
  EXPECT_EQ(result()[x], (Lifetime{0, 3}));
}

TEST_F(Lifetimes, ABlockThatRunsOnceDelimitsNothing) {
  const BufferId x = buffer("x"), y = buffer("y");
  fill(view(x));  // 0
  out_.repeat({.count = 1, .var = Var::kMicro}, [&] {
    gelu(view(x), view(y));  // 1
    fill(view(y));           // 2
  });
  EXPECT_EQ(result()[x], (Lifetime{0, 1}));
}

TEST_F(Lifetimes, AValueCarriedAcrossIterationsLivesThroughTheLoop) {
  const BufferId x = buffer("x"), y = buffer("y"), ends = buffer("ends");
  out_.repeat({.count = 2, .var = Var::kMicro}, [&] {
    fill(view(ends));  // 0
    fill(view(x));     // 1
    out_.repeat({.count = 3, .var = Var::kLayer}, [&] {
      fill(view(ends));        // 2
      gelu(view(x), view(y));  // 3
      gelu(view(y), view(x));  // 4
    });
    fill(view(ends));  // 5
  });
  const auto lives = result();
  EXPECT_EQ(lives[x], (Lifetime{1, 4}));
  EXPECT_EQ(lives[y], (Lifetime{3, 4}));
}

TEST_F(Lifetimes, ARingPickedByTheLoopVariableLivesThroughTheLoop) {
  const BufferId ring = buffer("ring", 2), other = buffer("other");
  out_.repeat({.count = 4, .var = Var::kLayer}, [&] {
    fill(view(other));                         // 0
    fill(view(ring, {0, 0, 1}));               // 1
    gelu(view(ring, {0, 0, 1}), view(other));  // 2
    fill(view(other));                         // 3
  });
  EXPECT_EQ(result()[ring], (Lifetime{0, 3}));
}

TEST_F(Lifetimes, SlotsThatTheLoopVariableDoesNotPickEndWithTheIteration) {
  // One slot per layer, all written and read again in every micro-batch.
  const BufferId saved = buffer("saved", 3), x = buffer("x");
  out_.repeat({.count = 2, .var = Var::kMicro}, [&] {
    fill(view(x));                                                                         // 0
    out_.repeat({.count = 3, .var = Var::kLayer}, [&] { fill(view(saved, {0, 3, 1})); });  // 1
    fill(view(x));                                                                         // 2
    out_.repeat({.count = 3, .var = Var::kLayer, .first = 2, .step = -1}, [&] {
      gelu(view(saved, {0, 3, 1}), view(x));
    });             // 3
    fill(view(x));  // 4
  });
  EXPECT_EQ(result()[saved], (Lifetime{1, 3}));
}

TEST_F(Lifetimes, ALoopIsWalkedUntilEachOfItsUsesRepeats) {
  // The first use of the first loop writes three slots, the second reads one.
  const BufferId saved = buffer("saved", 3), x = buffer("x");
  out_.repeat({.count = 3, .var = Var::kLayer}, [&] {
    fill(view(saved, {0, 0, 1}));  // 0
    gelu(view(saved), view(x));    // 1
  });
  out_.repeat({.count = 3, .var = Var::kLayer}, [&] {
    gelu(view(saved, {0, 0, 1}), view(x));
  });  // 2
  EXPECT_EQ(result()[saved], (Lifetime{0, 2}));
}

TEST_F(Lifetimes, WhatASlotLacksIsFoundPerLayer) {
  // The loop writes slots 0 to 2, then reads 1 to 3.
  const BufferId saved = buffer("saved", 4), x = buffer("x");
  out_.repeat({.count = 3, .var = Var::kLayer}, [&] { fill(view(saved, {0, 0, 1})); });
  out_.repeat({.count = 3, .var = Var::kLayer}, [&] { gelu(view(saved, {1, 0, 1}), view(x)); });
  EXPECT_THAT([&] { result(); }, ThrowsMessage<Error>(HasSubstr("'saved' is not persistent")));
}

TEST_F(Lifetimes, ReadingBeforeTheStepWritesIsAnError) {
  const BufferId x = buffer("sum"), y = buffer("y");
  fill(view(y));
  add(view(y), view(x));
  EXPECT_THAT([&] { result(); },
              ThrowsMessage<Error>(HasSubstr("forward.layer.compute reads it before the step")));
}

// The inner loop carries it, and the outer one, and so would the steps.
TEST_F(Lifetimes, WhatAnInnerLoopCarriesIsLookedAtInTheOuterOneToo) {
  const BufferId x = buffer("sum"), y = buffer("y");
  fill(view(y));
  out_.repeat({.count = 2, .var = Var::kMicro}, [&] {
    out_.repeat({.count = 2, .var = Var::kLayer}, [&] { add(view(y), view(x)); });
  });
  EXPECT_THAT([&] { result(); }, ThrowsMessage<Error>(HasSubstr("reads it before the step")));
}

TEST_F(Lifetimes, BytesCountNotBuffers) {
  const BufferId whole = buffer("whole"), y = buffer("y");
  fill(view(whole, {}, 0, 32));
  fill(view(whole, {}, 32, 32));
  gelu(view(whole), view(y));
  EXPECT_EQ(result()[whole], (Lifetime{0, 2}));
}

TEST_F(Lifetimes, BytesNobodyWroteAreMissed) {
  const BufferId whole = buffer("whole"), y = buffer("y");
  fill(view(whole, {}, 0, 32));
  gelu(view(whole), view(y));
  EXPECT_THAT([&] { result(); }, ThrowsMessage<Error>(HasSubstr("'whole'")));
}

// The first rank writes what it reads, the last one does not.
TEST_F(Lifetimes, TheBytesOfTheLastRankCountToo) {
  const BufferId whole = buffer("whole"), y = buffer("y");
  using testing_support::mesh_of;
  for (const std::size_t axis : {testing_support::kTp, testing_support::kShard}) {
    View part = view(whole, {}, 0, 16);
    part.strides[axis] = part.bytes().value;
    out_ = ProgramBuilder();
    buffer("whole"), buffer("y");
    fill(view(whole, {}, 0, 32));
    gelu(part, view(y, {}, 0, 16));
    const Program program = out_.finish();
    const bool over_dp = axis == testing_support::kShard;
    EXPECT_NO_THROW(lifetimes(program, mesh_of({.dp = 2, .tp = 2})));
    EXPECT_NO_THROW(lifetimes(program, mesh_of({.dp = over_dp ? 2 : 4, .tp = over_dp ? 4 : 2})));
    EXPECT_THROW(lifetimes(program, mesh_of({.dp = over_dp ? 4 : 1, .tp = over_dp ? 1 : 4})),
                 Error);
  }
}

TEST_F(Lifetimes, ARingPickedByTheTileLivesThroughTheLoopOverTiles) {
  const BufferId ring = buffer("ring", 2), other = buffer("other");
  const SlotExpr slot{.per_layer = 4, .per_tile = 1};
  out_.repeat({.count = 3, .var = Var::kLayer}, [&] {
    fill(view(other));  // 0
    out_.repeat({.count = 4, .var = Var::kTile}, [&] {
      fill(view(ring, slot));               // 1
      gelu(view(ring, slot), view(other));  // 2
    });
    fill(view(other));  // 3
  });
  EXPECT_EQ(result()[ring], (Lifetime{1, 2}));
}

TEST_F(Lifetimes, LongLoopsAreDecidedByOnePeriod) {
  const BufferId ring = buffer("ring", 3), x = buffer("x");
  out_.repeat({.count = 1'000'000'000, .var = Var::kMicro}, [&] {
    fill(view(ring, {0, 1, 0}));           // 0
    gelu(view(ring, {0, 1, 0}), view(x));  // 1
  });
  fill(view(x));
  EXPECT_EQ(result()[ring], (Lifetime{0, 1}));
}

TEST_F(Lifetimes, LivePeakIsTheFullestPosition) {
  const BufferId a = buffer("a"), b = buffer("b", 3), c = buffer("c");
  fill(view(a));           // 0: a
  gelu(view(a), view(b));  // 1: a b
  gelu(view(b), view(c));  // 2: b c
  fill(view(c));           // 3: c
  const Program program = out_.finish();
  const auto peaks = live_peaks(program, lifetimes(program, Mesh{}));
  EXPECT_EQ(peaks[0].bytes, Bytes{4 * 256});
  EXPECT_EQ(peaks[0].at, 1u);
  EXPECT_EQ(peaks[1].bytes, Bytes{0});
}

}  // namespace
}  // namespace zplan
