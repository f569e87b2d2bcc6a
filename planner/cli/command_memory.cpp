#include "planner/cli/commands.h"
#include "planner/cli/memory_answer.h"
#include "planner/cli/output.h"
#include "planner/cli/plan_file.h"
#include "planner/cli/stack_use.h"

namespace zplan {

ExitCode execute(const MemoryCommand& command) {
  const Plan plan = read_plan(command.plan);
  Cluster cluster =
      command.cluster.empty() ? cluster_of(command.plan, plan) : load_cluster(command.cluster);
  cluster.headroom = command.headroom;
  simulate_with_stack(command.stack, plan, cluster);
  MemoryAnswer answer{
      .planned = build_job(plan), .cluster = cluster, .memory = {}, .deepspeed = {}};
  answer.memory = predict_memory(answer.planned, cluster);
  if (command.deepspeed) answer.deepspeed = compare_with_deepspeed(answer.planned, cluster);
  write_stdout(command.json ? memory_answer_json(answer) : memory_answer_text(answer));
  return answer.memory.infeasible ? ExitCode::kInfeasible : ExitCode::kOk;
}

}  // namespace zplan
