#include <optional>
#include <utility>

#include "planner/cli/answer/chosen_plan.h"
#include "planner/cli/commands.h"
#include "planner/cli/predict/memory_answer.h"

namespace zplan {

ExitCode execute(const MemoryCommand& command) {
  std::optional<ChosenPlan> chosen = choose_plan(command.source);
  if (!chosen) return ExitCode::kInfeasible;
  MemoryAnswer answer{.planned = std::move(chosen->planned),
                      .cluster = std::move(chosen->cluster),
                      .memory = std::move(chosen->memory),
                      .memory_calibration = std::move(chosen->memory_calibration),
                      .deepspeed = {}};
  if (command.deepspeed) answer.deepspeed = compare_with_deepspeed(answer.planned, answer.cluster);
  write_answer(memory_answer_sheet(answer), command.json);
  return answer.memory.infeasible ? ExitCode::kInfeasible : ExitCode::kOk;
}

}  // namespace zplan
