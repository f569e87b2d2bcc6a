#include <utility>

#include "planner/cli/commands.h"
#include "planner/cli/explain/why_not.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/pin_options.h"

namespace zplan {
namespace {

// The question without pins but those of the batch and the number of GPUs, which both plans share.
PlanCommand without_pins(PlanCommand question) {
  Pins kept;
  for (const char* pointer : {"/batch/global_batch", "/batch/sequence"})
    if (question.pins.has(pointer)) kept.set(pointer, question.pins.get(pointer, std::int64_t{0}));
  kept.ranks = question.pins.ranks;
  question.pins = std::move(kept);
  return question;
}

// The question about the family.
PlanCommand with_family(PlanCommand question, const FamilyWords& family) {
  question.only.insert(question.only.end(), family.only.begin(), family.only.end());
  question.never.insert(question.never.end(), family.never.begin(), family.never.end());
  if (!family.recipes.empty()) question.pins.recipes = family.recipes;
  return question;
}

}  // namespace

ExitCode execute(const WhyNotCommand& command) {
  Answer free = find_answer(without_pins(command.question));
  const PlanCommand pinned = with_software_of(command.question, free);
  const WhyNot found{.pinned = find_answer(with_family(pinned, command.family)),
                     .free = std::move(free)};
  if (found.pinned.best) {
    const Plan& plan = found.pinned.best->planned.plan;
    for (const std::string& line : idle_pins(command.question.pins, plan, found.pinned.cluster))
      complain(line);
  }
  write_answer(why_not_sheet(found), command.question.json);
  return found.pinned.best ? ExitCode::kOk : ExitCode::kInfeasible;
}

}  // namespace zplan
