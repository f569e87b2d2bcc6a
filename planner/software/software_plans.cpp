#include "planner/software/software_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/core/error.h"
#include "planner/foreign/frameworks/round_trip.h"
#include "planner/plan/choices.h"
#include "planner/plan/plan_difference.h"

namespace zplan {
namespace {

// Plans that meet all of some conditions, "pipeline & zero=2,3".
class Conjunction {
 public:
  explicit Conjunction(std::string_view text) {
    constexpr std::string_view kAnd = " & ";
    while (true) {
      const std::size_t end = text.find(kAnd);
      parts_.push_back(Constraint::never(std::string(text.substr(0, end))));
      if (end == text.npos) return;
      text.remove_prefix(end + kAnd.size());
    }
  }
  bool holds(const Plan& plan) const {
    return std::ranges::none_of(parts_, [&](const Constraint& part) { return part.allows(plan); });
  }

 private:
  std::vector<Constraint> parts_;
};

// What the profile of a software states of its plans.
class Stated {
 public:
  Stated(const ExpressedPlans& plans, const ModelConfig& model)
      : texts_(plans), lacks_experts_(model.experts && !plans.experts) {
    for (const std::string& text : plans.only) only_.push_back(Constraint::only(text));
    for (const std::string& text : plans.never) never_.emplace_back(text);
  }
  // The statement that a plan breaks; empty: it keeps all.
  std::string broken_by(const Plan& plan) const {
    if (lacks_experts_) return "it does not train models with experts";
    for (std::size_t i = 0; i < only_.size(); ++i)
      if (!only_[i].allows(plan)) return fmt::format("it runs only {}", texts_.only[i]);
    for (std::size_t i = 0; i < never_.size(); ++i)
      if (never_[i].holds(plan)) return fmt::format("it has no {}", texts_.never[i]);
    return "";
  }

 private:
  ExpressedPlans texts_;
  bool lacks_experts_;
  std::vector<Constraint> only_;
  std::vector<Conjunction> never_;
};

// What a framework makes of a plan.
struct RoundTrip {
  std::vector<std::pair<const Decision*, Setting>> decided;  // by the framework itself
  std::string refusal;                                       // empty: it runs the plan
};

// Written and read once for plans that are alike to a framework.
class Files {
 public:
  Files(const StackProfile& software, const ModelConfig& model, const Cluster& cluster,
        const Pins& asked, Pinned pinned)
      : framework_(find_framework(software.target)),
        fused_(software.fused),
        model_(model),
        cluster_(cluster) {
    for (const Decision& row : kChoices) {
      const bool is_asked_type = row.varied == Varied::kRecipe && !asked.recipes.empty();
      if (pinned == Pinned::kUsersWord && asked.has(row.pointer))
        pinned_.push_back(&row);
      else if (is_of_the_plan(row) || asked.has(row.pointer) || is_asked_type)
        kept_.push_back(&row);
    }
  }

  // What is refused of the plan without tensor parallelism and a pipeline is refused with them,
  // too.
  RoundTrip of(const Plan& plan) {
    const Plan small = smallest_like(plan);
    const Plan plain = without_cuts(small);
    RoundTrip trip = known(plain);
    return trip.refusal.empty() && small != plain ? known(small) : trip;
  }

 private:
  // Decisions that make the plan: a framework that decides them otherwise runs another plan.
  static bool is_of_the_plan(const Decision& row) {
    const bool is_varied = row.varied == Varied::kSpace && row.pointer != "/gather/unit";
    return is_varied || row.counts_ranks || row.pointer.starts_with("/batch/");
  }

  // With the fewest replicas and the smallest batch that the framework takes alike.
  static Plan smallest_like(Plan plan) {
    Parallel& shape = plan.parallel;
    const bool groups_replicas = shape.shards > 0 || plan.secondary > 0 ||
                                 plan.parameter_shards > 0 || shape.dp % shape.ep != 0;
    const std::int64_t steps =
        plan.batch.global_batch / (std::int64_t{shape.dp} * plan.batch.micro_batch);
    if (!groups_replicas) shape.dp = std::min(shape.dp, std::max(shape.ep, 2));
    plan.batch.micro_batch = 1;
    plan.batch.global_batch = shape.dp * (steps > 1 ? 2 * shape.pp : 1);
    return plan;
  }

  // On one rank for each replica.
  static Plan without_cuts(Plan plan) {
    Parallel& shape = plan.parallel;
    shape.tp = shape.pp = shape.cp = shape.ring = 1;
    shape.expert_tp = shape.chunks = 0;
    shape.sequence_parallel = plan.partition_activations = false;
    plan.schedule = Plan().schedule;
    plan.stage_layers.clear();
    return plan;
  }

  RoundTrip known(const Plan& plan) {
    const std::string key = key_of(plan);
    {
      const std::scoped_lock lock(mutex_);
      if (const auto found = known_.find(key); found != known_.end()) return found->second;
    }
    RoundTrip trip = written_and_read(plan);
    const std::scoped_lock lock(mutex_);
    return known_.try_emplace(key, std::move(trip)).first->second;
  }

  static std::string key_of(const Plan& plan) {
    std::string key;
    for (const Decision& row : kChoices) key += setting_text(row.field.get(plan)) + "|";
    return key;
  }

  // Where ranks are cut otherwise there are more replicas, which is no reason.
  static constexpr std::string_view kReplicas = "/parallel/dp";

  static std::string refusal_of(const Decision& row, const DecisionChange& change, const Plan& plan,
                                const Plan& run) {
    if (row.varied == Varied::kRecipe)
      return fmt::format("it has no --precision {} and runs {}", recipe_name(recipe_index(plan)),
                         recipe_name(recipe_index(run)));
    const std::string_view words = row.option.name.empty() ? row.pointer : row.option.name;
    return fmt::format("it has no {} {} and runs {}", words, change.before, change.after);
  }

  RoundTrip written_and_read(const Plan& plan) const {
    RoundTrip trip;
    try {
      const Setup setup = read_back(framework_, plan, model_, cluster_);
      std::string_view reason;
      for (const DecisionChange& change : plan_difference(plan, setup.plan)) {
        if (does_as_planned(setup, change.pointer)) continue;
        if (change.pointer == "/kernel_set" && !fused_) continue;  // which no file says
        const Decision& row = decision(change.pointer);
        if (std::ranges::find(pinned_, &row) != pinned_.end()) continue;
        if (std::ranges::find(kept_, &row) == kept_.end())
          trip.decided.emplace_back(&row, row.field.get(setup.plan));
        else if (trip.refusal.empty() || reason == kReplicas)
          std::tie(trip.refusal, reason) =
              std::pair(refusal_of(row, change, plan, setup.plan), row.pointer);
      }
      for (const Finding& finding : setup.findings)
        if (finding.trouble == Trouble::kError && trip.refusal.empty())
          trip.refusal = finding.message;
    } catch (const Error& error) {
      trip.refusal = error.what();
    }
    return trip;
  }

  const Framework& framework_;
  const bool fused_;  // its attention
  const ModelConfig model_;
  const Cluster cluster_;
  std::vector<const Decision*> kept_, pinned_;
  std::mutex mutex_;
  std::map<std::string, RoundTrip> known_;
};

}  // namespace

std::optional<SoftwarePlans> plans_of(const StackProfile& software, const ModelConfig& model,
                                      const Cluster& cluster, const Pins& asked, Pinned pinned) {
  const ExpressedPlans& texts = software.expressed;
  const bool runs_all = texts.only.empty() && texts.never.empty() && texts.experts;
  if (software.target.empty() && runs_all) return std::nullopt;
  const auto stated = std::make_shared<const Stated>(texts, model);
  const auto files = software.target.empty()
                         ? nullptr
                         : std::make_shared<Files>(software, model, cluster, asked, pinned);
  SoftwarePlans plans{.title = software_title(software), .as_run = {}, .why_not = {}};
  plans.as_run = [stated, files, shape = shape_of(model)](const Plan& plan) -> std::optional<Plan> {
    if (!stated->broken_by(plan).empty()) return std::nullopt;
    if (files == nullptr) return plan;
    const RoundTrip trip = files->of(plan);
    if (!trip.refusal.empty()) return std::nullopt;
    Plan run = plan;
    for (const auto& [row, setting] : trip.decided) row->field.set(run, setting);
    return illegal(run, shape) ? std::nullopt : std::optional(run);
  };
  plans.why_not = [stated, files, as_run = plans.as_run](const Plan& plan) {
    std::string why = stated->broken_by(plan);
    if (why.empty() && files != nullptr) why = files->of(plan).refusal;
    return why.empty() && !as_run(plan) ? "what its files say instead is no plan" : why;
  };
  return plans;
}

}  // namespace zplan
