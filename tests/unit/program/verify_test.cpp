#include "planner/program/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/core/error.h"
#include "planner/lower/program_builder.h"
#include "planner/program/edges.h"
#include "planner/program/verify_operands.h"
#include "planner/program/verify_shorten.h"

namespace zplan {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

constexpr std::int64_t kFloats = 64;

Role role(Part part, Action action = Action::kCompute, Phase phase = Phase::kForward) {
  return {phase, part, action};
}

// One stage under construction.
class Stage {
 public:
  View buffer(const char* name, std::int32_t slots = 1, Tier tier = Tier::kGpu) {
    View v;
    v.buffer = out.add(
        {.name = name, .slot_size = size_of(DType::kF32) * kFloats, .slots = slots, .tier = tier});
    v.shape = {kFloats};
    return v;
  }
  void fill(Part part, const View& to, Lane lane = Lane::kCompute) {
    out.kernel(role(part, Action::kZero), lane, KernelId::kFillZero, {write(to)});
  }
  void gelu(Part part, const View& from, const View& to, Lane lane = Lane::kCompute) {
    out.kernel(role(part), lane, KernelId::kGeluForward, {read(from), write(to)});
  }
  RankClass finish(std::int32_t stage = 0) {
    RankClass result;
    result.stage = stage;
    result.program = out.finish();
    return result;
  }

  ProgramBuilder out;
};

Job job_of(std::vector<RankClass> classes, std::int32_t dp = 2) {
  Job job;
  job.dp = dp;
  job.pp = static_cast<std::int32_t>(classes.size());
  job.classes = std::move(classes);
  return job;
}

// Offsets by hand; every tier gets a slab of its own.
void place_at(Job& job, std::vector<std::int64_t> offsets, std::int64_t slab) {
  Placement& placement = job.classes[0].placement;
  for (const std::int64_t offset : offsets) placement.offset.push_back({offset});
  placement.slab.fill({slab});
  job.placed = true;
}

View at_slot(View v, SlotExpr slot) {
  v.slot = slot;
  return v;
}

TEST(Verify, AcceptsAChainOverLanes) {
  Stage s;
  const View a = s.buffer("a"), b = s.buffer("b"), c = s.buffer("c");
  s.fill(Part::kQkv, a);
  s.gelu(Part::kFc1, a, b, Lane::kCommReduce);
  s.gelu(Part::kFc2, b, c);
  EXPECT_THAT(verify(job_of({s.finish()})), IsEmpty());
}

TEST(Verify, AMissingEdgeIsNamedWithBothOperationsAndTheBuffer) {
  Stage s;
  const View a = s.buffer("a"), b = s.buffer("b");
  s.fill(Part::kQkv, a);
  s.gelu(Part::kFc1, a, b, Lane::kCommReduce);
  Job job = job_of({s.finish()});
  set_edges(job.classes[0].program, {{}, {}});
  EXPECT_THAT(verify(job),
              Contains("stage 0: forward.fc1.compute[m0,l0] reads 'a' without waiting for "
                       "forward.qkv.zero[m0,l0], which writes it"));
}

TEST(Verify, TheNextStepsWriteWaitsForThisStepsRead) {
  Stage s;
  const View a = s.buffer("a"), b = s.buffer("b");
  s.fill(Part::kQkv, a);
  s.gelu(Part::kFc1, a, b, Lane::kCommReduce);
  Job job = job_of({s.finish()});
  set_edges(job.classes[0].program, {{}, {{.node = 0}}});
  EXPECT_THAT(verify(job), ElementsAre("stage 0: forward.qkv.zero[m0,l0] writes 'a' without "
                                       "waiting for forward.fc1.compute[m0,l0], which reads it"));
}

TEST(Verify, KnowledgePassesAlongLanesAndEdges) {
  Stage s;
  const View a = s.buffer("a"), b = s.buffer("b");
  const View host_a = s.buffer("host.a", 1, Tier::kCpu), host_b = s.buffer("host.b", 1, Tier::kCpu);
  s.fill(Part::kQkv, a);                                       // 0
  s.gelu(Part::kFc1, a, b, Lane::kCommReduce);                 // 1 after 0
  s.out.copy(role(Part::kFc1, Action::kDownload), b, host_b);  // 2 after 1, hence after 0
  s.out.copy(role(Part::kQkv, Action::kDownload), a, host_a);  // 3 on the lane of 2
  Job job = job_of({s.finish()});
  const Edge last_step{.node = 3, .level = 0, .delta = 1};
  set_edges(job.classes[0].program, {{last_step}, {{.node = 0}}, {{.node = 1}}, {}});
  EXPECT_THAT(verify(job), IsEmpty());
  set_edges(job.classes[0].program, {{last_step}, {{.node = 0}}, {}, {}});
  EXPECT_THAT(verify(job), Contains(HasSubstr("forward.qkv.download[m0,l0] reads 'a' without")));
}

TEST(Verify, ScratchLeavesNothingToRead) {
  Stage s;
  const View a = s.buffer("a"), b = s.buffer("b");
  View scratch = a;
  scratch.access = Access::kScratch;
  View x = s.buffer("x"), w = s.buffer("w"), dx = s.buffer("dx");
  x.shape = dx.shape = {8, 8};
  w.shape = {8, 8};
  s.fill(Part::kQkv, x);
  s.fill(Part::kFc1, w);
  s.fill(Part::kFc2, a);
  s.out.kernel(role(Part::kHead, Action::kInputGradient), Lane::kCompute,
               KernelId::kLinearInputGradient, {read(x), read(w), write(dx), scratch});
  s.gelu(Part::kGelu, a, b);
  EXPECT_THAT(verify(job_of({s.finish()})),
              ElementsAre("stage 0: forward.gelu.compute[m0,l0] reads 'a' after "
                          "forward.head.input_gradient[m0,l0] used it as scratch"));
}

TEST(Verify, ContentOfAnotherBufferOnTheSameBytesIsNoContent) {
  Stage s;
  const View a = s.buffer("a"), b = s.buffer("b"), c = s.buffer("c");
  s.fill(Part::kQkv, a);
  s.fill(Part::kFc1, b);
  s.gelu(Part::kFc2, a, c);
  Job job = job_of({s.finish()});
  place_at(job, {0, 256, 512}, 768);
  EXPECT_THAT(verify(job), IsEmpty());
  job.classes[0].placement.offset[1] = {0};
  EXPECT_THAT(verify(job),
              ElementsAre("stage 0: forward.fc2.compute[m0,l0] reads 'a' where "
                          "forward.fc1.zero[m0,l0] has put 'b', which shares its bytes"));
}

TEST(Verify, BuffersOnTheSameBytesMustBeOrdered) {
  Stage s;
  const View a = s.buffer("a"), b = s.buffer("b"), c = s.buffer("c"), d = s.buffer("d");
  s.fill(Part::kQkv, a);
  s.gelu(Part::kFc1, a, b, Lane::kCommReduce);
  s.fill(Part::kFc2, c);
  s.gelu(Part::kGelu, c, d);
  Job job = job_of({s.finish()});
  place_at(job, {0, 256, 0, 512}, 768);
  EXPECT_THAT(verify(job), Contains(AllOf(HasSubstr("forward.fc2.zero[m0,l0] writes 'c'"),
                                          HasSubstr("which reads 'a' on the same bytes"))));
  add_reuse_edges(job.classes[0].program, {{0, 2}});
  EXPECT_THAT(verify(job), IsEmpty());
}

TEST(Verify, EveryDpIndexIsInsideItsSlot) {
  Stage s;
  View a = s.buffer("a");
  const View b = s.buffer("b");
  s.fill(Part::kQkv, a);
  a.shape = {kFloats / 2};
  a.dp_stride = a.bytes();
  View half = b;
  half.shape = {kFloats / 2};
  s.gelu(Part::kFc1, a, half);
  const RankClass rank_class = s.finish();
  EXPECT_THAT(verify(job_of({rank_class}, 2)), IsEmpty());
  EXPECT_THAT(
      verify(job_of({rank_class}, 3)),
      ElementsAre("stage 0: forward.fc1.compute (node 1): view of 'a' reaches from 0 to 384 "
                  "in a slot of 256 bytes"));
}

TEST(Verify, TheLastRankIsWalkedToo) {
  Stage s;
  View a = s.buffer("a");
  const View b = s.buffer("b");
  a.shape = {kFloats / 2};
  View half = b;
  half.shape = a.shape;
  s.fill(Part::kQkv, a);  // the first half
  a.dp_stride = a.bytes();
  s.gelu(Part::kFc1, a, half);  // rank 1 reads the second
  EXPECT_THAT(verify(job_of({s.finish()})), Contains(HasSubstr("reads 'a' before it is written")));
}

// A two-slot ring filled on one lane and emptied on another, over many micro-batches.
Job ring_job(std::int32_t micros) {
  Stage s;
  const View ring = at_slot(s.buffer("ring", 2), {0, 1, 0}), x = s.buffer("x");
  s.out.repeat({.count = micros, .var = Var::kMicro}, [&] {
    s.fill(Part::kQkv, ring);
    s.gelu(Part::kFc1, ring, x, Lane::kCommReduce);
  });
  return job_of({s.finish()});
}

TEST(Verify, LongLoopsCostNoMoreThanShortOnes) {
  EXPECT_THAT(verify(ring_job(1'000'000)), IsEmpty());
}

TEST(Verify, AShortenedLoopShowsTheSameFaults) {
  for (const std::int32_t micros : {7, 8, 1'000'000}) {
    Job job = ring_job(micros);
    for (Edge& edge : job.classes[0].program.edges)
      if (edge.delta == 2) edge.delta = 3;
    EXPECT_THAT(verify(job), Contains(HasSubstr("writes 'ring' without waiting"))) << micros;
  }
}

TEST(Verify, ShorteningKeepsTheSlotsAndEnoughIterations) {
  for (std::int32_t micros = 2; micros < 40; ++micros) {
    const Job job = ring_job(micros);
    const Program& program = job.classes[0].program;
    EXPECT_EQ(micro_period(program), 2);
    const std::int64_t left = largest_micro_loop(shorten(program, 2, 8));
    EXPECT_EQ((micros - left) % 2, 0);
    EXPECT_GE(left, std::min<std::int64_t>(micros, 8));
    EXPECT_LE(left, 9);
  }
}

// Stage 0 sends x up and gets dx back; stage 1 answers.
struct Pair {
  explicit Pair(std::int32_t sends = 1, std::int64_t floats = kFloats) {
    const View x = first.buffer("x"), dx = first.buffer("dx");
    first.out.repeat({.count = sends, .var = Var::kMicro}, [&] {
      first.fill(Part::kQkv, x);
      first.out.send(role(Part::kBoundary, Action::kSend), Lane::kP2pForward, 1, x);
      first.out.receive(role(Part::kBoundary, Action::kReceive, Phase::kBackward),
                        Lane::kP2pBackward, 1, dx);
    });
    View y = second.buffer("y");
    const View dy = second.buffer("dy");
    y.shape = {floats};
    View answer = dy;
    answer.shape = {floats};
    second.out.receive(role(Part::kBoundary, Action::kReceive), Lane::kP2pForward, 0, y);
    second.gelu(Part::kFc1, y, answer);
    second.fill(Part::kFc2, dy);
    second.out.send(role(Part::kBoundary, Action::kSend, Phase::kBackward), Lane::kP2pBackward, 0,
                    dy);
  }
  Job job() { return job_of({first.finish(0), second.finish(1)}); }
  Stage first, second;
};

TEST(Verify, AcceptsMatchingStages) { EXPECT_THAT(verify(Pair().job()), IsEmpty()); }

TEST(Verify, EverySendHasItsReceive) {
  EXPECT_THAT(verify(Pair(2).job()),
              Contains(AllOf(HasSubstr("stage 0: lane p2p_forward: 2 sends to stage 1"),
                             HasSubstr("stage 1 has 1 receives from stage 0"),
                             HasSubstr("forward.boundary.send[m1,l0]"), HasSubstr("left over"))));
}

TEST(Verify, ASendMeetsAReceiveOfItsSize) {
  EXPECT_THAT(verify(Pair(1, kFloats / 2).job()),
              Contains(AllOf(HasSubstr("256 bytes f32 in 'x' meets"), HasSubstr("128 bytes"))));
}

TEST(Verify, StagesThatWaitForEachOtherAreStuck) {
  // Stage 0 sends x only after it has received the answer to it.
  Stage first, second;
  const View x = first.buffer("x"), dx = first.buffer("dx");
  first.out.receive(role(Part::kBoundary, Action::kReceive, Phase::kBackward), Lane::kP2pBackward,
                    1, dx);
  first.gelu(Part::kQkv, dx, x);
  first.out.send(role(Part::kBoundary, Action::kSend), Lane::kP2pForward, 1, x);
  const View y = second.buffer("y"), dy = second.buffer("dy");
  second.out.receive(role(Part::kBoundary, Action::kReceive), Lane::kP2pForward, 0, y);
  second.gelu(Part::kFc1, y, dy);
  second.out.send(role(Part::kBoundary, Action::kSend, Phase::kBackward), Lane::kP2pBackward, 0,
                  dy);
  const auto findings = verify(job_of({first.finish(0), second.finish(1)}));
  EXPECT_THAT(findings, Contains(HasSubstr("stage 0: waits in a circle")));
  EXPECT_THAT(findings, Contains(AllOf(HasSubstr("stage 1: waits in a circle"),
                                       HasSubstr("p2p_forward at forward.boundary.receive[m0,l0] "
                                                 "(waits for its partner)"))));
}

// Stage 0 receives two answers, stage 1 answers as soon as it has x. `x_first`: stage 0 launches
// the send of x before the receives.
Job two_answers(bool x_first) {
  Stage first, second;
  const View x = first.buffer("x"), dx = first.buffer("dx", 2);
  const auto send_x = [&] {
    first.fill(Part::kQkv, x);
    first.out.send(role(Part::kBoundary, Action::kSend), Lane::kP2pForward, 1, x);
  };
  if (x_first) send_x();
  first.out.repeat({.count = 2, .var = Var::kMicro}, [&] {
    first.out.receive(role(Part::kBoundary, Action::kReceive, Phase::kBackward), Lane::kP2pBackward,
                      1, at_slot(dx, {0, 1, 0}));
  });
  if (!x_first) send_x();
  const View y = second.buffer("y"), dy = second.buffer("dy");
  second.out.receive(role(Part::kBoundary, Action::kReceive), Lane::kP2pForward, 0, y);
  second.gelu(Part::kFc1, y, dy);
  second.out.repeat({.count = 2, .var = Var::kMicro}, [&] {
    second.out.send(role(Part::kBoundary, Action::kSend, Phase::kBackward), Lane::kP2pBackward, 0,
                    dy);
  });
  return job_of({first.finish(0), second.finish(1)});
}

TEST(Verify, TheHostThatWaitsForALaneLaunchesNothingElse) {
  EXPECT_THAT(verify(two_answers(true)), IsEmpty());
  EXPECT_THAT(
      verify(two_answers(false)),
      Contains(AllOf(HasSubstr("stage 0: waits in a circle"),
                     HasSubstr("p2p_forward at forward.boundary.send[m0,l0] (not launched)"))));
}

// Stage 0 sends `micros` times, the last `odd` of them another size; stage 1 receives all alike.
Job long_exchange(std::int32_t micros, std::int32_t odd) {
  Stage first, second;
  const View x = first.buffer("x"), y = second.buffer("y");
  View half = x;
  half.shape = {kFloats / 2};
  first.fill(Part::kQkv, x);
  const auto send = [&](std::int32_t from, std::int32_t count, const View& v) {
    first.out.repeat({.count = count, .var = Var::kMicro, .first = from}, [&] {
      first.out.send(role(Part::kBoundary, Action::kSend), Lane::kP2pForward, 1, v);
    });
  };
  send(0, micros - odd, x);
  send(micros - odd, odd, half);
  second.out.repeat({.count = micros, .var = Var::kMicro}, [&] {
    second.out.receive(role(Part::kBoundary, Action::kReceive), Lane::kP2pForward, 0, y);
  });
  return job_of({first.finish(0), second.finish(1)});
}

TEST(Verify, LongExchangesAreComparedByPeriod) {
  constexpr std::int32_t kMicros = 1 << 23;
  EXPECT_THAT(verify(long_exchange(kMicros, 0)), IsEmpty());
  for (const std::int32_t odd : {1, 7})
    EXPECT_THAT(verify(long_exchange(kMicros, odd)),
                Contains(HasSubstr("of 128 bytes f32 in 'x' meets forward.boundary.receive")))
        << odd;
}

Job two_groups(bool swapped) {
  std::vector<RankClass> classes;
  for (const std::int32_t stage : {0, 1}) {
    Stage s;
    const View a = s.buffer("a"), b = s.buffer("b");
    s.fill(Part::kQkv, a);
    s.fill(Part::kFc1, b);
    const auto reduce = [&](Part part, GroupKind group, const View& v) {
      s.out.collective(role(part, Action::kReduce), Lane::kCommReduce, CollectiveKind::kAllReduce,
                       group, v, v);
    };
    const bool world_first = swapped && stage == 1;
    if (world_first) reduce(Part::kGradientNorm, GroupKind::kWorld, b);
    reduce(Part::kEmbedding, GroupKind::kEmbedding, a);
    if (!world_first) reduce(Part::kGradientNorm, GroupKind::kWorld, b);
    classes.push_back(s.finish(stage));
  }
  return job_of(std::move(classes));
}

TEST(Verify, GroupsThatSpanStagesTakeTurnsInOneOrder) {
  EXPECT_THAT(verify(two_groups(false)), IsEmpty());
  EXPECT_THAT(
      verify(two_groups(true)),
      Contains(AllOf(HasSubstr("stage 1: waits in a circle"),
                     HasSubstr("comm_reduce at forward.gradient_norm.reduce[m0,l0] (waits"))));
}

TEST(Verify, MembersOfAGroupAgree) {
  Job job = two_groups(false);
  Program& program = job.classes[1].program;
  for (View& v : program.views) v.shape = {kFloats / 2};
  EXPECT_THAT(verify(job), Contains(HasSubstr("stage 1: lane comm_reduce: forward.gradient_norm."
                                              "reduce[m0,l0] of 128 bytes f32 in 'b' meets")));
}

TEST(Verify, TwoInstancesOfAStepHaveDifferentIds) {
  Stage s;
  const View a = s.buffer("a");
  s.out.repeat({.count = 3, .var = Var::kMicro}, [&] { s.fill(Part::kQkv, a); });
  s.out.repeat({.count = 2, .var = Var::kMicro, .first = 2}, [&] { s.fill(Part::kQkv, a); });
  EXPECT_THAT(verify(job_of({s.finish()})),
              ElementsAre("stage 0: nodes 0 and 1 both have the id forward.qkv.zero[m2,l0]"));
}

TEST(Verify, ALoopWithoutVariableRepeatsItsIds) {
  Stage s;
  const View a = s.buffer("a");
  s.out.repeat({.count = 3}, [&] { s.fill(Part::kQkv, a); });
  EXPECT_THAT(verify(job_of({s.finish()})), Contains(HasSubstr("two instances the same id")));
}

TEST(Verify, ThrowsAnInternalErrorWithTheFirstFindings) {
  EXPECT_NO_THROW(verify_or_throw(Pair().job()));
  EXPECT_THAT([] { verify_or_throw(Pair(2).job()); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("the job does not verify: stage 0"), HasSubstr("left over"))));
}

TEST(Verify, AJobHasOneClassPerStage) {
  Job job = Pair().job();
  job.pp = 3;
  EXPECT_THAT(verify(job), ElementsAre("job: 2 rank classes for 3 stages"));
}

}  // namespace
}  // namespace zplan
