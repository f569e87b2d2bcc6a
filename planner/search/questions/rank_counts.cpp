#include "planner/search/questions/rank_counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "hwprofiles/seating.h"
#include "planner/core/error.h"
#include "planner/search/group_floors.h"
#include "planner/search/questions/largest_model.h"

namespace zplan {
namespace {

constexpr std::int64_t kEachNode = 8;  // numbers of nodes that are all tried

// The only number that the pins allow, or 0.
std::int64_t pinned_ranks(const Pins& pins) {
  const bool all = pins.has("/parallel/dp") && pins.has("/parallel/tp") && pins.has("/parallel/pp");
  return all ? pins.values().parallel.ranks() : 0;
}

Pins with_ranks(Pins pins, std::int64_t ranks) {
  pins.ranks = ranks;
  return pins;
}

std::string words(const Infeasible& why) {
  return fmt::format("no plan fits: {:.3g} times the {} memory", why.overload(), name(why.tier));
}

class Cheapest {
 public:
  Cheapest(const ModelConfig& model, const Cluster& cluster, const Pins& pins,
           const Evaluator& evaluator, const SearchOptions& options, const QuestionRun& run)
      : model_(model),
        cluster_(cluster),
        pins_(pins),
        evaluator_(evaluator),
        options_(options),
        run_(run) {}

  CheapestRanks find() {
    for (const std::int64_t ranks : some_rank_counts(cluster_, pins_)) {
      run_.tell(fmt::format("bounds of {} GPUs", ranks));
      found_.counts.push_back(bounded(ranks));
    }
    std::vector<RankCount*> open;
    for (RankCount& count : found_.counts)
      if (count.why.empty()) open.push_back(&count);
    std::stable_sort(open.begin(), open.end(), [](const RankCount* a, const RankCount* b) {
      return a->least_cost < b->least_cost;
    });
    for (RankCount* count : open) {
      found_.interrupted = found_.ranks != 0 && run_.stopped();
      if (found_.interrupted) break;
      count->passed_over = count->least_cost >= least_;
      if (!count->passed_over) search_on(*count);
    }
    return std::move(found_);
  }

 private:
  // By the least floor of its space.
  RankCount bounded(std::int64_t ranks) const {
    RankCount count{.ranks = ranks, .step = {}, .why = {}};
    const Pins pins = with_ranks(pins_, ranks);
    try {
      const auto floor = least_floor(model_, cluster_, pins, evaluator_, run_.threads);
      if (floor) {
        count.least_cost = floor->value * static_cast<double>(ranks);
      } else if (const auto why = fitting_plan(model_, cluster_, pins, run_.threads).misfit) {
        count.why = words(*why);
      }
    } catch (const Error& error) {
      if (error.code() != ExitCode::kBadInput) throw;
      count.why = error.what();
      count.is_legal = false;
    }
    return count;
  }

  void search_on(RankCount& count) {
    run_.tell(fmt::format("searching {} GPUs", count.ranks));
    const Pins pins = with_ranks(pins_, count.ranks);
    const SearchResult found = search(model_, cluster_, pins, evaluator_, options_);
    if (!found.best) {
      count.why = words(*found.closest->infeasible);
      return;
    }
    const auto ranks = static_cast<double>(count.ranks);
    const double fastest = found.fastest.value_or(*found.best).step->value;
    count.step = found.best->step;
    count.cost = ranks * count.step->value;
    count.least_cost = std::max(count.least_cost, ranks * fastest * (1 - found.stats.gap));
    if (count.cost >= least_) return;
    least_ = count.cost;
    found_.ranks = count.ranks;
  }

  const ModelConfig& model_;
  const Cluster& cluster_;
  const Pins& pins_;
  const Evaluator& evaluator_;
  const SearchOptions& options_;
  const QuestionRun& run_;
  CheapestRanks found_;
  double least_ = std::numeric_limits<double>::infinity();
};

}  // namespace

std::vector<std::int64_t> all_rank_counts(const Cluster& cluster, const Pins& pins) {
  if (const std::int64_t only = pinned_ranks(pins)) return {only};
  const Seating seating(cluster, pins.values().gpus);
  std::vector<std::int64_t> counts;
  for (std::int64_t n = 1; n < seating.per_node(); ++n) counts.push_back(n);
  for (std::int64_t n = 1; n <= cluster.nodes; ++n) counts.push_back(n * seating.per_node());
  return counts;
}

std::vector<std::int64_t> some_rank_counts(const Cluster& cluster, const Pins& pins) {
  if (const std::int64_t only = pinned_ranks(pins)) return {only};
  const std::int64_t per_node = Seating(cluster, pins.values().gpus).per_node();
  std::vector<std::int64_t> counts;
  for (std::int64_t n = 1; n < per_node; ++n)
    if (per_node % n == 0) counts.push_back(n);
  std::int64_t step = 1;
  for (std::int64_t nodes = 1; nodes < cluster.nodes; nodes += step) {
    counts.push_back(nodes * per_node);
    if (nodes >= kEachNode && (nodes & (nodes - 1)) == 0) step = nodes / 2;
  }
  counts.push_back(cluster.nodes * per_node);
  return counts;
}

FewestRanks fewest_ranks(const ModelConfig& model, const Cluster& cluster, const Pins& pins,
                         const QuestionRun& run) {
  FewestRanks found;
  for (const std::int64_t ranks : all_rank_counts(cluster, pins)) {
    found.interrupted = run.stopped();
    if (found.interrupted) return found;
    run.tell(fmt::format("whether a plan fits on {} GPUs", ranks));
    ++found.tried;
    Fitting fitting;
    found.why.clear();
    try {
      fitting = fitting_plan(model, cluster, with_ranks(pins, ranks), run.threads);
    } catch (const Error& error) {  // the batch or the layers do not divide into so many
      if (error.code() != ExitCode::kBadInput) throw;
      found.why = error.what();
    }
    if (fitting.plan) {
      found.ranks = ranks;
      return found;
    }
    found.most_without = ranks;
    found.misfit = std::move(fitting.misfit);
  }
  return found;
}

CheapestRanks cheapest_ranks(const ModelConfig& model, const Cluster& cluster, const Pins& pins,
                             const Evaluator& evaluator, const SearchOptions& options,
                             const QuestionRun& run) {
  return Cheapest(model, cluster, pins, evaluator, options, run).find();
}

}  // namespace zplan
