#include "planner/cli/predict/prediction.h"

#include <fmt/format.h>

#include <utility>

#include "hwprofiles/seating.h"
#include "models/model_formulas.h"
#include "planner/core/error.h"
#include "planner/foreign/model_file.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/program/text/fingerprint.h"
#include "planner/program/verify/verify.h"
#include "planner/search/attention_kernels.h"

namespace zplan {
namespace {

constexpr std::string_view kOwn = "own";  // hwprofiles/stacks/own.json

void require_devices(const Job& job, const Cluster& cluster) {
  const int devices = Seating(cluster, job.mesh.gpus).devices();
  if (job.world() <= devices) return;
  throw_bad_input(fmt::format("the plan needs {} devices ({}), cluster {} has {}", job.world(),
                              sizes_text(job.mesh), cluster.name, devices));
}

}  // namespace

double model_flops(const PlannedJob& planned) {
  ModelConfig model = planned.model;
  model.sequence = planned.plan.batch.sequence;
  const Plan& plan = planned.plan;
  // Frozen matrices have no gradient: a product less, of two flop per parameter and token
  // [derived].
  std::int64_t frozen = 0;
  const std::int64_t heads = model.vocab * model.hidden + further_head_elements(model);
  if (plan.train.what == Trained::kLayers) frozen = heads + mtp_projection_count(model);
  if (plan.train.has_lora())
    frozen = active_matmul_parameter_count(model) + further_head_elements(model);
  // A tower that is not trained goes forward only; its projectors are a small part of it.
  const auto tower = static_cast<double>(vision_flops_per_sequence(model).value);
  const double backward = plan.train.has_trained_tower() ? 0 : 2 * tower;
  const double saved = backward * static_cast<double>(plan.batch.global_batch) +
                       2.0 * static_cast<double>(frozen) *
                           static_cast<double>(plan.batch.global_batch) *
                           static_cast<double>(model.sequence);
  return model_flops_per_step(model, plan.batch.global_batch) - saved;
}

PlannedJob build_job(const Plan& plan, const ModelConfig& model) {
  PlannedJob planned{plan, model, lower(plan, model), {}};
  place(planned.job, {.slack = plan.slack});
  verify_or_throw(planned.job);
  planned.fingerprint = fingerprint(planned.job);
  return planned;
}

PlannedJob build_job(const Plan& plan) {
  return build_job(plan, load_named_model(plan.model).model);
}

MemoryPrediction predict_memory(const PlannedJob& planned, const Cluster& cluster) {
  require_devices(planned.job, cluster);
  MemoryPrediction memory{.use = memory_use(planned.job, cluster),
                          .report = measure(planned.job),
                          .stack = stack_memory_use(planned.job, cluster),
                          .infeasible = check_fit(planned.job, cluster)};
  if (!memory.infeasible) memory.infeasible = check_stack(memory.stack, cluster);
  return memory;
}

MemoryPrediction predict_memory(const PlannedJob& planned, const Cluster& cluster,
                                const Evidence& evidence) {
  MemoryPrediction memory = predict_memory(planned, cluster);
  memory.stand_in = stand_in_words(evidence.stack);
  return memory;
}

std::string stand_in_words(const StackProfile& software) {
  if (software.memory.given || software.name == kOwn) return "";
  return fmt::format("counted as our own executor places it: the memory of {} is not known",
                     software.name);
}

sim::SimOptions with_all_of_a_prediction(sim::SimOptions options) {
  options.find_reliances = true;
  options.split_by_op = true;
  return options;
}

TimePrediction predict_time(const PlannedJob& planned, const Cluster& cluster,
                            const Evidence& evidence, sim::SimOptions options) {
  require_devices(planned.job, cluster);
  options.fingerprint = planned.fingerprint;
  options = with_all_of_a_prediction(std::move(options));
  return prediction_of(planned, cluster, evidence, sim::simulate(planned.job, cluster, options));
}

TimePrediction prediction_of(const PlannedJob& planned, const Cluster& cluster,
                             const Evidence& evidence, sim::SimResult simulated) {
  TimePrediction prediction{.sim = std::move(simulated),
                            .split = {},
                            .throughput = {},
                            .certainty = {},
                            .attention = attention_words(planned.plan, planned.model, cluster)};
  prediction.split = sim::step_split(planned.job, prediction.sim);
  prediction.throughput =
      throughput(planned.job, cluster, prediction.sim.period, model_flops(planned));
  prediction.certainty =
      certainty_of({prediction.sim.period, prediction.throughput.mfu, prediction.sim.reliances},
                   evidence, load_measured_runs(), cluster.node, kind_of(planned.plan, cluster));
  return prediction;
}

}  // namespace zplan
