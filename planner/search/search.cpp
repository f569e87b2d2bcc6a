#include "planner/search/search.h"

#include <algorithm>
#include <set>

#include "planner/search/knobs.h"
#include "planner/search/leaf.h"
#include "planner/search/rejections.h"
#include "planner/search/siblings.h"
#include "planner/search/worker_pool.h"

namespace zplan {
namespace {

// Leaves that climb together. Fixed, so that the answer is the same for any number of threads.
constexpr std::size_t kFitWave = 32;
constexpr std::size_t kSimulationWave = 4;

class Search {
 public:
  Search(const ModelConfig& model, const Cluster& cluster, const Pins& pins,
         const Evaluator& evaluator, const SearchOptions& options)
      : model_(model),
        cluster_(cluster),
        pins_(pins),
        exact_(evaluator),
        evaluator_(with_free_knobs(evaluator, model, pins)),
        options_(options),
        pool_(options.threads),
        leaves_(make_leaves(enumerate(model, cluster, pins))),
        siblings_(leaves_) {
    stats_.space = static_cast<std::int64_t>(leaves_.size());
  }

  SearchResult run() {
    if (options_.exhaustive) {
      try_everything();
    } else {
      climb();
    }
    SearchResult result;
    if (winner_) {
      stats_.gap = gap();
      result.best = leaves_[*winner_].candidate;
      tune(*result.best);
    }
    explain(result);
    for (const Leaf& leaf : leaves_) stats_.set_aside += leaf.set_aside ? 1 : 0;
    result.stats = stats_;
    return result;
  }

 private:
  using Wave = std::vector<std::size_t>;

  static std::vector<Leaf> make_leaves(std::vector<Plan> plans) {
    std::vector<Leaf> leaves(plans.size());
    for (std::size_t i = 0; i < plans.size(); ++i) leaves[i].candidate.plan = std::move(plans[i]);
    return leaves;
  }

  void climb() {
    enter(siblings_.closest());
    while (stats_.simulated < std::max<std::int64_t>(1, options_.max_simulated)) {
      const Wave wave = next_wave();
      if (wave.empty()) break;
      raise(wave);
      for (const std::size_t i : wave) {
        const Leaf& leaf = leaves_[i];
        if (leaf.out()) enter(siblings_.after_misfit(leaves_, i));
        if (!leaf.out() && leaf.rung == Rung::kFitted) siblings_.set_others_aside(leaves_, i);
        enqueue(i);
      }
    }
  }

  // Leaves whose turn has come. For one that cannot fit the next ones do.
  void enter(Wave leaves) {
    while (!leaves.empty()) {
      pool_.for_each(leaves.size(),
                     [&](std::size_t w) { estimate(leaves_[leaves[w]], evaluator_); });
      Wave more;
      for (const std::size_t i : leaves) {
        enqueue(i);
        if (!leaves_[i].out()) continue;
        const Wave next = siblings_.after_misfit(leaves_, i);
        more.insert(more.end(), next.begin(), next.end());
      }
      leaves = std::move(more);
    }
  }

  // Proof that the bounds cut nothing off: everything is lowered, all that fits is simulated.
  void try_everything() {
    Wave all(leaves_.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    pool_.for_each(all.size(), [&](std::size_t i) { estimate(leaves_[i], evaluator_); });
    raise(all);
    std::erase_if(all, [&](std::size_t i) { return leaves_[i].out(); });
    raise(all);
  }

  void enqueue(std::size_t i) {
    if (!leaves_[i].out() && leaves_[i].rung != Rung::kSimulated)
      queue_.emplace(leaves_[i].candidate.bound.value, i);
  }

  // The leaves with the least bounds that stand on one rung. First all that could be the fastest.
  // When none is left the fastest is known, and those follow that could win the tie.
  Wave next_wave() {
    Wave wave;
    const auto full = [&](std::size_t i) {
      if (wave.empty()) return false;
      const Rung rung = leaves_[wave.front()].rung;
      return leaves_[i].rung != rung ||
             wave.size() == (rung == Rung::kFitted ? kSimulationWave : kFitWave);
    };
    auto at = queue_.begin();
    const bool known = at != queue_.end() && winner_ && at->first > fastest_;
    const double limit = known ? fastest_ * (1 + kTieTolerance) : fastest_;
    while (at != queue_.end() && (!winner_ || at->first <= limit) && !full(at->second)) {
      if (!known || could_win_tie(at->second)) wave.push_back(at->second);
      at = queue_.erase(at);
    }
    return wave;
  }

  bool could_win_tie(std::size_t i) const {
    return tie_key(leaves_[i], i) < tie_key(leaves_[*winner_], *winner_);
  }

  void raise(const Wave& wave) {
    if (wave.empty()) return;
    const bool fitted = leaves_[wave.front()].rung == Rung::kFitted;
    pool_.for_each(wave.size(), [&](std::size_t w) {
      Leaf& leaf = leaves_[wave[w]];
      fitted ? simulate(leaf, evaluator_) : fit(leaf, evaluator_);
    });
    (fitted ? stats_.simulated : stats_.visited) += static_cast<std::int64_t>(wave.size());
    if (fitted) choose_winner(wave);
    if (options_.progress) options_.progress(stats_);
  }

  void choose_winner(const Wave& simulated) {
    simulated_.insert(simulated_.end(), simulated.begin(), simulated.end());
    fastest_ = leaves_[simulated_.front()].value().value;
    for (const std::size_t i : simulated_) fastest_ = std::min(fastest_, leaves_[i].value().value);
    winner_.reset();
    for (const std::size_t i : simulated_)
      if (leaves_[i].value().value <= fastest_ * (1 + kTieTolerance) &&
          (!winner_ || could_win_tie(i)))
        winner_ = i;
  }

  double gap() const {
    double least = fastest_;
    for (const Leaf& leaf : leaves_)
      if (leaf.rung > Rung::kEnumerated && !leaf.out() && !leaf.candidate.step)
        least = std::min(least, leaf.candidate.bound.value);
    return fastest_ > 0 ? (fastest_ - least) / fastest_ : 0;
  }

  // Outside the proof: the next homes farther away, then the knobs.
  void tune(Candidate& best) {
    if (!options_.exhaustive) turn(farther_homes(best), 1 + kTieTolerance, best);
    for (const Knob& knob : free_knobs(model_, cluster_, pins_)) turn(knob(best.plan), 1, best);
  }

  std::vector<Plan> farther_homes(const Candidate& best) const {
    std::vector<Plan> plans;
    for (const std::size_t i : siblings_.next(*winner_)) {
      const Plan& sibling = leaves_[i].candidate.plan;
      Plan& plan = plans.emplace_back(best.plan);
      plan.placement = sibling.placement;
      plan.partition_activations = sibling.partition_activations;
    }
    return plans;
  }

  // Kept only where it fits and is faster by more than this factor: where its bound is not, nothing
  // is simulated.
  void turn(std::vector<Plan> plans, double factor, Candidate& best) {
    std::vector<Leaf> tuned;
    for (Plan& plan : plans) tuned.emplace_back().candidate.plan = std::move(plan);
    const auto could_win = [factor, step = *best.step](const Leaf& leaf) {
      return !leaf.out() && leaf.candidate.bound * factor < step;
    };
    pool_.for_each(tuned.size(), [&](std::size_t i) {
      fit(tuned[i], exact_);
      if (could_win(tuned[i])) simulate(tuned[i], exact_);
    });
    for (Leaf& leaf : tuned)
      if (leaf.candidate.step && *leaf.candidate.step * factor < *best.step)
        best = std::move(leaf.candidate);
  }

  void explain(SearchResult& result) {
    if (!winner_) {
      Candidate& closest = result.closest.emplace(
          leaves_[closest_leaf(leaves_, evaluator_, stats_.visited)].candidate);
      closest.infeasible->smallest_change =
          smallest_change(closest.plan, model_, cluster_, evaluator_);
    }
    pool_.for_each(leaves_.size(), [&, silent = silent_families()](std::size_t i) {
      Leaf& leaf = leaves_[i];
      const bool unknown = leaf.rung == Rung::kEnumerated && !leaf.set_aside;
      if (unknown && silent.contains(family_of(leaf.candidate.plan))) estimate(leaf, evaluator_);
    });
    result.rejected = rejections(leaves_, winner_, result.best);
  }

  // Those of which no plan is known that may fit: what else they have is farther away than a plan
  // that is slower.
  std::set<Family> silent_families() const {
    std::set<Family> all, known;
    for (const Leaf& leaf : leaves_) {
      const Family family = family_of(leaf.candidate.plan);
      all.insert(family);
      const bool may_fit = leaf.rung > Rung::kEnumerated && !leaf.out();
      if (may_fit || leaf.set_aside) known.insert(family);
    }
    std::erase_if(all, [&](const Family& family) { return known.contains(family); });
    return all;
  }

  const ModelConfig& model_;
  const Cluster& cluster_;
  const Pins& pins_;
  const Evaluator& exact_;
  const Evaluator evaluator_;  // of plans of the space
  const SearchOptions& options_;
  WorkerPool pool_;
  std::vector<Leaf> leaves_;
  Siblings siblings_;
  std::set<std::pair<double, std::size_t>> queue_;  // (bound, leaf)
  Wave simulated_;
  std::optional<std::size_t> winner_;
  double fastest_ = 0;
  SearchStats stats_;
};

}  // namespace

SearchResult search(const ModelConfig& model, const Cluster& cluster, const Pins& pins,
                    const Evaluator& evaluator, const SearchOptions& options) {
  return Search(model, cluster, pins, evaluator, options).run();
}

}  // namespace zplan
