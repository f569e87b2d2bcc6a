#include "planner/search/search.h"

#include <algorithm>
#include <set>

#include "planner/search/leaf.h"
#include "planner/search/rejections.h"
#include "planner/search/worker_pool.h"

namespace zplan {
namespace {

// Leaves that climb together. Fixed, so that the answer is the same for any number of threads.
constexpr std::size_t kFitWave = 32;
constexpr std::size_t kSimulationWave = 8;

// Depths tried on the winner, in gather units.
constexpr std::int32_t kPrefetchDepths[] = {0, 2, 4};

class Search {
 public:
  Search(const ModelConfig& model, const Cluster& cluster, const Pins& pins,
         const Evaluator& evaluator, const SearchOptions& options)
      : model_(model),
        cluster_(cluster),
        pins_(pins),
        exact_(evaluator),
        evaluator_(pins.prefetch ? evaluator : with_free_prefetch(evaluator)),
        options_(options),
        pool_(options.threads) {
    for (Plan& plan : enumerate(model, cluster, pins)) {
      Leaf& leaf = leaves_.emplace_back();
      leaf.candidate.plan = std::move(plan);
    }
    stats_.space = static_cast<std::int64_t>(leaves_.size());
  }

  SearchResult run() {
    pool_.for_each(leaves_.size(), [&](std::size_t i) { estimate(leaves_[i], evaluator_); });
    if (options_.exhaustive) {
      try_everything();
    } else {
      climb();
    }
    SearchResult result;
    if (winner_) {
      stats_.gap = gap();
      result.best = leaves_[*winner_].candidate;
      tune_prefetch(*result.best);
    }
    explain(result);
    result.stats = stats_;
    return result;
  }

 private:
  using Wave = std::vector<std::size_t>;

  void climb() {
    for (std::size_t i = 0; i < leaves_.size(); ++i) enqueue(i);
    while (stats_.simulated < std::max<std::int64_t>(1, options_.max_simulated)) {
      const Wave wave = next_wave();
      if (wave.empty()) break;
      raise(wave);
      for (const std::size_t i : wave) enqueue(i);
    }
  }

  // Proof that the bounds cut nothing off: everything is lowered, all that fits is simulated.
  void try_everything() {
    Wave all(leaves_.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
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
      if (!leaf.out() && !leaf.candidate.step) least = std::min(least, leaf.candidate.bound.value);
    return fastest_ > 0 ? (fastest_ - least) / fastest_ : 0;
  }

  // A tuning knob, outside the space and its proof: kept only where it fits and is faster.
  void tune_prefetch(Candidate& best) {
    const bool gathers = best.plan.zero_stage == 3;
    if (pins_.prefetch || !gathers) return;
    std::vector<Leaf> tuned;
    for (const std::int32_t depth : kPrefetchDepths) {
      if (depth == best.plan.prefetch) continue;
      tuned.emplace_back().candidate.plan = best.plan;
      tuned.back().candidate.plan.prefetch = depth;
    }
    pool_.for_each(tuned.size(), [&](std::size_t i) {
      fit(tuned[i], exact_);
      if (!tuned[i].out()) simulate(tuned[i], exact_);
    });
    for (Leaf& leaf : tuned)
      if (!leaf.out() && *leaf.candidate.step < *best.step) best = std::move(leaf.candidate);
  }

  void explain(SearchResult& result) {
    Rejections rejections(leaves_, evaluator_, pool_);
    stats_.visited += rejections.settle(winner_);
    result.rejected = rejections.lines(winner_, result.best);
    rejections.suggest(result.rejected, model_, cluster_);
    if (winner_) return;
    for (const Rejected& line : result.rejected) {
      if (!result.closest ||
          line.best.infeasible->overload() < result.closest->infeasible->overload())
        result.closest = line.best;
    }
  }

  const ModelConfig& model_;
  const Cluster& cluster_;
  const Pins& pins_;
  const Evaluator& exact_;
  const Evaluator evaluator_;  // of plans of the space
  const SearchOptions& options_;
  WorkerPool pool_;
  std::vector<Leaf> leaves_;
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
