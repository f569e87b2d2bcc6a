#include "planner/validate/evaluate.h"

#include <fmt/format.h>

#include <algorithm>

#include "hwprofiles/memory_quantity.h"
#include "models/model_formulas.h"
#include "planner/certainty/certainty.h"
#include "planner/certainty/kind.h"
#include "planner/core/error.h"
#include "planner/cost/throughput.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/search/search.h"
#include "planner/search/stack_memory_use.h"
#include "planner/validate/record_plan.h"
#include "planner/validate/run_form.h"
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

// As whoever measured saw it.
MemoryEstimate as_seen(const StackMemoryUse& use, const std::optional<std::string>& kind) {
  if (kind == "nvidia_smi") return use.shown;
  return kind == "reserved_peak" ? use.reserved : use.allocated;
}

// Returns the memory of the GPU that the figure is of: of the rank that the record names, else as
// the software reports. Of the first rank is the first class, of the last the last.
StackMemoryUse measured_use(const RunMeasured& measured, const Job& job, const Cluster& cluster) {
  const auto& rank = measured.memory_rank;
  if (rank == "first") return stack_memory_use(job, 0, cluster);
  if (rank == "last") return stack_memory_use(job, job.classes.size() - 1, cluster);
  if (rank == "highest") return stack_memory_use(job, cluster);
  if (cluster.memory.says(MemoryQuantity::kLastRank))
    return stack_memory_use(job, job.classes.size() - 1, cluster);
  return stack_memory_use(job, cluster);
}

// Software that states what it holds needs that, other software the slab.
bool fits(const Job& job, const Cluster& cluster) {
  if (!cluster.memory.given) return !check_fit(job, cluster).has_value();
  const MemoryUse use = memory_use(job, cluster);
  return !check_stack(stack_memory_use(job, cluster), cluster) &&
         use[static_cast<std::size_t>(Tier::kCpu)].fits() &&
         use[static_cast<std::size_t>(Tier::kNvme)].fits();
}

// The plan recomputes nothing where a record does not say what is recomputed; when that does not
// fit and recomputation would, nobody can say whether the run fits.
std::optional<bool> fits(const Job& job, const PlannedRun& planned,
                         std::vector<std::string>& flags) {
  if (fits(job, planned.cluster)) return true;
  if (planned.recompute_stated) return false;
  Plan full = planned.plan;
  full.recompute = {{Recompute::kFull}};
  if (illegal(full, shape_of(planned.model))) return false;
  Job other = lower(full, planned.model);
  place(other, {.slack = full.slack});
  if (!fits(other, planned.cluster)) return false;
  flags.emplace_back("fits with recomputation, of which nothing is stated");
  return std::nullopt;
}

const StackProfile& stack_named(const std::string& name, const RunCatalogues& catalogues) {
  return *std::ranges::find(catalogues.stacks, name, &StackProfile::name);
}

// The step time and how sure it is.
void predict_time(const Job& job, const PlannedRun& planned, const Evidence& evidence,
                  const MeasuredRuns& measured, RunResult& result) {
  const sim::SimResult found = sim::simulate(
      job, planned.cluster, {.find_reliances = true, .split_by_op = true, .fingerprint = {}});
  const Kind kind = kind_of(planned.plan, planned.cluster);
  const double flops = model_flops_per_step(planned.model, planned.plan.batch.global_batch);
  const double mfu = throughput(job, planned.cluster, found.period, flops).mfu;
  Certainty certainty = certainty_of({found.period, mfu, found.reliances}, evidence, measured,
                                     planned.cluster.node, kind);
  result.predicted_s = found.period.value;
  std::ranges::transform(sim::step_split(job, found).parts, result.parts.begin(), &Seconds::value);
  result.low_s = certainty.interval.low.value;
  result.high_s = certainty.interval.high.value;
  result.unknown = std::move(certainty.unknown);
  result.kind = kind;
  result.parameters = parameter_count(planned.model);
}

void predict(const RunRecord& run, const PlannedRun& planned, const Evidence& evidence,
             const MeasuredRuns& measured, RunResult& result) {
  constexpr double kGiB = 0x1p30;
  Job job = lower(planned.plan, planned.model);
  place(job, {.slack = planned.plan.slack});
  result.fits = fits(job, planned, result.flags);
  if (run.measured.memory_gib) {
    const MemoryEstimate seen =
        as_seen(measured_use(run.measured, job, planned.cluster), run.measured.memory_kind);
    result.predicted_gib = static_cast<double>(seen.central.value) / kGiB;
    result.bound_gib = static_cast<double>(seen.bound.value) / kGiB;
  }
  if (result.measured_s) predict_time(job, planned, evidence, measured, result);
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
  if (said(run, "/software/deterministic") == "true" && result.measured_s) {
    result.measured_s.reset();
    result.flags.emplace_back("deterministic kernels: the time is not compared");
  }
  if (!result.unsupported.empty()) return result;
  try {
    const StackProfile& used = stack != nullptr ? *stack : stack_named(planned.stack, catalogues);
    Evidence evidence = catalogues.evidence_for(used);
    evidence.stated = planned.stack_stated;
    predict(run, planned, evidence, catalogues.measured, result);
  } catch (const Error& error) {  // a format or a link that the hardware lacks
    result.unsupported = error.what();
    result.predicted_s = result.predicted_gib = result.bound_gib = std::nullopt;
  }
  return result;
}

}  // namespace zplan
