#include "planner/cli/answer/chosen_plan.h"

#include <string>
#include <utility>

#include "hwprofiles/quantities.h"
#include "planner/cli/answer/answer.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/pin_options.h"
#include "planner/cli/frame/plan_file.h"
#include "planner/cli/predict/measured_use.h"
#include "planner/cli/predict/planned_file.h"
#include "planner/cli/predict/stack_use.h"

namespace zplan {
namespace {

ChosenPlan plan_of_file(const PlanSource& source) {
  const PlanCommand& question = source.question;
  const ReadPlan read = read_plan(source.plan);
  Cluster cluster = cluster_of(read, question.cluster);
  cluster.headroom = question.headroom;
  StackUse use = software_of(read, question.stack, question.anchor, cluster);
  const bool is_measured = question.measured_plan.empty();  // this plan, if any
  if (!is_measured) learn_measured_file(question.measured, question.measured_plan, use);
  simulate_with_stack(use, read.plan, cluster);
  cluster = varied(std::move(cluster), question.changes);
  ChosenPlan chosen{.planned = planned_job(read),
                    .cluster = {},
                    .memory = {},
                    .evidence = {},
                    .time = {},
                    .search = {},
                    .pins = {}};
  if (is_measured) {
    learn_measured(question.measured, {source.plan, chosen.planned, cluster}, use);
    take_over(use, cluster);
  }
  chosen.cluster = std::move(cluster);
  chosen.evidence = std::move(use.evidence);
  chosen.anchors = std::move(use.anchors);
  chosen.memory_calibration = std::move(use.memory);
  chosen.memory = predict_memory(chosen.planned, chosen.cluster, chosen.evidence);
  return chosen;
}

}  // namespace

std::optional<ChosenPlan> choose_plan(const PlanSource& source) {
  if (!source.plan.empty()) return plan_of_file(source);
  const PlanCommand& question = source.question;
  Answer answer = find_answer(question);
  tell_left_out(answer.model.name, answer.left_out);
  if (!fits(answer)) complain(misfit_line(answer));
  if (!answer.best) return std::nullopt;
  FoundPlan& best = *answer.best;
  for (const std::string& line : idle_pins(question.pins, best.planned.plan, answer.cluster))
    complain(line);
  return ChosenPlan{.planned = std::move(best.planned),
                    .cluster = std::move(answer.cluster),
                    .memory = std::move(best.memory),
                    .evidence = std::move(answer.evidence),
                    .anchors = std::move(answer.anchors),
                    .memory_calibration = std::move(answer.memory_calibration),
                    .time = std::move(best.time),
                    .search = std::move(answer.search),
                    .pins = std::move(answer.pins)};
}

}  // namespace zplan
