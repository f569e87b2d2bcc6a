// Which plans there are: all combinations of the free choices, those without a Job left out.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <unordered_set>

#include "hwprofiles/seating.h"
#include "planner/core/error.h"
#include "planner/core/text.h"
#include "planner/plan/limits.h"
#include "planner/plan/plan_difference.h"
#include "planner/plan/refusal.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/search/attention_kernels.h"
#include "planner/search/bucket.h"
#include "planner/search/outside_space.h"
#include "planner/search/search.h"

namespace zplan {
namespace {

// What is pinned, or all.
template <typename T>
std::vector<T> choices(const Pins& pins, std::string_view pointer, std::vector<T> all) {
  if (pins.has(pointer)) return {pins.get<T>(pointer, T{})};
  return all;
}

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> small, large;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    small.push_back(d);
    if (d * d != n) large.push_back(n / d);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

void require_positive(std::string_view what, const Pins& pins, std::string_view pointer) {
  const auto pin = pins.get<std::int64_t>(pointer, 1);
  if (pin < 1) throw_bad_input(fmt::format("{} must be at least 1, not {}", what, pin));
}

void require_sane(const Batch& batch) {
  if (batch.global_batch < 1 || batch.global_batch > kMaxGlobalBatch)
    throw_bad_input(
        fmt::format("global batch {} is outside 1..{}", batch.global_batch, kMaxGlobalBatch));
  if (batch.sequence < 1 || batch.sequence > kMaxSequence)
    throw_bad_input(fmt::format("sequence {} is outside 1..{}", batch.sequence, kMaxSequence));
  if (batch.global_batch * batch.sequence > kMaxTokensPerStep)
    throw_bad_input(fmt::format("global batch {} x sequence {} exceeds {} tokens per step",
                                batch.global_batch, batch.sequence, kMaxTokensPerStep));
}

// That ranks may have.
std::int64_t devices_of(const Cluster& cluster, const Pins& pins) {
  const std::int64_t all = Seating(cluster, pins.values().gpus).devices();
  if (pins.ranks > all)
    throw_bad_input(fmt::format("--gpus: expected at most {}, which {} has, got {}", all,
                                cluster.name, pins.ranks));
  return pins.ranks > 0 ? pins.ranks : all;
}

// Stages that the devices can be cut into, each with a layer.
std::vector<std::int32_t> stage_counts(const ModelConfig& model, std::int64_t devices) {
  std::vector<std::int32_t> result;
  for (const std::int64_t pp : divisors(devices))
    if (pp <= std::min(model.layers, kMaxStages)) result.push_back(static_cast<std::int32_t>(pp));
  return result;
}

// Sizes of tensor parallel groups that need no network; those that do not cut the model evenly fail
// later.
std::vector<std::int32_t> tensor_sizes(const ModelConfig& model, const Cluster& cluster) {
  std::vector<std::int32_t> result;
  for (const std::int64_t tp : divisors(cluster.island()))
    if (model.heads % tp == 0 && model.kv_heads % tp == 0 && model.ffn % tp == 0)
      result.push_back(static_cast<std::int32_t>(tp));
  return result;
}

// Sizes of context parallel groups that need no network, of those that the space has.
std::vector<std::int32_t> context_sizes(const ModelConfig& model, const Cluster& cluster,
                                        const Pins& pins) {
  const auto sequence = pins.get("/batch/sequence", model.sequence);
  const auto sequences = pins.get("/batch/global_batch", model.global_batch);
  const bool pairs = has_pairs(sequence, sequences, devices_of(cluster, pins));
  const std::int64_t most = sequence >= kLongSequence ? cluster.island() : pairs ? 2 : 1;
  std::vector<std::int32_t> result;
  for (const std::int64_t cp : divisors(cluster.island()))
    if (cp <= most && model.heads % cp == 0) result.push_back(static_cast<std::int32_t>(cp));
  return result;
}

[[noreturn]] void too_many_ranks(const Cluster& cluster, const Pins& pins) {
  if (pins.ranks > 0)
    throw_bad_input(fmt::format("--gpus: no plan with what is pinned has {} ranks", pins.ranks));
  std::vector<std::string> pinned;
  std::vector<std::string_view> words;
  for (const Decision& row : kChoices) {
    if (!row.counts_ranks) continue;
    const bool is_pinned = pins.has(row.pointer);
    if (is_pinned || !row.optional) words.push_back(row.word());
    if (is_pinned)
      pinned.push_back(
          fmt::format("{} {}", row.word(), std::get<std::int64_t>(row.field.get(pins.values()))));
  }
  Parallel others = pins.values().parallel;
  others.dp = 1;
  const std::int64_t devices = devices_of(cluster, pins);
  const bool room = pins.has("/parallel/dp") && others.ranks() <= devices;
  throw_bad_input(fmt::format(
      "{} needs more than the {} devices of {}; {}", joined(pinned, " x "), devices, cluster.name,
      room ? fmt::format("dp {} is possible", devices / others.ranks())
           : fmt::format("{} up to {} is possible", joined(words, " x "), devices)));
}

// Who says how many layers each stage has says how many stages there are.
Pins with_stages(Pins pins) {
  if (!pins.has("/parallel/stage_layers") || pins.has("/parallel/pp")) return pins;
  const auto pieces = static_cast<std::int32_t>(pins.values().stage_layers.size());
  const auto chunks = std::max(1, pins.get<std::int32_t>("/parallel/chunks", 1));
  pins.set("/parallel/pp", std::max(1, pieces / chunks));
  return pins;
}

// Returns whether tensor parallel ranks cut each expert, 0, or have whole ones, 1 (plan.h).
std::vector<std::int32_t> cuts_of_experts(const ModelConfig& model, const Parallel& shape) {
  if (model.experts && shape.sequence_parallel) return {0, 1};
  return {0};
}

// Adds a shape with each way to cut its layers and experts.
void add_cuts(Parallel shape, const ModelConfig& model, const Pins& pins,
              std::vector<Parallel>& result) {
  for (const bool split : choices<bool>(pins, "/parallel/sequence_parallel", {false, true})) {
    shape.sequence_parallel = split && shape.tp > 1;
    if (split && shape.tp == 1 && !pins.has("/parallel/sequence_parallel")) continue;
    for (const auto cuts :
         choices<std::int32_t>(pins, "/parallel/expert_tp", cuts_of_experts(model, shape))) {
      shape.expert_tp = cuts;
      result.push_back(shape);
    }
  }
}

// All (dp, tp, pp, cp): with free dp those that use all devices, or as many as whole replicas do
// where another count of ranks is pinned.
std::vector<Parallel> shapes(const ModelConfig& model, const Cluster& cluster, const Pins& pins) {
  const std::int64_t devices = devices_of(cluster, pins);
  const bool some_may_idle =
      pins.ranks == 0 &&
      std::any_of(std::begin(kChoices), std::end(kChoices),
                  [&](const Decision& row) { return row.counts_ranks && pins.has(row.pointer); });
  std::vector<Parallel> result;
  Parallel shape = pins.values().parallel;
  for (const auto pp : choices<std::int32_t>(pins, "/parallel/pp", stage_counts(model, devices)))
    for (const auto tp : choices<std::int32_t>(pins, "/parallel/tp", tensor_sizes(model, cluster)))
      for (const auto cp :
           choices<std::int32_t>(pins, "/parallel/cp", context_sizes(model, cluster, pins))) {
        shape.dp = 1;
        shape.tp = tp;
        shape.pp = pp;
        shape.cp = cp;
        const std::int64_t most = devices / shape.ranks();
        const bool fits = most >= pins.get<std::int32_t>("/parallel/dp", 1);
        shape.dp = pins.get("/parallel/dp", static_cast<std::int32_t>(most));
        if (!fits || (!some_may_idle && devices != shape.ranks())) continue;
        add_cuts(shape, model, pins, result);
      }
  if (result.empty()) too_many_ranks(cluster, pins);
  return result;
}

// Sizes of groups of replicas that share experts, or of all their ranks where each has whole ones.
std::vector<std::int32_t> expert_groups(const ModelConfig& model, const Parallel& shape,
                                        const Pins& pins) {
  const std::int64_t whole = shape.folds_experts() ? shape.tp : 1;
  std::vector<std::int32_t> sizes;
  if (model.experts)
    for (const std::int64_t ep : divisors(std::gcd(whole * shape.dp, model.experts->count)))
      if (ep % whole == 0) sizes.push_back(static_cast<std::int32_t>(ep));
  if (sizes.empty()) sizes.push_back(1);
  return choices<std::int32_t>(pins, "/parallel/ep", sizes);
}

// `micro`: the micro-batch, if it is pinned.
[[noreturn]] void batch_fits_nowhere(const std::vector<Parallel>& shapes, std::int64_t global_batch,
                                     std::optional<std::int64_t> micro) {
  std::vector<std::string> sizes;
  std::int64_t nearest = 0;
  for (const Parallel& shape : shapes) {
    const std::string size =
        fmt::format("{}dp {}", micro ? fmt::format("micro-batch {} x ", *micro) : "", shape.dp);
    if (std::find(sizes.begin(), sizes.end(), size) == sizes.end()) sizes.push_back(size);
    const std::int64_t here = nearest_multiple(global_batch, shape.dp * micro.value_or(1));
    if (nearest == 0 || std::abs(here - global_batch) < std::abs(nearest - global_batch))
      nearest = here;
  }
  throw_bad_input(fmt::format("global batch {} is no multiple of {}; the nearest that is: {}",
                              global_batch, joined(sizes, " or "), nearest));
}

// The combinations below one shape, micro-batch and recipe. Remembers why the illegal one is that
// comes nearest to a plan: what is free was of no help there.
class Leaves {
 public:
  Leaves(const ModelConfig& model, const Pins& pins)
      : model_(model), shape_(shape_of(model)), pins_(pins) {}

  void add(Plan plan) {
    const bool pinned = pins_.has("/recompute");
    for (const auto zero : choices<std::int32_t>(pins_, "/zero_stage", {0, 1, 2, 3})) {
      plan.zero_stage = zero;
      for (const Recompute mode : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
        if (plan.effective(mode) != mode) continue;
        plan.recompute = pinned ? pins_.values().recompute : std::vector<RecomputeRun>{{mode}};
        add_gathers(plan);
        if (pinned) break;
      }
    }
  }
  std::vector<Plan> take() {
    if (leaves_.empty()) throw_bad_input(refusal_.why);
    return std::move(leaves_);
  }

 private:
  void add_gathers(Plan plan) {
    const bool can_cut =
        plan.parallel.tp > 1 && !plan.parallel.sequence_parallel && plan.all_full();
    // Smaller units need more messages and, where they pass through rings, less memory. Layers are
    // none where tensor parallel ranks have parts of vectors beside whole routers (legality.cpp).
    const bool has_rings = plan.zero_stage >= 2;
    const bool no_layers = shape_.experts > 0 && shape_.cuts_vectors && plan.parallel.tp > 1;
    std::vector<Gather> units;
    if (!no_layers) units.push_back(Gather::kLayer);
    if (has_rings || no_layers) units.push_back(Gather::kOperator);
    if (pins_.bucket) units = {unit_of_bucket(*pins_.bucket, plan, model_)};
    for (const Gather gather : choices<Gather>(pins_, "/gather/unit", units))
      for (const bool cut : choices<bool>(pins_, "/partition_activations", {false, true})) {
        if (cut && !can_cut && !pins_.has("/partition_activations")) continue;
        plan.gather = gather;
        plan.partition_activations = cut;
        add_homes(plan);
      }
  }

  void add_homes(Plan plan) {
    std::vector<StatePlacement>& known =
        homes_[{plan.zero_stage, plan.all_full(), plan.replicas() == 1, plan.casts_params()}];
    if (known.empty()) known = legal_homes(plan);
    bool checked = false;  // what does not depend on the homes
    for (const StatePlacement& homes : known) {
      plan.placement = homes;
      if (!checked && !is_legal(plan)) return;
      checked = true;
      leaves_.push_back(plan);
    }
  }

  std::vector<StatePlacement> legal_homes(Plan plan) {
    const auto tiers = [this](std::string_view pointer) {
      return choices<Tier>(pins_, pointer, {Tier::kGpu, Tier::kCpu, Tier::kNvme});
    };
    const bool pinned = pins_.has("/placement/optimizer") &&
                        (pins_.has("/placement/params") || pins_.has("/placement/grads"));
    // Inputs of layers that are not checkpoints leave the GPU for pins only.
    const bool goes_away_anyhow = pins_.has("/placement/activations") && pins_.has("/recompute");
    std::vector<StatePlacement> result;
    for (const Tier params : tiers("/placement/params"))
      for (const Tier grads : tiers("/placement/grads"))
        for (const Tier optimizer : tiers("/placement/optimizer"))
          for (const Tier activations : tiers("/placement/activations")) {
            if (!pinned && farthest_beside_optimizer(params, grads) > optimizer) continue;
            const StatePlacement& given = pins_.values().placement;
            plan.placement = {params,
                              grads,
                              optimizer,
                              activations,
                              given.optimizer_near,
                              given.params_near,
                              given.grads_near};
            if (activations != Tier::kGpu && !plan.all_full() && !goes_away_anyhow) continue;
            if (!pins_.has("/zero_stage") && is_in_vain(plan)) continue;
            if (is_legal(plan)) result.push_back(plan.placement);
          }
    return result;
  }

  // Optimizer states are the largest and used least: other states do not leave for where they are
  // not. Those of the factors of LoRA are small beside the frozen parameters, which may.
  Tier farthest_beside_optimizer(Tier params, Tier grads) const {
    return pins_.values().train.has_lora() ? grads : std::max(params, grads);
  }

  // Over one replica a ZeRO stage cuts nothing; all it does is to allow other homes and casts.
  static bool is_in_vain(const Plan& plan) {
    if (plan.replicas() > 1 || plan.casts_params()) return false;
    const StatePlacement& at = plan.placement;
    return plan.zero_stage == 1 || (plan.zero_stage == 2 && at.grads == Tier::kGpu) ||
           (plan.zero_stage == 3 && at.params == Tier::kGpu);
  }

  bool is_legal(const Plan& plan) {
    auto refusal = refusal_of(plan, shape_);
    if (refusal && refusal->kept > refusal_.kept) refusal_ = *std::move(refusal);
    return !refusal;
  }

  const ModelConfig& model_;
  const ModelShape shape_;
  const Pins& pins_;
  std::map<std::tuple<std::int32_t, bool, bool, bool>, std::vector<StatePlacement>> homes_;
  std::vector<Plan> leaves_;
  Refusal refusal_{.why = {}, .kept = -1};
};

// In the order of kRecipeNames; one alone where the formats of the states are pinned one by one.
std::vector<PrecisionRecipe> recipes(std::string_view kernel_set, const Pins& pins) {
  if (pins.has("/precision/param")) return {pins.values().precision};
  const std::vector<std::string_view> known = recipes_of(kernel_set);
  for (const std::string& recipe : pins.recipes) {
    if (recipe == kAnyRecipe || std::find(known.begin(), known.end(), recipe) != known.end())
      continue;
    throw_bad_input(fmt::format("precision {} is for kernel sets that compute in {}; {} does not",
                                recipe, recipe == "lean" ? "bf16" : "16 bit", kernel_set));
  }
  const auto asked = [&](std::string_view recipe) {
    const auto& names = pins.recipes;
    if (names.empty()) return recipe == kRecipeNames[0];
    return names.front() == kAnyRecipe ||
           std::find(names.begin(), names.end(), recipe) != names.end();
  };
  std::vector<PrecisionRecipe> result;
  for (const std::string_view recipe : known)
    if (asked(recipe)) result.push_back(*find_recipe(recipe, kernel_set));
  return result;
}

// What is the same in all leaves of a kernel set; what is not is pinned or varied below.
Plan fixed_part(const ModelConfig& model, const Cluster& cluster, const std::string& kernel_set,
                const Pins& pins) {
  Plan plan;
  plan.model = model.name;
  plan.hardware = cluster.name;
  plan.kernel_set = kernel_set;
  plan.batch.global_batch = model.global_batch;
  plan.batch.sequence = model.sequence;
  pins.apply(plan);
  if (!pins.has("/loss_scaling")) plan.loss_scaling = find_kernel_set(plan.kernel_set).loss_scaling;
  return plan;
}

// Those of one kernel set.
void add_leaves(Plan plan, const std::vector<Parallel>& all, const ModelConfig& model,
                const Pins& pins, Leaves& leaves) {
  const std::int64_t global_batch = plan.batch.global_batch;
  const std::vector<PrecisionRecipe> all_recipes = recipes(plan.kernel_set, pins);
  bool divides = false;
  std::optional<std::int64_t> pinned_micro;
  if (pins.has("/batch/micro_batch")) pinned_micro = pins.values().batch.micro_batch;
  for (const Parallel& shape : all) {
    if (global_batch % (shape.dp * pinned_micro.value_or(1)) != 0) continue;
    divides = true;
    plan.parallel = shape;
    for (const std::int32_t ep : expert_groups(model, shape, pins))
      for (const auto micro :
           choices<std::int64_t>(pins, "/batch/micro_batch", divisors(global_batch / shape.dp))) {
        plan.parallel.ep = ep;
        plan.batch.micro_batch = micro;
        for (const PrecisionRecipe& recipe : all_recipes) {
          plan.precision = recipe;
          leaves.add(plan);
        }
      }
  }
  if (!divides) batch_fits_nowhere(all, global_batch, pinned_micro);
}

// The decision of "--only zero=2,3"; of a trait none.
const Decision* named_in(std::string_view option) {
  const std::string_view typed = option.substr(option.find(' ') + 1);
  const std::size_t equals = typed.find('=');
  if (equals == typed.npos) return nullptr;
  return &*std::find_if(std::begin(kChoices), std::end(kChoices), [&](const Decision& row) {
    return row.option.name == fmt::format("--{}", typed.substr(0, equals));
  });
}

// What the plans have of the decision that a constraint names: "; they have zero 0, 1", or nothing.
std::string have_instead(const std::vector<Plan>& plans, std::string_view option) {
  constexpr std::size_t kMostNamed = 8;
  const Decision* const row = named_in(option);
  if (row == nullptr) return "";
  std::vector<std::string> values;
  for (const Plan& plan : plans) {
    std::string value = setting_text(row->field.get(plan));
    if (std::find(values.begin(), values.end(), value) == values.end())
      values.push_back(std::move(value));
  }
  const bool more = values.size() > kMostNamed;
  if (more) values.resize(kMostNamed);
  return fmt::format("; they have {} {}{}", row->option.name.substr(2), joined(values, ", "),
                     more ? " .." : "");
}

// Names the constraint without which most plans are left, or what plans have in place of the only
// one.
[[noreturn]] void constrained_away(const std::vector<Plan>& plans, const Pins& pins) {
  std::vector<std::string> options;
  std::int64_t most = -1;
  std::string relaxed;
  for (std::size_t i = 0; i < pins.constraints.size(); ++i) {
    Pins others = pins;
    others.constraints.erase(others.constraints.begin() + static_cast<std::ptrdiff_t>(i));
    const std::int64_t left = std::count_if(plans.begin(), plans.end(),
                                            [&](const Plan& plan) { return others.allows(plan); });
    options.push_back(pins.constraints[i].option());
    if (left <= most) continue;
    most = left;
    relaxed = options.back();
  }
  if (options.size() == 1)
    throw_bad_input(fmt::format("{} leaves none of {} plans under the other options{}", relaxed,
                                plans.size(), have_instead(plans, relaxed)));
  throw_bad_input(fmt::format("{} leave none of {} plans; {}", joined(options, " and "),
                              plans.size(),
                              most > 0 ? fmt::format("without {} {} are left", relaxed, most)
                                       : "no one of them alone is the reason"));
}

// The plans as the software runs them, each once. `plans` are in the order of the space, in which
// those that differ only in what the software decides need not be neighbours.
std::vector<Plan> as_run(const std::vector<Plan>& plans, const SoftwarePlans& software) {
  std::vector<Plan> kept;
  std::unordered_set<std::string> seen;
  for (const Plan& plan : plans) {
    std::optional<Plan> run = software.as_run(plan);
    if (run && seen.insert(to_json(*run)).second) kept.push_back(*std::move(run));
  }
  if (kept.empty())
    throw CannotRun(
        fmt::format("{} runs none of {} plans under the other options; of one of them {}",
                    software.title, plans.size(), software.why_not(plans.front())));
  return kept;
}

std::vector<Plan> allowed(std::vector<Plan> plans, const Pins& pins) {
  if (!pins.constraints.empty()) {
    Pins constrained = pins;
    constrained.software.reset();
    std::vector<Plan> kept;
    std::copy_if(plans.begin(), plans.end(), std::back_inserter(kept),
                 [&](const Plan& plan) { return constrained.allows(plan); });
    if (kept.empty()) constrained_away(plans, constrained);
    plans = std::move(kept);
  }
  if (pins.software) plans = as_run(plans, *pins.software);
  return plans;
}

}  // namespace

std::vector<Plan> enumerate(const ModelConfig& model, const Cluster& cluster, const Pins& given) {
  const Pins pins = with_stages(given);
  for (const Decision& row : kChoices)
    if (row.counts_ranks) require_positive(row.word(), pins, row.pointer);
  require_positive("micro-batch", pins, "/batch/micro_batch");
  const bool shards_nothing = pins.has("/zero_stage") && pins.values().zero_stage == 0;
  if (pins.has("/parallel/shards") && shards_nothing)
    throw_bad_input("ZeRO 0 shards nothing: sharding groups need stage 1, 2 or 3");
  require_sane(fixed_part(model, cluster, cluster.node.device.kernel_set, pins).batch);
  const std::vector<std::string> kernel_sets = kernel_sets_tried(model, cluster, pins);
  const std::vector<Parallel> all = shapes(model, cluster, pins);
  Leaves leaves(model, pins);
  for (const std::string& kernel_set : kernel_sets)
    add_leaves(fixed_part(model, cluster, kernel_set, pins), all, model, pins, leaves);
  return allowed(leaves.take(), pins);
}

}  // namespace zplan
