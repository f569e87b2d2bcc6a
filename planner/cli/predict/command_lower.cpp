#include "planner/cli/commands.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/plan_file.h"
#include "planner/cli/predict/planned_file.h"
#include "planner/foreign/model_file.h"
#include "planner/lower/lower.h"
#include "planner/program/text/text.h"
#include "planner/program/verify/verify.h"

namespace zplan {
namespace {

std::string program_text(const LowerCommand& command) {
  const ReadPlan read = read_plan(command.plan);
  cluster_of(read);  // which has the kernels
  if (!command.no_place) return to_text(planned_job(read).job);
  const Job job = lower(read.plan, load_named_model(read.plan.model).model);
  verify_or_throw(job);
  return to_text(job);
}

}  // namespace

ExitCode execute(const LowerCommand& command) {
  check_outputs({command.output}, {command.plan});
  const std::string text = program_text(command);
  if (command.output.empty()) {
    write_stdout(text);
  } else {
    write_file(command.output, text);
  }
  return ExitCode::kOk;
}

}  // namespace zplan
