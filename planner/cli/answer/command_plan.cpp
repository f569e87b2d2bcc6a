#include "hwprofiles/cluster_name.h"
#include "planner/cli/answer/answer.h"
#include "planner/cli/commands.h"
#include "planner/cli/frame/interrupt.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/pin_options.h"
#include "planner/cli/frame/plan_file.h"
#include "planner/core/text.h"
#include "planner/foreign/model_file.h"

namespace zplan {

ExitCode execute(const ShowText& command) {
  write_stdout(command.text);
  return ExitCode::kOk;
}

ExitCode execute(const PlanCommand& command) {
  const auto file = [](const std::string& name) { return looks_like_path(name) ? name : ""; };
  const std::string hardware = split_settings(command.cluster).plain;
  check_outputs({command.output}, {model_file_of(command.model), file(hardware)});
  Answer answer = find_answer(command);
  answer.software = software_lines(answer, command);
  if (answer.best) {
    const Plan& plan = answer.best->planned.plan;
    Pins pins = command.pins;
    pins.ranks = answer.pins.ranks;  // as the objective has it
    for (const std::string& line : idle_pins(pins, plan, answer.cluster)) complain(line);
  }
  write_answer(answer_sheet(answer, command), command.json, [&] {
    if (!answer.best || command.output.empty()) return;
    const PlannedJob& planned = answer.best->planned;
    const bool is_own = is_ideal(answer.evidence.stack);
    const std::string& profile =  // a file is found again by its path
        looks_like_path(command.stack) ? command.stack : answer.evidence.stack.name;
    const PlanOrigin origin{.fingerprint = planned.fingerprint,
                            .software = is_own ? "" : profile,
                            .calibration = answer.calibration};
    write_file(command.output, command.bundle ? bundle_text(planned.plan, origin)
                                              : plan_text(planned.plan, origin, command.output));
  });
  if (InterruptGuard::interrupted()) return ExitCode::kInterrupted;
  return answer.best ? ExitCode::kOk : ExitCode::kInfeasible;
}

}  // namespace zplan
