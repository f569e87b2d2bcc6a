// What verify says of messages between stages, of groups, and of everything that waits in a circle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/core/error.h"
#include "planner/program/verify/verify.h"
#include "tests/support/meshes.h"
#include "tests/support/verify_stage.h"

namespace zplan {
namespace {

using namespace testing_support;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

// Stage 0 sends x up and gets dx back; stage 1 answers.
struct Pair {
  explicit Pair(std::int32_t sends = 1, std::int64_t floats = kFloats) {
    const View x = first.buffer("x"), dx = first.buffer("dx");
    first.out.repeat({.count = sends, .var = Var::kMicro}, [&] {
      first.fill(Part::kQkv, x);
      first.send(x, 1);
      first.receive(dx, 1, Phase::kBackward);
    });
    View y = second.buffer("y");
    const View dy = second.buffer("dy");
    y.shape = {floats};
    View answer = dy;
    answer.shape = {floats};
    second.receive(y, 0);
    second.gelu(Part::kFc1, y, answer);
    second.fill(Part::kFc2, dy);
    second.send(dy, 0, Phase::kBackward);
  }
  Job job() { return job_of({first.finish(0), second.finish(1)}); }
  Stage first, second;
};

TEST(VerifyCommunication, AcceptsMatchingStages) { EXPECT_THAT(verify(Pair().job()), IsEmpty()); }

TEST(VerifyCommunication, EverySendHasItsReceive) {
  EXPECT_THAT(verify(Pair(2).job()),
              Contains(AllOf(HasSubstr("stage 0: lane send_forward_up: 2 sends to stage 1"),
                             HasSubstr("stage 1 has 1 receives from stage 0"),
                             HasSubstr("forward.boundary.send[m1,l0]"), HasSubstr("left over"))));
}

TEST(VerifyCommunication, ASendMeetsAReceiveOfItsSize) {
  EXPECT_THAT(verify(Pair(1, kFloats / 2).job()),
              Contains(AllOf(HasSubstr("256 bytes f32 in 'x' meets"), HasSubstr("128 bytes"))));
}

void retype(Stage& stage, View& v, DType dtype) {
  v.shape = {v.bytes().value / size_of(dtype).value};
  v.dtype = stage.out.buffer(v.buffer).dtype = dtype;
}

TEST(VerifyCommunication, ASendMeetsAReceiveOfItsType) {
  const auto received_as = [](DType dtype) {
    Stage first, second;
    const View x = first.buffer("x");
    first.fill(Part::kQkv, x);
    first.send(x, 1);
    View y = second.buffer("y");
    retype(second, y, dtype);
    second.receive(y, 0);
    return verify(job_of({first.finish(0), second.finish(1)}));
  };
  EXPECT_THAT(received_as(DType::kF32), IsEmpty());
  for (const DType other : {DType::kI32, DType::kF64, DType::kBf16})
    EXPECT_THAT(received_as(other),
                Contains(AllOf(HasSubstr("256 bytes f32 in 'x' meets"),
                               HasSubstr("256 bytes " + std::string(name(other))))));
}

TEST(VerifyCommunication, StagesThatWaitForEachOtherAreStuck) {
  // Stage 0 sends x only after it has received the answer to it.
  Stage first, second;
  const View x = first.buffer("x"), dx = first.buffer("dx");
  first.receive(dx, 1, Phase::kBackward);
  first.gelu(Part::kQkv, dx, x);
  first.send(x, 1);
  const View y = second.buffer("y"), dy = second.buffer("dy");
  second.receive(y, 0);
  second.gelu(Part::kFc1, y, dy);
  second.send(dy, 0, Phase::kBackward);
  const auto findings = verify(job_of({first.finish(0), second.finish(1)}));
  EXPECT_THAT(findings, Contains(HasSubstr("stage 0: waits in a circle")));
  EXPECT_THAT(findings,
              Contains(AllOf(HasSubstr("stage 1: waits in a circle"),
                             HasSubstr("receive_forward_up at forward.boundary.receive[m0,l0] "
                                       "(waits for its partner)"))));
}

// Stage 0 receives two answers, stage 1 answers as soon as it has x. `x_first`: stage 0 launches
// the send of x before the receives.
Job two_answers(bool x_first) {
  Stage first, second;
  const View x = first.buffer("x"), dx = first.buffer("dx", 2);
  const auto send_x = [&] {
    first.fill(Part::kQkv, x);
    first.send(x, 1);
  };
  if (x_first) send_x();
  first.out.repeat({.count = 2, .var = Var::kMicro}, [&] {
    first.receive(at_slot(dx, {0, 1, 0}), 1, Phase::kBackward);
  });
  if (!x_first) send_x();
  const View y = second.buffer("y"), dy = second.buffer("dy");
  second.receive(y, 0);
  second.gelu(Part::kFc1, y, dy);
  second.out.repeat({.count = 2, .var = Var::kMicro},
                    [&] { second.send(dy, 0, Phase::kBackward); });
  return job_of({first.finish(0), second.finish(1)});
}

TEST(VerifyCommunication, TheHostThatWaitsForALaneLaunchesNothingElse) {
  EXPECT_THAT(verify(two_answers(true)), IsEmpty());
  EXPECT_THAT(
      verify(two_answers(false)),
      Contains(AllOf(HasSubstr("stage 0: waits in a circle"),
                     HasSubstr("send_forward_up at forward.boundary.send[m0,l0] (not launched)"))));
}

// Stage 0 sends `micros` times, the last `odd` of them another size; stage 1 receives all alike.
Job long_exchange(std::int32_t micros, std::int32_t odd) {
  Stage first, second;
  const View x = first.buffer("x"), y = second.buffer("y");
  View half = x;
  half.shape = {kFloats / 2};
  first.fill(Part::kQkv, x);
  const auto send = [&](std::int32_t from, std::int32_t count, const View& v) {
    first.out.repeat({.count = count, .var = Var::kMicro, .first = from},
                     [&] { first.send(v, 1); });
  };
  send(0, micros - odd, x);
  send(micros - odd, odd, half);
  second.out.repeat({.count = micros, .var = Var::kMicro}, [&] { second.receive(y, 0); });
  return job_of({first.finish(0), second.finish(1)});
}

TEST(VerifyCommunication, LongExchangesAreComparedByPeriod) {
  constexpr std::int32_t kMicros = 1 << 20;
  EXPECT_THAT(verify(long_exchange(kMicros, 0)), IsEmpty());
  for (const std::int32_t odd : {1, 7})
    EXPECT_THAT(verify(long_exchange(kMicros, odd)),
                Contains(HasSubstr("of 128 bytes f32 in 'x' meets forward.boundary.receive")))
        << odd;
}

namespace groups = testing_support::groups;

Job two_groups(bool swapped) {
  std::vector<RankClass> classes;
  for (const std::int32_t stage : {0, 1}) {
    Stage s;
    const View a = s.buffer("a"), b = s.buffer("b");
    s.fill(Part::kQkv, a);
    s.fill(Part::kFc1, b);
    const auto reduce = [&](Part part, const Group& group, const View& v) {
      s.out.collective(role(part, Action::kReduce), Lane::kCommReduce, CollectiveKind::kAllReduce,
                       group, v, v);
    };
    const bool world_first = swapped && stage == 1;
    if (world_first) reduce(Part::kGradientNorm, groups::kWorld, b);
    reduce(Part::kEmbedding, groups::kEmbedding, a);
    if (!world_first) reduce(Part::kGradientNorm, groups::kWorld, b);
    classes.push_back(s.finish(stage));
  }
  return job_of(std::move(classes));
}

TEST(VerifyCommunication, GroupsThatSpanStagesTakeTurnsInOneOrder) {
  EXPECT_THAT(verify(two_groups(false)), IsEmpty());
  EXPECT_THAT(
      verify(two_groups(true)),
      Contains(AllOf(HasSubstr("stage 1: waits in a circle"),
                     HasSubstr("comm_reduce at forward.gradient_norm.reduce[m0,l0] (waits"))));
}

TEST(VerifyCommunication, MembersOfAGroupAgree) {
  Job job = two_groups(false);
  Program& program = job.classes[1].program;
  for (View& v : program.views) v.shape = {kFloats / 2};
  EXPECT_THAT(verify(job), Contains(HasSubstr("stage 1: lane comm_reduce: forward.gradient_norm."
                                              "reduce[m0,l0] of 128 bytes f32 in 'b' meets")));
}

TEST(VerifyCommunication, MembersOfAGroupAgreeOnTheTypeAndTheKind) {
  const auto second_stage = [](DType dtype, CollectiveKind kind) {
    std::vector<RankClass> classes;
    for (const std::int32_t stage : {0, 1}) {
      Stage s;
      View whole = s.buffer("whole"), part = s.buffer("part");
      if (stage == 1) retype(s, whole, dtype);
      if (stage == 1) retype(s, part, dtype);
      part.shape = {part.shape.elements() / 4};  // of four ranks
      s.fill(Part::kQkv, part);
      const bool gathers = stage == 1 && kind == CollectiveKind::kAllGather;
      s.out.collective(role(Part::kGradientNorm, Action::kReduce), Lane::kCommReduce,
                       stage == 1 ? kind : CollectiveKind::kAllReduce, groups::kWorld, part,
                       gathers ? whole : part);
      classes.push_back(s.finish(stage));
    }
    return verify(job_of(std::move(classes)));
  };
  const auto meets = Contains(AllOf(HasSubstr("stage 1: lane comm_reduce"), HasSubstr("meets")));
  EXPECT_THAT(second_stage(DType::kF32, CollectiveKind::kAllReduce), IsEmpty());
  EXPECT_THAT(second_stage(DType::kF64, CollectiveKind::kAllReduce), meets);
  EXPECT_THAT(second_stage(DType::kBf16, CollectiveKind::kAllReduce), meets);
  EXPECT_THAT(second_stage(DType::kF32, CollectiveKind::kAllGather), meets);
}

// Eight ranks: dp 4 with two shards of two ranks each, tp 2.
TEST(VerifyCommunication, CollectivesKnowTheirGroups) {
  const auto gather = [](const Group& group, Lane lane, std::int64_t ranks, std::size_t axis) {
    Stage s;
    View whole = s.buffer("a");
    s.fill(Part::kQkv, whole);
    View shard = whole;
    shard.shape = {kFloats / ranks};
    shard.strides[axis] = shard.bytes().value;
    s.out.collective(role(Part::kQkv, Action::kGather), lane, CollectiveKind::kAllGather, group,
                     shard, whole);
    Job job = job_of({s.finish()}, 4);
    job.mesh = testing_support::mesh_of({.dp = 4, .tp = 2, .shards = 2});
    return verify(job);
  };
  const Lane lane = Lane::kCommGather, tensor = Lane::kCommTensor;
  EXPECT_THAT(gather(groups::kShard, lane, 2, testing_support::kShard), IsEmpty());
  EXPECT_THAT(gather(groups::kTensor, tensor, 2, testing_support::kTp), IsEmpty());
  const auto wrong_part = Contains(HasSubstr("in place in 'a', but not on the rank's own part"));
  EXPECT_THAT(gather(groups::kShard, lane, 2, testing_support::kTp), wrong_part);
  EXPECT_THAT(gather(groups::kTensor, tensor, 2, testing_support::kShard), wrong_part);
  EXPECT_THAT(gather(groups::kReplica, lane, 2, testing_support::kShard), wrong_part);
  EXPECT_THAT(gather(groups::kData, lane, 4, testing_support::kShard), wrong_part);
  EXPECT_THAT(gather(groups::kShard, lane, 4, testing_support::kShard),
              Contains(HasSubstr("all_gather over 2 ranks of 16 elements")));
  EXPECT_THAT(gather(groups::kWorld, tensor, 8, testing_support::kShard), wrong_part);
}

TEST(VerifyCommunication, AnAllToAllIsOfEqualPartsAndNeverInPlace) {
  const auto exchange = [](std::int64_t elements, bool in_place) {
    Stage s;
    View from = s.buffer("a");
    from.shape = {elements};
    s.fill(Part::kQkv, from);
    View to = in_place ? from : s.buffer("b");
    to.shape = {elements};
    s.out.collective(role(Part::kQkv, Action::kExchange), Lane::kCommTensor,
                     CollectiveKind::kAllToAll, groups::kTensor, from, to);
    Job job = job_of({s.finish()}, 4);
    job.mesh = testing_support::mesh_of({.dp = 4, .tp = 2, .shards = 2});
    return verify(job);
  };
  EXPECT_THAT(exchange(8, false), IsEmpty());
  EXPECT_THAT(exchange(7, false), Contains(HasSubstr("which 2 ranks cannot exchange")));
  EXPECT_THAT(exchange(8, true), Contains(HasSubstr("in place in 'a'")));
}

TEST(VerifyCommunication, ThrowsAnInternalErrorWithTheFirstFindings) {
  EXPECT_NO_THROW(verify_or_throw(Pair().job()));
  EXPECT_THAT([] { verify_or_throw(Pair(2).job()); },
              ThrowsMessage<Error>(
                  AllOf(HasSubstr("the job does not verify: stage 0"), HasSubstr("left over"))));
}

TEST(VerifyCommunication, AJobHasOneClassPerStage) {
  Job job = Pair().job();
  job.mesh = testing_support::mesh_of({.dp = 2, .pp = 3});
  EXPECT_THAT(verify(job), ElementsAre("job: 2 rank classes for 3 stages"));
}

}  // namespace
}  // namespace zplan
