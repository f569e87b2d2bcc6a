#include "planner/search/homes/families.h"

#include <utility>

namespace zplan {
namespace {

constexpr Bytes kMargin{std::int64_t{1} << 30};

// Either one mode for all layers, or what may be chosen among.
struct FamilyRow {
  std::string_view name, source;
  std::optional<Recompute> mode;
  Tier inputs = Tier::kGpu;
  HomesAllowed allowed{};
};

std::vector<FamilyRow> rows() {
  using enum Tier;
  return {
      {"all kept", "", Recompute::kNone},
      {"full checkpoints", "Chen16", Recompute::kFull},
      {"selective", "Korthikanti22", Recompute::kSelective},
      {"recompute only", "Jain20", {}, kGpu, {true, true, false, false, {kGpu}}},
      {"swap only", "Huang20", {}, kGpu, {true, false, true, false, {kGpu, kCpu}}},
      {"checkpoints on CPU", "Pudipeddi20", Recompute::kFull, kCpu},
      {"recompute or swap", "Liao24", {}, kGpu, {false, true, false, true, {kNvme}}},
      {"best", "", {}, kGpu, {true, true, true, true, {kGpu, kCpu, kNvme}}},
  };
}

class Comparer {
 public:
  Comparer(const Plan& plan, const ModelConfig& model, const Cluster& cluster)
      : shape_(shape_of(model)),
        evaluator_(make_evaluator(model, cluster)),
        question_(ask_homes(plan, model, cluster)) {}

  bool can_choose() const { return !question_.stages.empty(); }

  HomesFamily look_at(const FamilyRow& row) const {
    HomesFamily family{.name = row.name, .source = row.source, .plan = {}, .why = {}, .step = {}};
    if (row.mode) {
      family.plan = question_.plan;
      family.plan->recompute = {{*row.mode}};
      family.plan->placement.activations = row.inputs;
      if (illegal(*family.plan, shape_)) family.plan.reset();
    } else if (auto chosen = choose_fitting_homes(question_, row.allowed, shape_, evaluator_.fit)) {
      family.plan = std::move(chosen->plan);
    }
    if (family.plan) measure(family);
    return family;
  }

  HomesFamily look_at(const Plan& plan) const {
    HomesFamily family{.name = {}, .source = {}, .plan = plan, .why = {}, .step = {}};
    measure(family);
    return family;
  }

 private:
  void measure(HomesFamily& family) const {
    Fit fit = evaluator_.fit(*family.plan);
    family.why = std::move(fit.infeasible);
    if (family.why) return;
    family.gpu = fit.gpu;
    family.plan->slack = fit.slack;
    family.step = evaluator_.simulate_exactly(*family.plan);
  }

  const ModelShape shape_;
  const Evaluator evaluator_;
  const HomesQuestion question_;
};

using Families = std::vector<HomesFamily>;

// In a memory: the last is the best of what any of them found, of the homes that the plan has, or
// of `known`, which fits, too.
Families look(const Plan& plan, const ModelConfig& model, const Cluster& cluster,
              const Families& known = {}) {
  Families families;
  const Comparer comparer(plan, model, cluster);
  if (!comparer.can_choose()) return families;
  for (const FamilyRow& row : rows()) families.push_back(comparer.look_at(row));
  HomesFamily& best = families.back();
  const auto offer = [&](const HomesFamily& family) {
    if (!family.step || (best.step && *best.step <= *family.step)) return;
    const std::string_view name = best.name, source = best.source;
    best = family;
    best.name = name;
    best.source = source;
  };
  for (std::size_t i = 0; i + 1 < families.size(); ++i) offer(families[i]);
  offer(comparer.look_at(plan));
  if (!known.empty()) offer(known.back());
  return families;
}

}  // namespace

HomesComparison compare_homes(const Plan& plan, const ModelConfig& model, const Cluster& cluster) {
  const auto with_memory = [&](Bytes more) {
    Cluster other = cluster;
    other.node.device.memory = other.node.device.memory + more;
    return other;
  };
  const auto gain = [](const Families& slower, const Families& faster) {
    const bool known = !slower.empty() && slower.back().step && faster.back().step;
    return known ? std::optional((*slower.back().step - *faster.back().step).value) : std::nullopt;
  };
  const Families less = look(plan, model, with_memory(Bytes{0} - kMargin));
  HomesComparison result{.families = look(plan, model, cluster, less),
                         .seconds_per_gib_less = {},
                         .seconds_per_gib_more = {}};
  const Families more = look(plan, model, with_memory(kMargin), result.families);
  result.seconds_per_gib_less = gain(less, result.families);
  result.seconds_per_gib_more = gain(result.families, more);
  return result;
}

}  // namespace zplan
