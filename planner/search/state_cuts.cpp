#include "planner/search/state_cuts.h"

#include <optional>

#include "models/model_formulas.h"
#include "planner/cost/tier_traffic.h"
#include "planner/lower/lower.h"

namespace zplan {
namespace {

constexpr int kCuts = 8;  // of three states, each at home on the GPU or the CPU

// On one GPU ZeRO 3 cuts nothing and lets every state leave.
Plan of_one_gpu(Plan plan) {
  plan.parallel = {};
  plan.zero_stage = 3;
  plan.secondary = plan.parameter_shards = 0;
  plan.partition_activations = false;
  plan.delayed_update = false;
  plan.overlap = {.gradients = plan.overlap.gradients, .parameters = plan.overlap.parameters};
  plan.schedule = Schedule::kOneForwardOneBackward;
  plan.schedule_file.clear();
  plan.stage_layers.clear();
  plan.gpus.clear();
  plan.offload = {};
  if (plan.gather.owned()) plan.gather = Gather::kLayer;
  plan.batch.global_batch = plan.batch.micro_batch;
  return plan;
}

StatePlacement homes_of(int cut, Tier activations) {
  const auto home = [cut](int bit) { return (cut >> bit & 1) != 0 ? Tier::kCpu : Tier::kGpu; };
  return {.params = home(2), .grads = home(1), .optimizer = home(0), .activations = activations};
}

bool is_state(const Buffer& buffer) {
  return buffer.category == Category::kParameters || buffer.category == Category::kGradients ||
         buffer.category == Category::kOptimizer;
}

double states_on_gpu(const Job& job) {
  double bytes = 0;
  for (const Buffer& buffer : job.classes[0].program.buffers)
    if (buffer.tier == Tier::kGpu && is_state(buffer))
      bytes += static_cast<double>(buffer.unpadded.value);
  return bytes;
}

double crossing(const Job& job, const Cluster& cluster, SharedWires& wires) {
  double bytes = 0;
  for (const TierTraffic& one : tier_traffic(CostModel(job, cluster, &wires)))
    if (one.hop == Hop::kGpuCpu && one.state != MovedState::kActivations) bytes += one.bytes();
  return bytes;
}

}  // namespace

std::vector<StateCut> state_cuts(const Plan& plan, const ModelConfig& model,
                                 const Cluster& cluster) {
  const auto parameters = static_cast<double>(parameter_count(model));
  SharedWires wires(cluster);
  std::vector<StateCut> cuts;
  for (int cut = 0; cut < kCuts; ++cut) {
    Plan way = of_one_gpu(plan);
    way.placement = homes_of(cut, plan.placement.activations);
    StateCut& found = cuts.emplace_back(StateCut{.homes = way.placement, .refused = {}});
    if (const std::optional<std::string> why = illegal(way, shape_of(model))) {
      found.refused = *why;
      continue;
    }
    const Job job = lower(way, model);
    found.crosses = crossing(job, cluster, wires) / parameters;
    found.kept = states_on_gpu(job) / parameters;
  }
  return cuts;
}

const StateCut* least_traffic(const std::vector<StateCut>& cuts) {
  const StateCut* least = nullptr;
  for (const StateCut& cut : cuts) {
    if (!cut.refused.empty() || cut.crosses == 0) continue;
    const bool is_less = least == nullptr || cut.crosses < least->crosses;
    if (is_less || (cut.crosses == least->crosses && cut.kept < least->kept)) least = &cut;
  }
  return least;
}

}  // namespace zplan
