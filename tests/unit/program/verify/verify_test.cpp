#include "planner/program/verify/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/program/instances/edges.h"
#include "planner/program/verify/shorten.h"
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
using ::testing::Not;

// Offsets by hand; every tier gets a slab of its own.
void place_at(Job& job, std::vector<std::int64_t> offsets, std::int64_t slab) {
  Placement& placement = job.classes[0].placement;
  for (const std::int64_t offset : offsets) placement.offset.push_back({offset});
  placement.slab.fill({slab});
  job.placed = true;
}

namespace groups = testing_support::groups;

TEST(Verify, AcceptsAChainOverLanes) {
  Stage s;
  const View a = s.buffer("a"), b = s.buffer("b"), c = s.buffer("c");
  s.fill(Part::kQkv, a);
  s.gelu(Part::kFc1, a, b, Lane::kCommReduce);
  s.gelu(Part::kFc2, b, c);
  EXPECT_THAT(verify(job_of(s)), IsEmpty());
}

TEST(Verify, AMissingEdgeIsNamedWithBothOperationsAndTheBuffer) {
  Stage s;
  const View a = s.buffer("a"), b = s.buffer("b");
  s.fill(Part::kQkv, a);
  s.gelu(Part::kFc1, a, b, Lane::kCommReduce);
  Job job = job_of(s);
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
  Job job = job_of(s);
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
  Job job = job_of(s);
  const Edge last_step{.node = 3, .level = 0, .delta = 1};
  set_edges(job.classes[0].program, {{last_step}, {{.node = 0}}, {{.node = 1}}, {}});
  EXPECT_THAT(verify(job), IsEmpty());
  set_edges(job.classes[0].program, {{last_step}, {{.node = 0}}, {}, {}});
  EXPECT_THAT(verify(job), Contains(HasSubstr("forward.qkv.download[m0,l0] reads 'a' without")));
}

TEST(Verify, AStepMayReadWhatTheLastOneLeftInAPersistentBuffer) {
  for (const bool persistent : {false, true}) {
    Stage s;
    const View held = s.buffer("held"), a = s.buffer("a");
    s.out.buffer(held.buffer).persistent = persistent;
    s.gelu(Part::kQkv, held, a);
    s.gelu(Part::kFc1, a, held);
    const auto findings = verify(job_of(s));
    if (persistent) {
      EXPECT_THAT(findings, IsEmpty());
    } else {
      EXPECT_THAT(findings, Contains(HasSubstr("reads 'held' before it is written")));
    }
  }
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
  EXPECT_THAT(verify(job_of(s)),
              ElementsAre("stage 0: forward.gelu.compute[m0,l0] reads 'a' after "
                          "forward.head.input_gradient[m0,l0] used it as scratch"));
}

TEST(Verify, ContentOfAnotherBufferOnTheSameBytesIsNoContent) {
  Stage s;
  const View a = s.buffer("a"), b = s.buffer("b"), c = s.buffer("c");
  s.fill(Part::kQkv, a);
  s.fill(Part::kFc1, b);
  s.gelu(Part::kFc2, a, c);
  Job job = job_of(s);
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
  Job job = job_of(s);
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
  a.strides[testing_support::kShard] = a.bytes().value;
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
  a.strides[testing_support::kShard] = a.bytes().value;
  s.gelu(Part::kFc1, a, half);  // rank 1 reads the second
  EXPECT_THAT(verify(job_of(s)), Contains(HasSubstr("reads 'a' before it is written")));
}

// Quarters of one buffer: `from` and `to` at rank 0, each further by its stride on rank 1.
TEST(Verify, OperandsOfAKernelAreApartOnEveryRank) {
  constexpr std::int64_t kQuarter = kFloats / 4;
  const auto gelu = [](std::int64_t from, std::int64_t from_stride, std::int64_t to,
                       std::int64_t to_stride, std::size_t axis) {
    Stage s;
    View a = s.buffer("a");
    const Bytes quarter = a.bytes() / 4;
    s.fill(Part::kQkv, a);
    a.shape = {kQuarter};
    View x = a, y = a;
    x.offset = quarter * from;
    x.strides[axis] = (quarter * from_stride).value;
    y.offset = quarter * to;
    y.strides[axis] = (quarter * to_stride).value;
    s.gelu(Part::kFc1, x, y);
    Job job = job_of({s.finish()});
    job.mesh = axis == testing_support::kTp ? testing_support::mesh_of({.tp = 2})
                                            : testing_support::mesh_of({.dp = 2});
    return verify(job);
  };
  const auto refused = Contains(HasSubstr("writes 'a' where operand 0 lies"));
  for (const std::size_t axis : {testing_support::kShard, testing_support::kTp}) {
    EXPECT_THAT(gelu(0, 1, 2, 1, axis), IsEmpty());
    EXPECT_THAT(gelu(0, 2, 1, 2, axis), IsEmpty()) << "side by side on both ranks";
    EXPECT_THAT(gelu(0, 1, 1, 1, axis), Not(refused)) << "the same bytes, but not on one rank";
    EXPECT_THAT(gelu(0, 1, 1, 0, axis), refused) << "on rank 1";
    EXPECT_THAT(gelu(1, 0, 0, 1, axis), refused) << "on rank 1";
    EXPECT_THAT(gelu(0, 0, 0, 1, axis), refused) << "in place on rank 0 only";
    EXPECT_THAT(gelu(0, 1, 0, 1, axis), IsEmpty()) << "in place on both";
  }
}

// The sum may lie on a summand; on the bias, whose elements all rows read, it may not.
TEST(Verify, WhatIsWrittenLiesOnlyWhereTheRowOfItsKernelSays) {
  const auto add = [](bool on_bias) {
    Stage s;
    View x = s.buffer("x"), y = s.buffer("y");
    const View bias = s.buffer("bias");
    s.fill(Part::kQkv, x);
    s.fill(Part::kFc1, y);
    s.fill(Part::kFc2, bias);
    for (View* v : {&x, &y}) v->shape = {1, kFloats};
    View out = on_bias ? bias : x;
    out.shape = x.shape;
    s.out.kernel(testing_support::role(Part::kMlpResidual), Lane::kCompute,
                 KernelId::kBiasResidualAdd, {read(x), read(y), read(bias), write(out)});
    return verify(job_of(s));
  };
  EXPECT_THAT(add(false), IsEmpty());
  EXPECT_THAT(add(true), Contains(HasSubstr("writes 'bias' where operand 2 lies")));
}

TEST(Verify, KernelsWithoutTheAttributesTheyNeedAreRefused) {
  const auto rope = [](bool has_attributes) {
    Stage s;
    View x = s.buffer("x");
    s.fill(Part::kQkv, x);
    x.shape = {1, 1, 1, kFloats};
    const Attributes heads{1, 10000, 1};
    s.out.kernel(testing_support::role(Part::kRope), Lane::kCompute, KernelId::kRope, {update(x)},
                 heads);
    RankClass one = s.finish();
    if (!has_attributes) one.program.attributes.clear();
    return verify(job_of({one}));
  };
  EXPECT_THAT(rope(true), IsEmpty());
  EXPECT_THAT(rope(false), Contains(HasSubstr("rope has no attributes")));
}

TEST(Verify, EveryRankOfATensorParallelGroupIsWalked) {
  for (const std::int64_t written : {1, 2, 3, 4}) {
    Stage s;
    View part = s.buffer("a"), whole = part;
    View quarter = s.buffer("b");
    part.shape = quarter.shape = {kFloats / 4};
    part.strides[testing_support::kTp] = part.bytes().value;
    whole.shape = {kFloats / 4 * written};
    s.fill(Part::kQkv, whole);
    s.gelu(Part::kFc1, part, quarter);  // rank k reads the k-th quarter
    Job job = job_of(s);
    job.mesh = testing_support::mesh_of({.dp = 2, .tp = 4});
    const auto findings = verify(job);
    if (written == 4) {
      EXPECT_THAT(findings, IsEmpty());
    } else {
      EXPECT_THAT(findings, Contains(HasSubstr("reads 'a' before it is written"))) << written;
    }
    job.mesh = testing_support::mesh_of({.dp = 2, .tp = 5});
    EXPECT_THAT(verify(job), Contains(HasSubstr("view of 'a' reaches from 0 to 320 in a slot")));
  }
}

TEST(Verify, CopiesTakeTheLaneBetweenTheirTiersAndFilesOnlyMeetTheHost) {
  const auto copy = [](Tier from, Tier to, Lane lane, std::int64_t offset = 0) {
    Stage s;
    View a = s.buffer("a", 1, from), b = s.buffer("b", 1, to);
    a.shape = b.shape = {kFloats / 2};
    b.offset = {offset};
    s.out.buffer(a.buffer).persistent = true;
    s.out.copy(role(Part::kQkv), a, b);
    RankClass c = s.finish();
    c.program.nodes[0].lane = lane;
    c.homes.push_back({0, {a.buffer}, {a.buffer}, {{a.buffer}, {a.buffer}}});
    Job job = job_of({c});
    job.units.push_back(
        {.name = "unit", .shard_elements = kFloats, .flat_elements = kFloats, .tensors = {}});
    return verify(job);
  };
  EXPECT_THAT(copy(Tier::kGpu, Tier::kGpu, Lane::kCompute), IsEmpty());
  EXPECT_THAT(copy(Tier::kGpu, Tier::kCpu, Lane::kD2h, 128), IsEmpty());
  EXPECT_THAT(copy(Tier::kCpu, Tier::kGpu, Lane::kH2d), IsEmpty());
  EXPECT_THAT(copy(Tier::kCpu, Tier::kCpu, Lane::kCpu), IsEmpty());
  EXPECT_THAT(copy(Tier::kNvme, Tier::kCpu, Lane::kIoRead), IsEmpty());
  EXPECT_THAT(copy(Tier::kCpu, Tier::kNvme, Lane::kIoWrite), IsEmpty());
  EXPECT_THAT(copy(Tier::kNvme, Tier::kCpu, Lane::kIoWrite),
              Contains(HasSubstr("from nvme to cpu memory belongs on lane io_read, got io_write")));
  EXPECT_THAT(copy(Tier::kNvme, Tier::kGpu, Lane::kH2d),
              Contains(HasSubstr("no copy leads from nvme to gpu memory")));
  EXPECT_THAT(copy(Tier::kNvme, Tier::kNvme, Lane::kIoRead), Contains(HasSubstr("no copy leads")));
  EXPECT_THAT(copy(Tier::kCpu, Tier::kNvme, Lane::kIoWrite, 128),
              Contains(HasSubstr("starts within a slot of 'b'")));
}

TEST(Verify, TilesTellOperationsApart) {
  const auto tiles = [](std::int32_t count) {
    Stage s;
    const View a = s.buffer("a");
    s.out.repeat({.count = count, .var = Var::kTile}, [&] { s.fill(Part::kQkv, a); });
    return verify(job_of(s));
  };
  EXPECT_THAT(tiles(256), IsEmpty());
  EXPECT_THAT(tiles(257), Contains(HasSubstr("loop values outside what an id can hold")));
}

TEST(Verify, LayersComeInWholeUnits) {
  const auto units = [](std::int32_t together, std::int32_t layers, std::int32_t members,
                        Repeat loop = {.count = 2, .var = Var::kLayer}) {
    Stage s;
    const View a = s.buffer("a");
    s.out.repeat(loop, [&] {
      for (std::int32_t member = 0; member < members; ++member) {
        s.out.set_member(member);
        s.fill(Part::kQkv, a);
      }
    });
    RankClass c = s.finish();
    c.layers = {{0, layers}};
    c.program.unit_layers = together;
    return verify(job_of({c}));
  };
  EXPECT_THAT(units(2, 4, 2), IsEmpty());
  EXPECT_THAT(units(0, 4, 1), Contains(HasSubstr("layer loops go through 0 layers at a time")));
  EXPECT_THAT(units(2, 3, 2), Contains(HasSubstr("3 layers from 0 on do not come 2 at a time")));
  EXPECT_THAT(units(2, 4, 3), Contains(HasSubstr("is of layer 2 of 2")));
  EXPECT_THAT(units(2, 4, 3, {.count = 2, .var = Var::kMicro}), IsEmpty())
      << "named by a layer, not one of a unit";
  const Repeat down{.count = 1, .var = Var::kLayer, .first = 0, .step = -1};
  EXPECT_THAT(units(2, 4, 4, down), IsEmpty()) << "some are of the iteration before";
  EXPECT_THAT(units(2, 4, 5, down), Contains(HasSubstr("is of layer 4 of 2")));
  Stage s;
  s.out.buffer(s.buffer("state").buffer).persistent = true;
  RankClass c = s.finish();
  c.homes.push_back({0, {0}, {0}, {{0}, {0}}});
  Job job = job_of({c});
  job.units.push_back({.name = "unit",
                       .shard_elements = kFloats,
                       .flat_elements = kFloats,
                       .tensors = std::vector<Tensor>(1)});
  EXPECT_THAT(verify(job), IsEmpty());
  job.units[0].tensors[0].member = 1;
  EXPECT_THAT(verify(job), Contains(HasSubstr("tensor '' is of layer 1 of 1")));
}

TEST(Verify, OwnersAreMembers) {
  const auto owned = [](std::int32_t member, OpKind kind) {
    Stage s;
    const View a = s.buffer("a");
    s.out.set_member(member);
    s.out.set_owners(groups::kShard);
    s.fill(Part::kQkv, a);
    RankClass c = s.finish();
    c.layers = {{0, 4}};
    c.program.unit_layers = 4;
    if (kind == OpKind::kMark) {
      c.program.nodes[0].kind = kind;
      c.program.nodes[0].operands_end = c.program.nodes[0].operands_begin;
    }
    return verify(job_of({c}, 2));
  };
  EXPECT_THAT(owned(1, OpKind::kKernel), IsEmpty());
  EXPECT_THAT(owned(2, OpKind::kKernel), Contains(HasSubstr("is of member 2 of 2")));
  EXPECT_THAT(owned(1, OpKind::kMark), Contains(HasSubstr("only kernels and copies are of one")));
}

TEST(Verify, RootsAreMembers) {
  const auto roots = [](CollectiveKind kind, const Group& group, std::int32_t member,
                        std::int64_t out_elements = kFloats) {
    Stage s;
    const View a = s.buffer("a");
    View b = s.buffer("b");
    b.shape = {out_elements};
    s.fill(Part::kQkv, a);
    s.out.set_member(member);
    s.out.collective(role(Part::kLayer, Action::kGather), Lane::kCommGather, kind, group, a, b);
    RankClass c = s.finish();
    c.layers = {{0, 4}};
    c.program.unit_layers = 4;
    Job job = job_of({c}, 2);
    return verify(job);
  };
  for (const CollectiveKind kind : {CollectiveKind::kBroadcast, CollectiveKind::kReduce}) {
    EXPECT_THAT(roots(kind, groups::kData, 1), IsEmpty());
    EXPECT_THAT(roots(kind, groups::kShard, 1), IsEmpty());
    EXPECT_THAT(roots(kind, groups::kData, 2), Contains(HasSubstr("is of member 2 of 2")));
    EXPECT_THAT(roots(kind, groups::kReplica, 1), Contains(HasSubstr("is of member 1 of 1")));
    EXPECT_THAT(roots(kind, groups::kData, 0, kFloats / 2),
                Contains(HasSubstr("over 2 ranks of 64 elements in 'a' into 32")));
  }
}

// A two-slot ring filled on one lane and emptied on another, over many micro-batches.
Job ring_job(std::int32_t micros) {
  Stage s;
  const View ring = at_slot(s.buffer("ring", 2), {0, 1, 0}), x = s.buffer("x");
  s.out.repeat({.count = micros, .var = Var::kMicro}, [&] {
    s.fill(Part::kQkv, ring);
    s.gelu(Part::kFc1, ring, x, Lane::kCommReduce);
  });
  return job_of(s);
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

TEST(Verify, TwoInstancesOfAStepHaveDifferentIds) {
  Stage s;
  const View a = s.buffer("a");
  s.out.repeat({.count = 3, .var = Var::kMicro}, [&] { s.fill(Part::kQkv, a); });
  s.out.repeat({.count = 2, .var = Var::kMicro, .first = 2}, [&] { s.fill(Part::kQkv, a); });
  EXPECT_THAT(verify(job_of(s)),
              ElementsAre("stage 0: nodes 0 and 1 both have the id forward.qkv.zero[m2,l0]"));
}

TEST(Verify, ALoopWithoutVariableRepeatsItsIds) {
  Stage s;
  const View a = s.buffer("a");
  s.out.repeat({.count = 3}, [&] { s.fill(Part::kQkv, a); });
  EXPECT_THAT(verify(job_of(s)), Contains(HasSubstr("two instances the same id")));
}

}  // namespace
}  // namespace zplan
