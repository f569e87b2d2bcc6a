#include <fmt/format.h>

#include <string>
#include <utility>

#include "models/model_formulas.h"
#include "planner/cli/commands.h"
#include "planner/cli/frame/interrupt.h"
#include "planner/cli/frame/output.h"
#include "planner/cli/frame/progress.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/prediction.h"
#include "planner/cli/predict/stack_use.h"
#include "planner/cli/sizing/max_answer.h"
#include "planner/core/error.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

std::vector<const SizeFamily*> families_of(const MaxCommand& command) {
  std::vector<const SizeFamily*> result;
  for (const std::string& key : command.families) result.push_back(&find_size_family(key));
  if (result.empty())
    for (const SizeFamily& family : kSizeFamilies) result.push_back(&family);
  return result;
}

std::string size_words(const LargestModel& found) {
  return found.model ? format_count(static_cast<double>(parameter_count(*found.model))) : "none";
}

// On stderr, as soon as it is known: the other families may take a while.
void tell(const FamilyMost& row) {
  const std::string what =
      row.largest.refused.empty() ? size_words(row.largest) : row.largest.refused;
  complain(fmt::format("sizing: {}: {}", row.family->key, what));
}

MaxAnswer find_largest(MaxCommand command) {
  MaxAnswer answer;
  answer.cluster = load_cluster(command.cluster);
  answer.cluster.headroom = command.headroom;
  const StackUse use = find_stack_use(command.stack, "");
  answer.stand_in = stand_in_words(use.evidence.stack);
  plan_with_stack(use, answer.cluster, command.pins);
  const std::vector<LadderStep> ladder = size_ladder();
  const std::int64_t devices = answer.cluster.devices();
  if (command.pins.ranks > devices)
    throw_bad_input(fmt::format("--gpus: expected at most {}, which {} has, got {}", devices,
                                answer.cluster.name, command.pins.ranks));
  answer.ranks = command.pins.ranks > 0 ? command.pins.ranks : devices;
  answer.global_batch = command.pins.get<std::int64_t>("/batch/global_batch", answer.ranks);
  answer.micro_batch = command.pins.get<std::int64_t>("/batch/micro_batch", 1);
  answer.sequence =
      command.pins.get<std::int64_t>("/batch/sequence", model_of(ladder.front()).sequence);
  const InterruptGuard guard;
  Progress progress;
  const std::vector<const SizeFamily*> families = families_of(command);
  answer.asked = families.size();
  for (const SizeFamily* family : families) {
    const auto say = [&](const LargestModel& found) {
      progress.show(fmt::format("sizing: {} at least {}", family->key, size_words(found)));
    };
    FamilyMost row{.family = family, .largest = {}, .step = {}};
    row.largest = largest_model(
        *family, ladder, answer.cluster, command.pins,
        {.threads = command.threads, .progress = say, .interrupted = InterruptGuard::interrupted});
    if (row.largest.plan && !command.no_times && !InterruptGuard::interrupted()) {
      progress.show(fmt::format("sizing: simulating {}", family->key));
      row.step =
          make_evaluator(*row.largest.model, answer.cluster).simulate_exactly(*row.largest.plan);
    }
    progress.clear();
    tell(row);
    answer.families.push_back(std::move(row));
    answer.interrupted = InterruptGuard::interrupted();
    if (answer.interrupted) break;
  }
  return answer;
}

}  // namespace

ExitCode execute(const MaxCommand& command) {
  const MaxAnswer answer = find_largest(command);
  write_answer(max_sheet(answer), command.json);
  if (answer.interrupted) return ExitCode::kInterrupted;
  for (const FamilyMost& row : answer.families)
    if (row.largest.model) return ExitCode::kOk;
  return ExitCode::kInfeasible;
}

}  // namespace zplan
