#include "planner/search/questions/most_headroom.h"

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

#include "planner/core/error.h"
#include "planner/search/knobs.h"
#include "planner/search/leaf.h"
#include "planner/search/worker_pool.h"

namespace zplan {
namespace {

constexpr std::size_t kClimbers = 8;  // leaves that climb together, for any number of threads

class Headroom {
 public:
  Headroom(const ModelConfig& model, const Cluster& cluster, const Pins& pins,
           const Evaluator& evaluator, const std::vector<Simulated>& known, double within,
           const SearchOptions& options)
      : evaluator_(with_free_knobs(evaluator, model, pins)),
        options_(options),
        pool_(options.threads) {
    ZPLAN_ASSERT(!known.empty());
    found_.best = known.front();
    found_.limit = known.front().step * (1 + within);
    for (const Simulated& one : known)
      if (one.step <= found_.limit && is_better(one.gpu, one.step)) found_.best = one;
    operations_ = operations();
    add_leaves(enumerate(model, cluster, pins));
  }

  MostHeadroom find() {
    for (bool by_time = true; !queue_.empty() && !is_over(); by_time = !by_time) {
      const std::vector<Leaf*> wave = next_wave(by_time);
      const bool fitted = wave.front()->rung == Rung::kFitted;
      pool_.for_each(wave.size(), [&](std::size_t i) {
        fitted ? simulate(*wave[i], evaluator_) : fit(*wave[i], evaluator_);
      });
      for (Leaf* leaf : wave) take(*leaf);
      prune();
    }
    found_.least = found_.best.gpu;
    for (const auto& [time, leaf] : queue_) found_.least = std::min(found_.least, leaf->gpu);
    return std::move(found_);
  }

 private:
  bool is_better(Bytes gpu, Seconds step) const {
    return std::pair(gpu.value, step.value) <
           std::pair(found_.best.gpu.value, found_.best.step.value);
  }
  // By what bounds it; a leaf's gpu is the least that it can take until it is placed.
  bool may_be_better(const Leaf& leaf) const {
    return !leaf.out() && leaf.candidate.bound <= found_.limit &&
           is_better(leaf.gpu, leaf.candidate.bound);
  }

  void add_leaves(std::vector<Plan> plans) {
    std::vector<Leaf> leaves(plans.size());
    pool_.for_each(plans.size(), [&](std::size_t i) {
      leaves[i].candidate.plan = std::move(plans[i]);
      leaves[i].place = i;
      estimate(leaves[i], evaluator_);
      if (!leaves[i].out() && evaluator_.least_gpu)
        leaves[i].gpu = evaluator_.least_gpu(leaves[i].candidate.plan);
    });
    for (Leaf& leaf : leaves)
      if (may_be_better(leaf)) leaves_.push_back(std::move(leaf));
    for (Leaf& leaf : leaves_) enqueue(leaf);
    found_.candidates = static_cast<std::int64_t>(leaves_.size());
  }

  struct ByTime {
    bool operator()(const std::pair<double, Leaf*>& a, const std::pair<double, Leaf*>& b) const {
      return std::pair(a.first, a.second->place) < std::pair(b.first, b.second->place);
    }
  };
  using Queue = std::set<std::pair<double, Leaf*>, ByTime>;

  void enqueue(Leaf& leaf) {
    queue_.emplace(leaf.candidate.bound.value, &leaf);
    by_memory_.emplace(static_cast<double>(leaf.gpu.value), &leaf);
  }
  void remove(Leaf& leaf) {
    queue_.erase({leaf.candidate.bound.value, &leaf});
    by_memory_.erase({static_cast<double>(leaf.gpu.value), &leaf});
  }

  // Those at the front that are on one rung.
  std::vector<Leaf*> next_wave(bool by_time) {
    std::vector<Leaf*> wave;
    for (const auto& [key, leaf] : by_time ? queue_ : by_memory_) {
      if (wave.size() == kClimbers) break;
      if (wave.empty() || leaf->rung == wave.front()->rung) wave.push_back(leaf);
    }
    for (Leaf* leaf : wave) remove(*leaf);
    return wave;
  }

  // What has risen.
  void take(Leaf& leaf) {
    if (leaf.rung != Rung::kSimulated) {
      if (may_be_better(leaf)) enqueue(leaf);
      return;
    }
    ++found_.simulated;
    if (leaf.value() <= found_.limit && is_better(leaf.gpu, leaf.value()))
      found_.best = {leaf.candidate.plan, leaf.value(), leaf.gpu};
  }

  void prune() {
    std::vector<Leaf*> worse;
    for (const auto& [key, leaf] : queue_)
      if (!may_be_better(*leaf)) worse.push_back(leaf);
    for (Leaf* leaf : worse) remove(*leaf);
  }

  std::int64_t operations() const { return evaluator_.operations ? evaluator_.operations() : 0; }
  bool is_over() const {
    if (options_.stop && options_.stop()) return true;
    return !options_.exhaustive && found_.simulated >= options_.max_simulated &&
           operations() - operations_ >= options_.min_operations;
  }

  const Evaluator evaluator_;
  const SearchOptions& options_;
  WorkerPool pool_;
  std::deque<Leaf> leaves_;
  Queue queue_, by_memory_;
  std::int64_t operations_ = 0;  // before
  MostHeadroom found_;
};

}  // namespace

MostHeadroom most_headroom(const ModelConfig& model, const Cluster& cluster, const Pins& pins,
                           const Evaluator& evaluator, const std::vector<Simulated>& known,
                           double within, const SearchOptions& options) {
  return Headroom(model, cluster, pins, evaluator, known, within, options).find();
}

}  // namespace zplan
