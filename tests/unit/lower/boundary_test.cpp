// What goes from chunk to chunk: around the ring of stages, or along a V that turns on a stage.
#include "planner/lower/boundary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/program/instances/cursor.h"
#include "planner/program/verify/verify.h"

namespace zplan {
namespace {

using testing::ElementsAre;

Job job_of(Schedule schedule, std::int32_t pp) {
  Plan plan;
  plan.kernel_set = "cpu.f32";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.pp = pp;
  plan.schedule = schedule;
  if (schedule == Schedule::kDualPipe) plan.parallel.dp = 2;
  plan.batch = {.global_batch = 2 * pp * plan.parallel.dp, .micro_batch = 1, .sequence = 32};
  ModelConfig model = load_model("tiny-gpt");
  model.layers = 2 * pp;
  return lower(plan, model);
}

// "l0 receive_forward_up -1" of each kind of node that crosses a boundary: the first layer of its
// chunk, its lane, its peer.
std::vector<std::string> crossings(const Job& job, std::size_t stage, Phase phase) {
  const Program& program = job.classes[stage].program;
  const ProgramIndex index(program);
  std::set<std::string> lines;
  for (Cursor at(index, std::nullopt); at->step() == 0; at.advance()) {
    const Node& node = program.nodes[at->node];
    if (node.role.part != Part::kBoundary || node.role.phase != phase) continue;
    std::string line = "l" + std::to_string(node.member) + " " + std::string(name(node.lane));
    if (is_transfer(node.kind))
      line += (node.peer.step > 0 ? " +1" : " -1") + std::string(node.peer.wraps ? " wraps" : "");
    lines.insert(line);
  }
  return {lines.begin(), lines.end()};
}

TEST(Boundaries, OfLoopedChunksGoRoundTheStages) {
  const Job job = job_of(Schedule::kInterleaved, 3);
  EXPECT_THAT(crossings(job, 0, Phase::kForward),
              ElementsAre("l0 send_forward_up +1", "l3 receive_forward_up -1 wraps",
                          "l3 send_forward_up +1"));
  EXPECT_THAT(crossings(job, 2, Phase::kForward),
              ElementsAre("l2 receive_forward_up -1", "l2 send_forward_up +1 wraps",
                          "l5 receive_forward_up -1"));
  EXPECT_THAT(crossings(job, 0, Phase::kBackward),
              ElementsAre("l0 receive_backward_down +1", "l3 receive_backward_down +1",
                          "l3 send_backward_down -1 wraps"));
  EXPECT_THAT(crossings(job, 2, Phase::kBackward),
              ElementsAre("l2 receive_backward_down +1 wraps", "l2 send_backward_down -1",
                          "l5 send_backward_down -1"));
}

TEST(Boundaries, OfAVComeDownAgainAndTurnOnTheLastStage) {
  const Job job = job_of(Schedule::kZeroBubbleV, 3);
  EXPECT_THAT(crossings(job, 0, Phase::kForward),
              ElementsAre("l0 send_forward_up +1", "l5 receive_forward_down +1"));
  EXPECT_THAT(crossings(job, 1, Phase::kForward),
              ElementsAre("l1 receive_forward_up -1", "l1 send_forward_up +1",
                          "l4 receive_forward_down +1", "l4 send_forward_down -1"));
  EXPECT_THAT(crossings(job, 2, Phase::kForward),
              ElementsAre("l2 receive_forward_up -1", "l3 compute", "l3 send_forward_down -1"));
  EXPECT_THAT(crossings(job, 2, Phase::kBackward),
              ElementsAre("l2 send_backward_down -1", "l3 receive_backward_up -1"));
  EXPECT_THAT(crossings(job, 0, Phase::kBackward),
              ElementsAre("l0 receive_backward_down +1", "l5 send_backward_up +1"));
}

// Where the V turns, the two replicas of a pair change places, in both passes; nothing is copied.
TEST(Boundaries, OfAPairOfReplicasGoOnToTheOtherOne) {
  const Job job = job_of(Schedule::kDualPipe, 3);
  EXPECT_THAT(crossings(job, 2, Phase::kForward),
              ElementsAre("l2 receive_forward_up -1", "l3 comm_tensor", "l3 send_forward_down -1"));
  EXPECT_THAT(
      crossings(job, 2, Phase::kBackward),
      ElementsAre("l2 send_backward_down -1", "l3 comm_tensor", "l3 receive_backward_up -1"));
  EXPECT_EQ(crossings(job, 1, Phase::kForward),
            crossings(job_of(Schedule::kDualPipeV, 3), 1, Phase::kForward));
  int exchanges = 0;
  for (const Node& node : job.classes[2].program.nodes) {
    if (node.role.part != Part::kBoundary || node.kind != OpKind::kCollective) continue;
    ++exchanges;
    EXPECT_EQ(node.collective, CollectiveKind::kShift);
    EXPECT_EQ(job.mesh.size(node.group), 2);
  }
  EXPECT_GE(exchanges, 2);
}

// The way out on the first stage is of the other replica's sequences: it loads their targets.
TEST(Boundaries, OfAPairOfReplicasEndAtTheTargetsOfTheOtherOne) {
  const Job job = job_of(Schedule::kDualPipe, 2);
  const Program& program = job.classes[0].program;
  std::set<std::pair<Part, std::vector<std::int64_t>>> first;
  for (const Node& node : program.nodes)
    if (node.kind == OpKind::kKernel && node.kernel == KernelId::kLoadBatch) {
      std::vector<std::int64_t> of_replicas;
      for (const std::int32_t rank : {0, 1})
        of_replicas.push_back(resolve(program.attributes_of(node), job.mesh.point(rank))[2]);
      first.emplace(node.role.part, of_replicas);
    }
  EXPECT_THAT(first, ElementsAre(testing::Pair(Part::kBatch, ElementsAre(0, 1)),
                                 testing::Pair(Part::kLoss, ElementsAre(1, 0))));
}

TEST(Boundaries, OfTwoStagesAreNoRing) {
  EXPECT_THAT(crossings(job_of(Schedule::kInterleaved, 2), 1, Phase::kForward),
              ElementsAre("l1 receive_forward_up -1", "l1 send_forward_down -1",
                          "l3 receive_forward_up -1"));
}

// Each stage of a pipeline but the last has a gradient that arrives beside the one in use.
TEST(Boundaries, HaveRoomForTheNextGradient) {
  for (const std::int32_t pp : {1, 2, 3})
    for (const RankClass& stage : job_of(Schedule::kOneForwardOneBackward, pp).classes) {
      int gradients = 0;
      for (const Buffer& buffer : stage.program.buffers) {
        if (buffer.name != "d.x") continue;
        ++gradients;
        EXPECT_EQ(buffer.slots, pp == 1 ? 1 : 2) << pp;
      }
      EXPECT_EQ(gradients, 1) << pp;
    }
}

// The gradient of the upper chunk's input is the lower one's output's: no copy is made.
TEST(Boundaries, AGradientStaysInItsBufferWhereTheWayTurns) {
  const Job job = job_of(Schedule::kZeroBubbleV, 3);
  const Program& program = job.classes[2].program;
  std::set<std::string> sent, received;
  for (const Node& node : program.nodes) {
    if (node.role.part != Part::kBoundary || node.role.phase != Phase::kBackward) continue;
    const std::string& buffer = program.buffers[program.operands(node)[0].buffer].name;
    (node.kind == OpKind::kSend ? sent : received).insert(buffer);
  }
  EXPECT_THAT(sent, ElementsAre("chunk1.d.turn"));
  EXPECT_EQ(received, sent);
}

// Stage 0 has the last layer, too: it sends a gradient up while one comes down to it. Were the
// latter to take the bytes of the former, each stage would wait until the other has received.
TEST(Boundaries, ThatCrossOnAVShareNoBytesForWhichStagesWaitInACircle) {
  for (const double slack : {0.0, 0.05}) {
    Plan plan;
    plan.kernel_set = "cpu.f64";
    plan.precision = default_recipe(plan.kernel_set);
    plan.parallel = {.dp = 2, .tp = 2, .pp = 2};
    plan.schedule = Schedule::kZeroBubbleV;
    plan.zero_stage = 2;
    plan.gather = Gather::kLayer;
    plan.clip = false;
    plan.batch = {.global_batch = 4, .micro_batch = 1, .sequence = 16};
    Job job = lower(plan, load_model("tiny-gpt"));
    place(job, {.slack = slack});
    EXPECT_EQ(verify(job), std::vector<std::string>{}) << slack;
  }
}

}  // namespace
}  // namespace zplan
