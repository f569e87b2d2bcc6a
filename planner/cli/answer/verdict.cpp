#include "planner/cli/answer/verdict.h"

#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "planner/cli/frame/words.h"
#include "planner/cli/predict/split_output.h"
#include "planner/core/text.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

// "ZeRO-3, tp 8, pp 2 over 128 GPUs, with CPU memory and NVMe"
std::string plan_words(const Plan& plan) {
  const Parallel& shape = plan.parallel;
  std::vector<std::string> parts;
  if (plan.zero_stage > 0) parts.push_back(fmt::format("ZeRO-{}", plan.zero_stage));
  const auto add = [&](std::string_view what, std::int32_t ranks) {
    if (ranks > 1) parts.push_back(fmt::format("{} {}", what, ranks));
  };
  add("tp", shape.tp);
  add("cp", shape.cp);
  add("pp", shape.pp);
  if (parts.empty()) parts.emplace_back(shape.dp > 1 ? "data parallel" : "one replica");
  const Family family = family_of(plan);
  const bool on_cpu = find_kernel_set(plan.kernel_set).runs_on == RunsOn::kCpu;
  return fmt::format("{} over {}{}{}", joined(parts, ", "),
                     count_of(shape.ranks(), on_cpu ? "worker" : "GPU"),
                     family.cpu || family.nvme ? ", with " : "",
                     family.nvme  ? "NVMe"
                     : family.cpu ? "CPU memory"
                                  : "");
}

}  // namespace

std::string verdict_line(const Answer& answer) {
  if (!answer.best) return "no: " + misfit_line(answer);
  const TimePrediction& time = answer.best->time;
  const std::string how =
      fmt::format("{} per step ({} tokens/s), limited by {}; {}", duration_words(time.sim.period),
                  grouped(std::llround(time.throughput.tokens_per_second)), limit_of(time.split),
                  plan_words(answer.best->planned.plan));
  if (!fits(answer))
    return fmt::format("no: {}; the closest plan, capacity ignored, would take {}",
                       misfit_line(answer), how);
  std::string line =
      fmt::format("yes: {} trains on {} at {}", answer.model.name, answer.cluster.name, how);
  const Objective asked = answer.objective.question.what;
  if (asked != Objective::kFastest)
    line += fmt::format("; {}: {}", name(asked),
                        objective_value(answer.objective, *objective_step(answer)));
  return line;
}

}  // namespace zplan
