#include "planner/cli/commands.h"
#include "planner/cli/frame/plan_file.h"
#include "planner/cli/predict/memory_answer.h"
#include "planner/cli/predict/stack_use.h"

namespace zplan {

ExitCode execute(const MemoryCommand& command) {
  const Plan plan = read_plan(command.plan);
  Cluster cluster =
      command.cluster.empty() ? cluster_of(command.plan, plan) : load_cluster(command.cluster);
  cluster.headroom = command.headroom;
  simulate_with_stack(find_stack_use(command.stack, ""), plan, cluster);
  MemoryAnswer answer{
      .planned = build_job(plan), .cluster = cluster, .memory = {}, .deepspeed = {}};
  answer.memory = predict_memory(answer.planned, cluster);
  if (command.deepspeed) answer.deepspeed = compare_with_deepspeed(answer.planned, cluster);
  write_answer(memory_answer_sheet(answer), command.json);
  return answer.memory.infeasible ? ExitCode::kInfeasible : ExitCode::kOk;
}

}  // namespace zplan
