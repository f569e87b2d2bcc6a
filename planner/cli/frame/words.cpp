#include "planner/cli/frame/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "hwprofiles/quantities.h"
#include "planner/cli/frame/departures.h"
#include "planner/core/quantity.h"
#include "planner/core/text.h"
#include "planner/lower/blocks/expert_rows.h"
#include "planner/plan/choices.h"
#include "planner/plan/plan_difference.h"
#include "planner/plan/plan_schedule.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

std::string upper_tier(Tier tier) {
  if (tier == Tier::kGpu) return "GPU";
  return tier == Tier::kCpu ? "CPU" : "NVMe";
}

// "fp16" as people write it, "f16" as files do.
std::string format_name(DType dtype) {
  const std::string word(name(dtype));
  return word.starts_with('f') ? "fp" + word.substr(1) : word;
}

std::string precision_words(const Plan& plan) {
  const PrecisionRecipe& r = plan.precision;
  const std::string param = format_name(r.param), grad = format_name(r.grad);
  const std::string master = format_name(r.master), moments = format_name(r.moments);
  std::string out = param == grad ? param + " parameters and gradients"
                                  : param + " parameters, " + grad + " gradients";
  const std::string compute = format_name(find_kernel_set(plan.kernel_set).compute);
  if (plan.casts_params()) out += fmt::format(", cast to {} at the gather", compute);
  if (r.grad_cast != GradientCast::kNone)
    out += ", reduced in " + (r.grad_cast == GradientCast::kBeforeReduction ? grad : compute);
  if (r.main_grad) out += " with " + moments + " copies";
  const UpdateRule& rule = plan.optimizer.row().matrices;
  if (rule.moments == 0 && !rule.factored)
    return out + (plan.keeps_master() ? ", " + master + " master copy" : ", no master copy");
  const std::string kept =
      rule.in_blocks ? fmt::format("8-bit moments in blocks of {}", plan.optimizer.block)
                     : moments + (rule.factored ? " moments of rows and columns" : " moments");
  if (!plan.keeps_master()) return out + ", " + kept + ", no master copy";
  out += ", " + master + " master copy";
  const bool alike = master == moments && !rule.in_blocks && !rule.factored;
  return out + (alike ? " and moments" : ", " + kept);
}

// [Rajbhandari20 sec 5]
std::string zero_words(const Plan& plan) {
  constexpr std::string_view kSharded[] = {"nothing", "optimizer states",
                                           "optimizer states and gradients", "all model states"};
  if (plan.replicas() == 1) return fmt::format("ZeRO {} (one replica)", plan.zero_stage);
  const bool grouped_shards = plan.zero_stage > 0 && plan.shards() != plan.replicas();
  return fmt::format("ZeRO {} ({} sharded{})", plan.zero_stage,
                     kSharded[static_cast<std::size_t>(plan.zero_stage)],
                     grouped_shards ? fmt::format(" over groups of {}", plan.shards()) : "");
}

// What moves together, where that is worth saying: "; gather by operator in 2 tiles, 1 ahead".
std::string unit_words(const Plan& plan) {
  if (plan.gather.owned())
    return fmt::format("; each layer owned by one rank, broadcast {} ahead", plan.prefetch);
  const std::string unit = gather_words(plan.gather);
  if (plan.zero_stage == 3) return fmt::format("; gather by {}, {} ahead", unit, plan.prefetch);
  return plan.gather.layers() > 1 && plan.replicas() > 1 ? "; reduce by " + unit : "";
}

std::string mode_words(const Plan& plan, const RecomputeRun& run) {
  const Recompute mode = plan.effective(run.mode);
  if (mode == Recompute::kOperators) return joined(words_of(run), "+");
  return mode == Recompute::kNone ? "no" : std::string(name(mode));
}

// "4 data parallel, 2 tensor parallel with sequence parallelism, 2 pipeline stages (1F1B)"
std::string parallel_words(const Plan& plan) {
  const Parallel& p = plan.parallel;
  std::vector<std::string> parts = {fmt::format("{} data parallel", grouped(p.dp))};
  if (p.ep > 1 && !p.folds_experts())
    parts.back() += fmt::format(" with experts over {} each", p.ep);
  if (p.cp > 1) {
    const std::string how = p.ring == 1      ? "Ulysses"
                            : p.ring == p.cp ? "a ring"
                                             : fmt::format("rings of {}, Ulysses", p.ring);
    parts.push_back(fmt::format("{} context parallel ({})", p.cp, how));
  }
  if (p.tp > 1) {
    parts.push_back(fmt::format("{} tensor parallel{}", p.tp,
                                p.sequence_parallel ? " with sequence parallelism" : ""));
    if (p.folds_experts())
      parts.back() += fmt::format(", whole experts over {} of all these", p.ep);
  }
  if (!plan.gpus.empty())
    parts.push_back(fmt::format("GPUs {} of each node", joined(plan.gpus, " ")));
  if (p.pp == 1) {
    parts.emplace_back("no pipeline");
    return joined(parts, ", ");
  }
  const std::string chunks =
      plan.pieces() > p.pp ? fmt::format(", {} chunks each", plan.pieces() / p.pp) : "";
  const std::string rounds =
      p.flushes > 1 ? fmt::format(", run empty {} times in a step", p.flushes) : "";
  const bool uneven = !plan.stage_layers.empty();
  parts.push_back(fmt::format(
      "{} pipeline stages ({}{}{}{})", p.pp, title(plan.schedule), chunks, rounds,
      uneven ? fmt::format("; layers {}", joined(plan.stage_layers, ", ")) : std::string()));
  return joined(parts, ", ");
}

// "experts: no choice is dropped; room for 8,192 rows from a rank to each of 4, 4.00 times an even
// load".
std::string expert_words(const Plan& plan, const ModelConfig& model) {
  const ExpertRows rows(
      {plan, find_kernel_set(plan.kernel_set), model.hidden, model.layers, plan.rank_sequence()},
      *model.experts);
  const std::int64_t choices = rows.tokens * model.experts_per_token();
  const std::string dropped =
      rows.capacity > 0 ? fmt::format("each takes up to {} of a sequence, others are dropped",
                                      count_of(rows.capacity, "token"))
                        : "no choice is dropped";
  const std::string busiest =
      plan.expert_imbalance > 1
          ? fmt::format("; the busiest rank has {} times the mean to do", plan.expert_imbalance)
          : "";
  const std::string gathered = plan.dispatcher == Dispatcher::kAllGather
                                   ? "; all tokens come to each rank by all-gather"
                                   : "";
  return fmt::format("experts: {}; room for {}{}, {:.2f} times an even load{}{}", dropped,
                     count_of(rows.room, "row"),
                     rows.ranks > 1 ? fmt::format(" from a rank to each of {}", rows.ranks) : "",
                     static_cast<double>(rows.room * rows.ranks) / static_cast<double>(choices),
                     busiest, gathered);
}

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-_./=:,+@%").find(c) != std::string_view::npos;
}

std::string network_words(const Cluster& cluster) {
  const NetworkSpec& network = cluster.network;
  std::string words;
  if (network.has_leaves()) {
    words += fmt::format(", {}leaves of {} at {}:1{}", network.rails ? "rails in " : "",
                         count_of(network.nodes_per_leaf, "node"), network.oversubscription,
                         network.scattered ? ", nodes scattered over them" : "");
  }
  if (network.rules) {
    std::vector<std::string> sets;
    for (const SwitchSet& set : network.rules->switches) {
      const auto count =
          std::accumulate(set.shape.begin(), set.shape.end(), std::int64_t{1}, std::multiplies<>());
      sets.push_back(fmt::format("{} {}", count, set.name));
    }
    words += fmt::format(", switches: {}", joined(sets, ", "));
    if (!network.rules->weak.empty())
      words += ", " + count_of(static_cast<std::int64_t>(network.rules->weak.size()), "weak link");
  }
  if (cluster.fast_link_domain > 0)
    words += fmt::format(", fast links among {}", cluster.fast_link_domain);
  return words;
}

}  // namespace

std::string placement_words(const Plan& plan) {
  const StatePlacement& at = plan.placement;
  std::vector<std::pair<std::string, Tier>> states;
  for (const ModelState state : kModelStates) {
    constexpr std::string_view kWords[] = {"parameters", "gradients", "optimizer states"};
    const std::string_view words = kWords[static_cast<std::size_t>(state)];
    const std::optional<Tier> near = at.near(state);
    if (near)
      states.emplace_back(
          fmt::format("{} of {:.4g} % of the layers", words, 100 * at.near_share(state)), *near);
    states.emplace_back(fmt::format("{}{}", near ? "other " : "", words), at.of(state));
  }
  if (plan.all_full()) {
    states.emplace_back(plan.partition_activations ? "cut checkpoints" : "checkpoints",
                        at.activations);
  } else if (at.activations != Tier::kGpu) {
    states.emplace_back("inputs of layers", at.activations);
  }
  std::vector<std::string> parts;
  for (const Tier tier : {Tier::kGpu, Tier::kCpu, Tier::kNvme}) {
    std::vector<std::string> here;
    for (const auto& [state, home] : states) {
      if (home == tier) here.push_back(state);
    }
    if (!here.empty())
      parts.push_back(fmt::format("{} on {}", joined(here, ", "), upper_tier(tier)));
  }
  return joined(parts, "; ");
}

std::string gather_words(const Gather& gather) {
  if (gather.layers() > 1) return fmt::format("{} layers", gather.layers());
  if (gather.tiles() > 1) return fmt::format("operator in {} tiles", gather.tiles());
  return gather.by_layer() ? "layer" : "operator";
}

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<std::int64_t>(digits.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

std::string duration_words(Seconds time) {
  constexpr double kMinute = 60, kHour = 3600, kDay = 86400;  // s
  if (time.value < 2 * kMinute) return format_seconds(time);
  const std::string seconds = grouped(std::llround(time.value)) + " s";
  const auto in = [&](double unit, std::string_view word) {
    return fmt::format("{} ({:.3g} {})", seconds, time.value / unit, word);
  };
  if (time.value < 2 * kHour) return in(kMinute, "min");
  return time.value < 2 * kDay ? in(kHour, "h") : in(kDay, "days");
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string tflops(double value) {
  return value >= 100 ? fmt::format("{:.0f}", value)
         : value >= 1 ? fmt::format("{:.1f}", value)
                      : fmt::format("{:.3g}", value);
}

std::string count_of(std::int64_t n, std::string_view noun) {
  return fmt::format("{} {}{}", grouped(n), noun, n == 1 ? "" : "s");
}

std::string tier_words(Tier tier) {
  return fmt::format("{} {} per {}", upper_tier(tier), tier == Tier::kNvme ? "space" : "memory",
                     tier == Tier::kGpu ? "GPU" : "node");
}

std::string shortage(const Infeasible& why) {
  const auto [needed, available] = format_apart(why.needed, why.available);
  return fmt::format("{}{} of {} needed, {} there", why.is_bound() ? "at least " : "", needed,
                     tier_words(why.tier), available);
}

std::string full_reason(const Infeasible& why) {
  std::string out = shortage(why);
  if (!why.peak_op.empty()) out += fmt::format("; fullest at {}", why.peak_op);
  if (!why.largest.empty()) {
    constexpr std::size_t kShown = 3;
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < std::min(kShown, why.largest.size()); ++i) {
      parts.push_back(fmt::format("{} {}", why.largest[i].name, format_bytes(why.largest[i].size)));
    }
    out += fmt::format("; largest: {}", joined(parts, ", "));
  }
  if (!why.smallest_change.empty()) out += fmt::format("; would fit: {}", why.smallest_change);
  return out;
}

std::string recompute_words(const Plan& plan) {
  const bool keeps_away =
      std::any_of(plan.recompute.begin(), plan.recompute.end(),
                  [](const RecomputeRun& run) { return !(run.on_cpu | run.on_nvme).empty(); });
  if (plan.recompute.size() == 1 && keeps_away)
    return "recomputed or kept elsewhere: " + mode_words(plan, plan.recompute[0]);
  if (plan.recompute.size() == 1)
    return mode_words(plan, plan.recompute[0]) + " recomputation" +
           (plan.checkpoint_layers > 1
                ? fmt::format(" of {} layers at a time", plan.checkpoint_layers)
                : "");
  std::vector<std::string> runs;
  for (const RecomputeRun& run : plan.recompute) {
    const std::string layers = run.layers > 0 ? count_of(run.layers, "layer") : "the others";
    const std::string mode = mode_words(plan, run);
    runs.push_back(fmt::format("{} for {}", mode == "no" ? "none" : mode, layers));
  }
  return "recomputation: " + joined(runs, ", ");
}

std::vector<std::string> plan_lines(const Plan& plan) {
  std::vector<std::string> lines;
  lines.push_back(parallel_words(plan) + "; " + zero_words(plan));
  lines.push_back(fmt::format("micro-batch {}, {} per step; {}",
                              count_of(plan.batch.micro_batch, "sequence"),
                              count_of(plan.micro_steps(), "micro-step"), recompute_words(plan)));
  lines.push_back(placement_words(plan) + unit_words(plan));
  std::vector<std::string> extras = {precision_words(plan)};
  if (const std::size_t recipe = recipe_index(plan); recipe > 0)
    extras.front() = fmt::format("{} precision ({})", recipe_name(recipe), extras.front());
  for (const Decision& row : kChoices)
    if (!row.said.empty() && !row.is_plain(plan)) extras.emplace_back(row.said);
  if (plan.head_chunks > 1)
    extras.push_back(fmt::format("output head in {} pieces", plan.head_chunks));
  if (plan.train.what == Trained::kLayers) extras.emplace_back("only layers are trained");
  if (plan.train.has_lora())
    extras.push_back(fmt::format("LoRA of rank {}, alpha {}{}", plan.train.rank, plan.train.alpha,
                                 plan.train.targets == LoraTargets::kAll
                                     ? ""
                                     : fmt::format(", of {}", name(plan.train.targets))));
  if (plan.train.base != BaseType::kCompute)
    extras.push_back(fmt::format("frozen parameters in {}", name(plan.train.base)));
  if (plan.train.saved != LoraSaved::kNone)
    extras.push_back(fmt::format("{} trained in full", plan.train.saved == LoraSaved::kBoth
                                                           ? "embedding and head"
                                                           : name(plan.train.saved)));
  if (plan.train.vision == VisionTrained::kProjector)
    extras.emplace_back("projectors alone of the vision tower trained");
  if (plan.train.vision == VisionTrained::kNone) extras.emplace_back("vision tower frozen");
  if (plan.optimizer.kind != OptimizerKind::kAdamW) extras.emplace_back(plan.optimizer.row().title);
  if (plan.loss_scaling) extras.emplace_back("loss scaling");
  if (plan.launch == LaunchMode::kGraph) extras.emplace_back("launched as graphs");
  extras.emplace_back(plan.clip ? "clipping" : "no clipping");
  const bool runs = find_kernel_set(plan.kernel_set).runs_on != RunsOn::kNowhere;
  lines.push_back(fmt::format("{}{}: {}", plan.kernel_set,
                              runs ? "" : " (planned and simulated only, without kernels that run)",
                              joined(extras, ", ")));
  if (const std::vector<std::string> others = departures(plan); !others.empty())
    lines.push_back(fmt::format("unlike plain training: {}", joined(others, "; ")));
  return lines;
}

std::vector<std::string> plan_lines(const Plan& plan, const ModelConfig& model) {
  std::vector<std::string> lines = plan_lines(plan);
  if (model.experts) lines.push_back(expert_words(plan, model));
  return lines;
}

std::string changes_words(const Cluster& cluster) {
  std::string words;
  for (const ValueSource& source : cluster.sources)
    if (source.source == kGiven)
      words +=
          fmt::format("{}{} {}", words.empty() ? "; with " : ", ", source.pointer, source.value);
  return words;
}

std::string cluster_words(const Cluster& cluster) {
  const HwProfile& node = cluster.node;
  const bool is_cpu = node.device.kernel_set.starts_with("cpu.");
  if (!cluster.groups.empty()) {
    std::vector<std::string> kinds;
    for (const NodeGroup& group : cluster.groups)
      kinds.push_back(fmt::format("{} of {}", count_of(group.nodes, "node"), group.node));
    return fmt::format("{}, {} in all{}", joined(kinds, ", "), count_of(cluster.devices(), "GPU"),
                       network_words(cluster));
  }
  return fmt::format(
      "{} of {} {}, {}{}{}", count_of(cluster.nodes, "node"), node.devices_per_node,
      node.device.name,
      is_cpu ? "CPU workers in place of GPUs" : count_of(cluster.devices(), "GPU") + " in all",
      network_words(cluster), changes_words(cluster));
}

std::vector<std::string> changed_decisions(const Plan& plan, const Plan& other) {
  std::vector<std::string> changed;
  for (const DecisionChange& change : plan_difference(plan, other)) {
    if (change.pointer == "/slack") continue;
    const std::string_view option = decision(change.pointer).option.name;
    const std::string_view word = change.pointer.substr(change.pointer.rfind('/') + 1);
    changed.push_back(fmt::format("{} {}", option.empty() ? word : option, change.after));
  }
  return changed;
}

std::string shell_word(const std::string& word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string shell_words(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += " " + shell_word(word);
  return out;
}

}  // namespace zplan
