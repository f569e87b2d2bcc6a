#include "planner/validate/evaluate.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/certainty/interval.h"
#include "planner/certainty/kind.h"
#include "planner/core/error.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/search/search.h"
#include "planner/validate/record_plan.h"
#include "sim/simulate.h"

namespace zplan {
namespace {

// Plans of one sweep answer the same question; software and source are part of it.
std::string sweep_of(const RunRecord& run, const PlannedRun& planned) {
  const RunModel& m = run.model;
  return fmt::format("{} {} {} {} x{} L{} h{} a{} f{} V{} s{} b{}", run.group, planned.stack,
                     run.hardware.device, run.precision.compute, run.hardware.gpus, m.layers,
                     m.hidden, m.heads.value_or(0), m.ffn.value_or(0), m.vocab, m.seq,
                     run.global_batch.value_or(0));
}

Bytes seen_reserve(const DeviceProfile& device, const std::optional<std::string>& kind) {
  return kind == "nvidia_smi" ? device.reserve() : device.reserve_workspace;
}

const StackProfile& stack_named(const std::string& name, const RunCatalogues& catalogues) {
  return *std::ranges::find(catalogues.stacks, name, &StackProfile::name);
}

// The step time and how sure it is.
void predict_time(const Job& job, const PlannedRun& planned, const Evidence& evidence,
                  RunResult& result) {
  const sim::SimResult found =
      sim::simulate(job, planned.cluster, {.find_reliances = true, .fingerprint = {}});
  const Kind kind = kind_of(planned.plan, planned.cluster);
  Knowledge knowledge = knowledge_of(evidence, planned.cluster.node, kind);
  const TimeInterval interval = interval_of(found.period, spread_of(knowledge, found.reliances));
  result.predicted_s = found.period.value;
  result.low_s = interval.low.value;
  result.high_s = interval.high.value;
  result.unknown = std::move(knowledge.unknown);
}

void predict(const RunRecord& run, const PlannedRun& planned, const Evidence& evidence,
             RunResult& result) {
  constexpr double kGiB = 0x1p30;
  Job job = lower(planned.plan, planned.model);
  place(job, {.slack = planned.plan.slack});
  result.fits = !check_fit(job, planned.cluster).has_value();
  if (run.measured.memory_gib) {
    const MemoryUse use = memory_use(job, planned.cluster);
    const Bytes bytes = use[static_cast<std::size_t>(Tier::kGpu)].peak +
                        seen_reserve(planned.cluster.node.device, run.measured.memory_kind);
    result.predicted_gib = static_cast<double>(bytes.value) / kGiB;
  }
  if (run.measured.step_time_s) predict_time(job, planned, evidence, result);
}

}  // namespace

RunResult evaluate(const RunRecord& run, const RunCatalogues& catalogues,
                   const StackProfile* stack) {
  const PlannedRun planned = plan_run(run, catalogues, stack);
  RunResult result{.id = run.id,
                   .group = run.group,
                   .stack = planned.stack,
                   .kernel_set = planned.plan.kernel_set,
                   .sweep = sweep_of(run, planned),
                   .flags = planned.flags,
                   .unsupported = planned.unsupported,
                   .out_of_memory = run.measured.out_of_memory,
                   .measured_s = run.measured.step_time_s,
                   .measured_gib = run.measured.memory_gib};
  if (!result.unsupported.empty()) return result;
  try {
    const StackProfile& used = stack != nullptr ? *stack : stack_named(planned.stack, catalogues);
    predict(run, planned, catalogues.evidence_for(used), result);
  } catch (const Error& error) {  // a format or a link that the hardware lacks
    result.unsupported = error.what();
    result.predicted_s = result.predicted_gib = std::nullopt;
  }
  return result;
}

}  // namespace zplan
