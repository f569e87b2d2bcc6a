#include "planner/cli/predict/infinity_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "models/zero_infinity.h"
#include "planner/cli/frame/table.h"
#include "planner/cli/frame/words.h"
#include "planner/core/quantity.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

using Categories = std::vector<Category>;

Bytes bytes_of(const TierUse& use, const Categories& categories) {
  Bytes sum{0};
  for (const Category category : categories)
    sum += use.by_category[static_cast<std::size_t>(category)];
  return sum;
}

Value placed(const MemoryUse& use, Tier tier, const Categories& categories) {
  const Bytes bytes = bytes_of(use[static_cast<std::size_t>(tier)], categories);
  return right({bytes, bytes.value > 0 ? format_bytes(bytes) : "-"});
}

// Sequences that the GPUs of a node work on at once: of a replica its share in the node.
double sequences_of_node(const Plan& plan, const Cluster& cluster) {
  const Parallel& p = plan.parallel;
  const std::int64_t ranks = std::min<std::int64_t>(p.ranks(), cluster.node.devices_per_node);
  return static_cast<double>(plan.batch.micro_batch * ranks) /
         static_cast<double>(std::int64_t{p.tp} * p.pp * p.cp);
}

struct Measure {
  const char* words;
  const char* of;
  double printed, layers;
  Categories placed;
};

std::vector<Measure> measures(const PlannedJob& planned, const Cluster& cluster) {
  using enum Category;
  const Plan& plan = planned.plan;
  const bool scores = !find_kernel_set(plan.kernel_set).fused_attention;
  const auto sequence = static_cast<double>(plan.batch.sequence);
  const double interval = plan.checkpoint_layers;
  const InfinityBatch node{sequences_of_node(plan, cluster), sequence, interval};
  const InfinityBatch gpu{static_cast<double>(plan.batch.micro_batch), sequence, interval};
  const InfinityMemory form = printed_memory(planned.model, node);
  const InfinityMemory own = layer_memory(planned.model, node, scores);
  const InfinityMemory form_gpu = printed_memory(planned.model, gpu);
  const InfinityMemory own_gpu = layer_memory(planned.model, gpu, scores);
  const bool is_checkpointed = plan.all_full();
  const Categories kept{kActivations}, none{};
  const Categories states{kParameters, kGradients, kOptimizer};
  return {{"model states, 16 B per parameter", "model", form.states_16, own.states_16,
           plan.state_bytes().value < 20 ? states : none},
          {"model states, 20 B per parameter", "model", form.states_20, own.states_20,
           plan.state_bytes().value < 20 ? none : states},
          {"activations, nothing recomputed", "node", form.activations, own.activations,
           is_checkpointed ? none : kept},
          {"activation checkpoints", "node", form.checkpoints, own.checkpoints, {kCheckpoints}},
          {"model state working memory (MSWM)",
           "GPU",
           form_gpu.working_states,
           own_gpu.working_states,
           {kGathered}},
          {"activation working memory (AWM)", "GPU", form_gpu.working_activations,
           own_gpu.working_activations, is_checkpointed ? kept : none}};
}

}  // namespace

std::string fullest_line(const MemoryPrediction& memory) {
  const auto share_of = [&](int t) {
    const TierUse& use = memory.use[static_cast<std::size_t>(t)];
    const auto there = static_cast<double>(use.available().value);
    return there > 0 ? static_cast<double>(use.peak.value) / there : 0.0;
  };
  int fullest = 0;
  for (int t = 1; t < kTierCount; ++t)
    if (share_of(t) > share_of(fullest)) fullest = t;
  const TierUse& use = memory.use[static_cast<std::size_t>(fullest)];
  const auto most = std::max_element(use.by_category.begin(), use.by_category.end());
  const auto category = static_cast<Category>(most - use.by_category.begin());
  const auto [taken, available] = format_apart(use.peak, use.available());
  return fmt::format("Fits; {} limits: {} of {} there is taken ({}), most by {}\n",
                     tier_words(static_cast<Tier>(fullest)), taken, available,
                     percent(share_of(fullest)), name(category));
}

Sheet infinity_sheet(const PlannedJob& planned, const Cluster& cluster, const MemoryUse& use,
                     std::size_t indent) {
  const Plan& plan = planned.plan;
  const auto counted = [](double count) -> Value { return {count, format_count(count)}; };
  Sheet out{{"parameters_printed", counted(printed_memory(planned.model, {}).parameters)},
            {"parameters", counted(layer_memory(planned.model, {}, false).parameters)},
            {"node_sequences", sequences_of_node(plan, cluster)},
            {"gpu_sequences", plan.batch.micro_batch},
            {"quantities", nullptr}};
  out.heading("As ZeRO-Infinity counts it (Fig. 2a), beside what is placed");
  Table table({"quantity", "of", "printed_bytes: its form", "layers_bytes: own layers",
               "gpu_bytes: placed: GPU", "cpu_bytes: CPU, node", "nvme_bytes: NVMe, node"});
  for (const Measure& one : measures(planned, cluster))
    table.row({{"quantity", one.words},
               {"of", one.of},
               {"printed_bytes", right_bytes(one.printed)},
               {"layers_bytes", right_bytes(one.layers)},
               {"gpu_bytes", placed(use, Tier::kGpu, one.placed)},
               {"cpu_bytes", placed(use, Tier::kCpu, one.placed)},
               {"nvme_bytes", placed(use, Tier::kNvme, one.placed)}});
  out.table("quantities", table, indent);
  out.say(
      "its form: of 12 nl hd^2 = {parameters_printed} parameters in layers of GPT's shape; own "
      "layers: of the model's {parameters}",
      indent);
  out.say(
      "sequences at a time: {} on a node, {} for a GPU by itself; placed is at the fullest "
      "moment, of what tensor parallel ranks, tiles and stages leave on each",
      {fmt::format("{:g}", sequences_of_node(plan, cluster)), grouped(plan.batch.micro_batch)},
      indent);
  return out;
}

}  // namespace zplan
