#include "planner/cli/answer/chosen_plan.h"

#include <string>
#include <utility>

#include "hwprofiles/quantities.h"
#include "planner/cli/answer/answer.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/pin_options.h"
#include "planner/cli/frame/plan_file.h"
#include "planner/cli/predict/planned_file.h"
#include "planner/cli/predict/stack_use.h"

namespace zplan {
namespace {

ChosenPlan plan_of_file(const PlanSource& source) {
  const PlanCommand& question = source.question;
  const ReadPlan read = read_plan(source.plan);
  Cluster cluster = cluster_of(read, question.cluster);
  cluster.headroom = question.headroom;
  StackUse use = find_stack_use(question.stack, "");
  simulate_with_stack(use, read.plan, cluster);
  cluster = varied(std::move(cluster), question.changes);
  ChosenPlan chosen{.planned = planned_job(read),
                    .cluster = std::move(cluster),
                    .memory = {},
                    .evidence = std::move(use.evidence),
                    .time = {},
                    .search = {},
                    .pins = {}};
  chosen.memory = predict_memory(chosen.planned, chosen.cluster);
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
                    .time = std::move(best.time),
                    .search = std::move(answer.search),
                    .pins = std::move(answer.pins)};
}

}  // namespace zplan
