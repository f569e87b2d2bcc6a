#include <fmt/format.h>

#include <optional>

#include "models/model_formulas.h"
#include "planner/cli/answer/chosen_plan.h"
#include "planner/cli/commands.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/sizing/goodput_answer.h"
#include "sim/simulate.h"

namespace zplan {

ExitCode execute(const GoodputCommand& command) {
  if (command.published) {
    write_answer(published_goodput_sheet(), command.json);
    return ExitCode::kOk;
  }
  const std::optional<ChosenPlan> chosen = choose_plan(command.source);
  if (!chosen) return ExitCode::kInfeasible;
  if (chosen->memory.infeasible && !command.source.question.ignore_capacity) {
    complain(fmt::format("{} does not fit on {}: {}", command.source.plan, chosen->cluster.name,
                         full_reason(*chosen->memory.infeasible)));
    return ExitCode::kInfeasible;
  }
  const PlannedJob& planned = chosen->planned;
  const Seconds period =
      chosen->time ? chosen->time->sim.period : sim::simulate(planned.job, chosen->cluster).period;
  const GoodputAnswer answer =
      find_goodput(planned.job, static_cast<double>(parameter_count(planned.model)),
                   planned.model.vocab, chosen->cluster, period, command.tokens, command.failures);
  write_answer(goodput_sheet(answer, running_cost(command.running, chosen->cluster.node),
                             fmt::format("{} on {} ({})", planned.model.name, chosen->cluster.name,
                                         cluster_words(chosen->cluster))),
               command.json);
  return ExitCode::kOk;
}

}  // namespace zplan
