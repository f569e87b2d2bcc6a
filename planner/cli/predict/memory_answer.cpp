#include "planner/cli/predict/memory_answer.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/cli/predict/infinity_output.h"
#include "planner/cli/predict/prediction_output.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

bool is_state(Category category) {
  return category == Category::kParameters || category == Category::kGradients ||
         category == Category::kOptimizer;
}

// Bytes of the categories that are model states, or of all others.
Bytes bytes_of(const TierUse& use, bool states) {
  Bytes sum{0};
  for (int i = 0; i < kCategoryCount; ++i) {
    if (is_state(static_cast<Category>(i)) == states)
      sum += use.by_category[static_cast<std::size_t>(i)];
  }
  return sum;
}

const TierUse& use_of(const MemoryAnswer& answer, Tier tier) {
  return answer.memory.use[static_cast<std::size_t>(tier)];
}

std::string other_categories(const TierUse& use) {
  std::vector<std::string> parts;
  for (int i = 0; i < kCategoryCount; ++i) {
    const auto category = static_cast<Category>(i);
    const Bytes size = use.by_category[static_cast<std::size_t>(i)];
    if (!is_state(category) && size.value > 0)
      parts.push_back(fmt::format("{} {}", name(category), format_bytes(size)));
  }
  return joined(parts, ", ");
}

// The estimates, and beside them what is placed.
Sheet deepspeed_sheet(const MemoryAnswer& answer) {
  const DeepSpeedComparison& comparison = *answer.deepspeed;
  const DeepSpeedJob& job = comparison.job;
  const auto parameters = [](std::int64_t count) -> Value {
    return {count, format_count(static_cast<double>(count))};
  };
  Sheet out{{"parameters", parameters(job.parameters)},
            {"largest_layer", parameters(job.largest_layer)},
            {"gpus_per_node", counted(job.gpus_per_node, "GPU")},
            {"nodes", counted(job.nodes, "node")},
            {"slices_per_node", job.slices_per_node}};
  out.heading(
      "DeepSpeed's estimators for {parameters} parameters, the largest layer "
      "{largest_layer}, {nodes} of {gpus_per_node}");
  Table table({"rule:", "gpu_bytes: GPU, each", "host_bytes: CPU, per node"});
  for (const NamedEstimate& estimate : comparison.estimates)
    table.row({{"rule", estimate.rule},
               {"gpu_bytes", estimate.bytes.gpu},
               {"host_bytes", estimate.bytes.host}});
  const std::vector<std::string> reasons = reasons_of_difference(answer);
  out.facts({{"estimates", table.json()}, {"differences", reasons}});
  if (comparison.estimates.empty()) {
    out.say("there is none for ZeRO {}", {std::to_string(answer.planned.plan.zero_stage)}, kIndent);
    return out;
  }
  const TierUse& gpu = use_of(answer, Tier::kGpu);
  const TierUse& cpu = use_of(answer, Tier::kCpu);
  table.words_row({"placed", gpu.peak, cpu.peak});
  table.words_row({"  model states of it", bytes_of(gpu, true), bytes_of(cpu, true)});
  table.words_row({"  other of it", bytes_of(gpu, false), bytes_of(cpu, false)});
  table.words_row({"  gaps of the placement", gpu.gaps(), cpu.gaps()});
  out.print(table.text(kIndent) + "Why they differ\n");
  for (const std::string& reason : reasons) out.say("- {}", {reason}, kIndent);
  return out;
}

}  // namespace

DeepSpeedComparison compare_with_deepspeed(const PlannedJob& planned, const Cluster& cluster) {
  const Plan& plan = planned.plan;
  DeepSpeedComparison result{
      .job = deepspeed_job(plan, planned.model, cluster.node.devices_per_node), .estimates = {}};
  const auto add = [&](const char* rule, DeepSpeedRule which, bool zero_init) {
    if (const auto bytes = deepspeed_estimate(plan, result.job, which, zero_init))
      result.estimates.push_back({rule, *bytes});
  };
  if (plan.zero_stage == 2) {
    add("current rule", DeepSpeedRule::kCurrent, true);
    add("rule of the documentation", DeepSpeedRule::kDocumented, true);
  } else {
    add("with zero.Init", DeepSpeedRule::kCurrent, true);
    add("without zero.Init", DeepSpeedRule::kCurrent, false);
  }
  return result;
}

std::vector<std::string> reasons_of_difference(const MemoryAnswer& answer) {
  const Plan& plan = answer.planned.plan;
  std::vector<std::string> reasons;
  reasons.push_back(
      fmt::format("the estimators know model states only; placed beside them on a "
                  "GPU: {}",
                  other_categories(use_of(answer, Tier::kGpu))));
  reasons.push_back(fmt::format(
      "they count up to 20 bytes per parameter, 16-bit and fp32 gradients among them; this plan "
      "keeps {}, gradients {}",
      plan.state_bytes().value,
      plan.micro_steps() > plan.updates() ? "for the whole step" : "from backward to the update"));
  reasons.emplace_back(
      "they take half as much again for buffers on the host (factor 1.5), and there also what "
      "loading the model needs; placed are the buffers that are used");
  if (plan.zero_stage == 3)
    reasons.push_back(fmt::format(
        "for gathered parameters they add one copy of the largest layer with its gradients; this "
        "plan gathers by {}, {} ahead",
        gather_words(plan.gather), plan.prefetch));
  const StatePlacement& at = plan.placement;
  if (std::max({at.params, at.grads, at.optimizer}) == Tier::kNvme)
    reasons.push_back(fmt::format("what is on NVMe ({} per node) they count as host memory",
                                  format_bytes(use_of(answer, Tier::kNvme).peak)));
  if (plan.parallel.tp * plan.parallel.pp > 1)
    reasons.emplace_back(
        "they know no tensor or pipeline parallelism: asked about the mean slice of the model, "
        "once for each slice on a node");
  return reasons;
}

Sheet memory_answer_sheet(const MemoryAnswer& answer) {
  const Sheet memory = memory_sheet(answer.memory, kIndent, kCategoryCount);
  const Value calibration = memory_calibration_value(answer.memory_calibration);
  Sheet out("zplan.memory/1");
  if (!answer.memory.infeasible) out.print(fullest_line(answer.memory));
  out.print(calibration.words);
  say_plan(out, answer.planned, answer.cluster, answer.memory, memory);
  say_memory(out, memory);
  if (find_kernel_set(answer.planned.plan.kernel_set).runs_on != RunsOn::kCpu) {
    out.heading("As a caching allocator would hold it (one GPU; changes no offset)");
    out.print(memory["allocator"].words);
  }
  out.fact("infinity", infinity_sheet(answer.planned, answer.cluster, answer.memory.use, kIndent));
  out.show({"infinity"});
  out.fact("deepspeed", answer.deepspeed ? Value(deepspeed_sheet(answer)) : nullptr);
  out.show({"deepspeed"});
  out.heading("Fingerprint {fingerprint}");
  out.fact("memory_calibration", calibration);
  return out;
}

}  // namespace zplan
