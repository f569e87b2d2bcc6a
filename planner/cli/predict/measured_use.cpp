#include "planner/cli/predict/measured_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "hwprofiles/quantities.h"
#include "planner/certainty/kind.h"
#include "planner/cli/frame/plan_file.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/planned_file.h"
#include "planner/core/error.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"
#include "planner/plan/choices.h"
#include "planner/plan/plan_difference.h"

namespace zplan {
namespace {

std::string run_name(const std::string& text, const MeasuredPlan& plan) {
  return fmt::format("{} of {}", text, plan.name);
}

void learn_speed(const MeasuredSpeed& speed, const MeasuredPlan& plan, StackUse& use) {
  const TimePrediction before = predict_time(plan.planned, plan.cluster, use.evidence);
  const Seconds period = before.sim.period;
  const Seconds step = step_of(speed, before.throughput, period, plan.planned.job.world());
  check_step(speed, step, before.throughput, period);
  const MeasuredJob measured{.job = plan.planned.job,
                             .cluster = plan.cluster,
                             .kind = kind_of(plan.planned.plan, plan.cluster),
                             .model_flops = model_flops(plan.planned)};
  use.anchors.push_back(
      learn_from(use.evidence, measured, run_name(speed.text, plan), step, load_measured_runs()));
}

// "; --zero, --recompute are open": in these decisions the plans differ.
std::string open_decisions(const std::vector<Plan>& plans) {
  std::vector<std::string_view> open;
  for (const Decision& row : kChoices) {
    const auto setting = [&](const Plan& plan) { return setting_text(row.field.get(plan)); };
    const bool is_open = std::ranges::any_of(
        plans, [&](const Plan& plan) { return setting(plan) != setting(plans.front()); });
    if (is_open) open.push_back(row.option.name.empty() ? row.pointer : row.option.name);
  }
  if (open.empty()) return "";
  return fmt::format("; {} {} open", joined(open, ", "), open.size() == 1 ? "is" : "are");
}

Bytes read_of(const StackMemoryUse& use, MemoryReading reading) {
  switch (reading) {
    case MemoryReading::kDevice:
      return use.shown.central;
    case MemoryReading::kReserved:
      return use.reserved.central;
    case MemoryReading::kAllocated:
      return use.allocated.central;
  }
  ZPLAN_ASSERT(false);
}

// Parameters and optimizer states, which are held whatever else is.
Bytes kept_states(const MemoryPrediction& memory) {
  const TierUse& gpu = memory.use[static_cast<std::size_t>(Tier::kGpu)];
  const auto of = [&](Category category) {
    return gpu.by_category[static_cast<std::size_t>(category)];
  };
  return of(Category::kParameters) + of(Category::kOptimizer);
}

void check_size(const MeasuredSize& size, const MeasuredPlan& plan,
                const MemoryPrediction& memory) {
  const DeviceProfile& device = plan.cluster.node.device;
  const Bytes least = kept_states(memory);
  const auto refuse = [&](const std::string& expected) {
    throw_bad_input(fmt::format("--measured: expected {}, got {}", expected, in_quotes(size.text)));
  };
  if (size.size > device.memory)
    refuse(fmt::format("at most the {} of a {}", format_bytes(device.memory), device.name));
  if (size.size < least)
    refuse(
        fmt::format("at least the {} that the parameters and optimizer states of the plan take "
                    "on a GPU",
                    format_bytes(least)));
}

void learn_size(const MeasuredSize& size, const MeasuredPlan& plan, StackUse& use) {
  Cluster unmoved = plan.cluster;
  unmoved.memory.measured.reset();
  const MemoryPrediction memory = predict_memory(plan.planned, unmoved);
  check_size(size, plan, memory);
  const Bytes predicted = read_of(memory.stack, size.reading);
  const MeasuredMemory found{.offset = size.size - predicted,
                             .predicted = memory.stack.device.central,
                             .reading = size.reading,
                             .device = plan.cluster.node.device.name};
  use.evidence.stack.memory.measured = found;
  use.memory = MemoryCalibration{.run = run_name(size.text, plan),
                                 .stack = use.evidence.stack.name,
                                 .measured = size.size,
                                 .predicted = predicted,
                                 .found = found};
}

}  // namespace

void learn_measured(const Measured& measured, const MeasuredPlan& plan, StackUse& use) {
  if (measured.is_empty()) return;
  use.asked = true;  // what was learnt is of it
  if (measured.size) learn_size(*measured.size, plan, use);
  if (measured.speed) learn_speed(*measured.speed, plan, use);
}

void learn_measured_file(const Measured& measured, const std::string& path, StackUse& use) {
  if (measured.is_empty()) return;
  const ReadPlan read = read_plan(path);
  Cluster cluster = cluster_of(read);
  simulate_with_stack(use, read.plan, cluster);
  learn_measured(measured, {path, planned_job(read), cluster}, use);
}

void learn_measured_of_question(const PlanCommand& question, const Pins& pins,
                                const ModelConfig& model, const Cluster& cluster, StackUse& use) {
  if (question.measured.is_empty()) return;
  if (!question.measured_plan.empty())
    return learn_measured_file(question.measured, question.measured_plan, use);
  Cluster ran = cluster;
  Pins all = pins;
  plan_for_software(use, model, ran, all);
  ran = varied(std::move(ran), question.changes);
  const std::vector<Plan> left = enumerate(model, ran, all);
  if (left.size() != 1)
    throw_bad_input(fmt::format(
        "--measured: expected the plan that was measured, as in --of PLAN.json, or pins that leave "
        "one plan, got pins that leave {}{}",
        count_of(static_cast<std::int64_t>(left.size()), "plan"), open_decisions(left)));
  learn_measured(question.measured, {"the pinned plan", build_job(left.front(), model), ran}, use);
}

void take_over(const StackUse& use, Cluster& cluster) {
  if (!use.asked) return;
  cluster.stack = rates_of(use.evidence.stack, cluster);
  cluster.memory.measured = measured_for(use.evidence.stack.memory, cluster);
}

}  // namespace zplan
