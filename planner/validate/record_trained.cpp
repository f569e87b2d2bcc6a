#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "planner/core/text.h"
#include "planner/plan/choice_text.h"
#include "planner/validate/record_subjects.h"

namespace zplan {
namespace {

using Names = std::set<std::string>;

// Groups of matrices by the names of their members.
struct Group {
  LoraTargets targets;
  Names members;
};
const std::array<Group, 4>& groups() {
  static const std::array<Group, 4> all{{
      {LoraTargets::kAll, {"q", "k", "v", "o", "gate", "up", "down"}},
      {LoraTargets::kAttention, {"q", "k", "v", "o"}},
      {LoraTargets::kMlp, {"gate", "up", "down"}},
      {LoraTargets::kQkv, {"q", "k", "v"}},
  }};
  return all;
}

// Groups count as their members; an MLP that is not gated has no gate.
Names members_of(const std::vector<std::string>& targets, bool gated) {
  Names out;
  for (const std::string& target : targets) {
    const auto group = std::ranges::find_if(
        groups(), [&](const Group& one) { return name(one.targets) == target; });
    if (target == "fc1") {
      out.insert({"gate", "up"});
    } else if (group == groups().end()) {
      out.insert(target);
    } else {
      out.insert(group->members.begin(), group->members.end());
    }
  }
  if (!gated && out.contains("up")) out.insert("gate");
  return out;
}

// The group with these members, else the smallest that has them among others: queries, keys and
// values are one product, which has factors or none.
void choose_lora(const RunRecord& run, PlannedRun& out) {
  TrainedChoice& train = out.plan.train;
  const RunTrained& stated = run.trained;
  train.rank = stated.lora_rank.value_or(train.rank);
  train.alpha = stated.lora_alpha.value_or(train.alpha);
  if (stated.base && std::ranges::find(kBaseTypeWords, *stated.base) != kBaseTypeWords.end())
    set_choice(out.plan, "/train/base", *stated.base);
  const auto method = run.facts.find("/trained/method");
  const bool is_qlora =
      method != run.facts.end() && to_lower(method->second).find("qlora") != std::string::npos;
  if (is_qlora && !stated.base) {
    train.base = BaseType::kNf4;
    out.flags.emplace_back("QLoRA with a base of nf4, whose scales are not quantised");
  }
  if (stated.lora_saved) set_choice(out.plan, "/train/saved", *stated.lora_saved);
  if (!stated.lora_targets) return;
  const Names members = members_of(*stated.lora_targets, run.model.gated_ffn);
  const Group* smallest = &groups().front();
  for (const Group& group : groups())
    if (group.members.size() < smallest->members.size() &&
        std::ranges::includes(group.members, members))
      smallest = &group;
  train.targets = smallest->targets;
  if (smallest->members != members)
    out.flags.push_back(fmt::format("LoRA of {} as of {}", joined(*stated.lora_targets, ", "),
                                    name(train.targets)));
}

// Embeddings, final norm and head are frozen together or not at all.
Reason choose_frozen(const std::vector<std::string>& parts, TrainedChoice& train) {
  static const Names ends{"embeddings", "final_norm", "head"};
  const Names frozen(parts.begin(), parts.end());
  if (frozen.empty() || (frozen == ends && train.what == Trained::kLayers)) return std::nullopt;
  if (frozen != ends)
    return not_modelled(fmt::format("{} frozen, the rest trained", joined(parts, ", ")));
  train.what = Trained::kLayers;
  return std::nullopt;
}

}  // namespace

Reason choose_trained(const RunRecord& run, PlannedRun& out) {
  TrainedChoice& train = out.plan.train;
  if (run.trained.what)
    train.what = static_cast<Trained>(std::ranges::find(kTrainedWords, *run.trained.what) -
                                      kTrainedWords.begin());
  // [derived] The entropy of all words is a pass over the logits more, where two are counted.
  constexpr double kEntropy = 1.5;
  if (run.trained.objective == "rl") out.cluster.stack.loss *= kEntropy;
  if (train.has_lora() && out.plan.optimizer.row().has_two_rules()) {
    out.flags.push_back(fmt::format("factors of LoRA updated by adamw instead of {}",
                                    out.plan.optimizer.row().word));
    out.plan.optimizer.kind = OptimizerKind::kAdamW;
  }
  if (train.has_lora()) {
    choose_lora(run, out);
    return std::nullopt;
  }
  return run.trained.frozen ? choose_frozen(*run.trained.frozen, train) : std::nullopt;
}

}  // namespace zplan
