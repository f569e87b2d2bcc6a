// Pipelines whose forwards are ahead of an update: the backward of a micro-batch reads what its
// forward has read.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "planner/lower/lower.h"

namespace zplan {
namespace {

Job job_of(Schedule schedule, Recompute mode) {
  Plan plan;
  plan.kernel_set = "cpu.f32";
  plan.precision = default_recipe(plan.kernel_set);
  plan.parallel.pp = 2;
  plan.schedule = schedule;
  plan.clip = false;
  plan.gather = Gather::kLayer;
  plan.recompute = {{mode}};
  plan.batch = {.global_batch = 4, .micro_batch = 1, .sequence = 32};
  ModelConfig model = load_model("tiny-gpt");
  model.tied_embeddings = false;
  return lower(plan, model);
}

// Buffers with parameters of layers that kernels of the phase read.
std::set<std::string> read_in(const Program& program, Phase phase) {
  std::set<std::string> names;
  for (const Node& node : program.nodes) {
    if (node.kind != OpKind::kKernel || node.role.phase != phase) continue;
    for (const View& view : program.operands(node)) {
      const std::string& name = program.buffers[view.buffer].name;
      if (name.ends_with("param.layer")) names.insert(name);
    }
  }
  return names;
}

TEST(OlderParameters, AreReadInBackwardAndItsReplay) {
  const std::set<std::string> older{"older.param.layer"};
  for (const Schedule schedule : {Schedule::kDoubleBuffered, Schedule::kWeightStashing}) {
    const Program program = job_of(schedule, Recompute::kFull).classes[0].program;
    EXPECT_EQ(read_in(program, Phase::kBackward), older);
    EXPECT_EQ(read_in(program, Phase::kRecompute), older);
    EXPECT_TRUE(read_in(program, Phase::kForward).contains("param.layer"));
  }
}

TEST(OlderParameters, AreNotKeptWhereAStepDrains) {
  const Program program =
      job_of(Schedule::kOneForwardOneBackward, Recompute::kNone).classes[0].program;
  EXPECT_EQ(read_in(program, Phase::kBackward), std::set<std::string>{"param.layer"});
}

}  // namespace
}  // namespace zplan
