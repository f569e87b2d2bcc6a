// Rank classes built by hand for tests of verify: a stage of fills, copies and messages.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/lower/program_builder.h"
#include "planner/program/job/job.h"
#include "tests/support/meshes.h"

namespace zplan::testing_support {

inline constexpr std::int64_t kFloats = 64;

inline Role role(Part part, Action action = Action::kCompute, Phase phase = Phase::kForward) {
  return {phase, part, action};
}

// One stage under construction.
class Stage {
 public:
  View buffer(const char* name, std::int32_t slots = 1, Tier tier = Tier::kGpu) {
    View v;
    v.buffer = out.add({.name = name,
                        .slot_size = round_up(size_of(DType::kF32) * kFloats, alignment(tier)),
                        .slots = slots,
                        .tier = tier});
    v.shape = {kFloats};
    return v;
  }
  void fill(Part part, const View& to, Lane lane = Lane::kCompute) {
    out.kernel(role(part, Action::kZero), lane, KernelId::kFillZero, {write(to)});
  }
  void gelu(Part part, const View& from, const View& to, Lane lane = Lane::kCompute) {
    out.kernel(role(part), lane, KernelId::kGeluForward, {read(from), write(to)});
  }
  // Forward is up the pipeline, backward down. Stages: finish() counts the steps from its own.
  void send(const View& from, std::int32_t to_stage, Phase phase = Phase::kForward) {
    out.send(role(Part::kBoundary, Action::kSend, phase), send_lane(phase), stage_at(to_stage),
             from);
  }
  void receive(const View& to, std::int32_t from_stage, Phase phase = Phase::kForward) {
    out.receive(role(Part::kBoundary, Action::kReceive, phase), partner(send_lane(phase)),
                stage_at(from_stage), to);
  }
  RankClass finish(std::int32_t stage = 0) {
    RankClass result;
    result.stage = stage;
    result.program = out.finish();
    for (Node& node : result.program.nodes)
      if (node.kind == OpKind::kSend || node.kind == OpKind::kReceive)
        node.peer.step = static_cast<std::int8_t>(node.peer.step - stage);
    return result;
  }

  ProgramBuilder out;

 private:
  static Lane send_lane(Phase phase) {
    return phase == Phase::kForward ? Lane::kSendForwardUp : Lane::kSendBackwardDown;
  }
};

inline Job job_of(std::vector<RankClass> classes, std::int32_t dp = 2) {
  Job job;
  job.mesh = mesh_of({.dp = dp, .pp = static_cast<std::int32_t>(classes.size())});
  job.classes = std::move(classes);
  return job;
}

// Of one stage.
inline Job job_of(Stage& stage) { return job_of({stage.finish()}); }

inline View at_slot(View v, SlotExpr slot) {
  v.slot = slot;
  return v;
}

}  // namespace zplan::testing_support
