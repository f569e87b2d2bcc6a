#include "planner/search/questions/fewest_nodes.h"

#include <algorithm>
#include <map>
#include <utility>

namespace zplan {
namespace {

constexpr std::int64_t kParts = 8;  // of the last count that was too small

std::int64_t step_after(std::int64_t last) { return std::max<std::int64_t>(1, last / kParts); }

class Counts {
 public:
  Counts(std::int64_t most, const TryNodes& try_nodes, const std::function<bool()>& stop)
      : most_(most), try_nodes_(try_nodes), stop_(stop) {}

  // Doubles, then goes through the parts in between.
  void climb() {
    std::int64_t last = 0, first_good = 0;
    for (std::int64_t nodes = 1; last < most_ && !is_stopped();
         nodes = std::min(2 * nodes, most_)) {
      if (ask(nodes).good) {
        first_good = nodes;
        break;
      }
      last = nodes;
    }
    if (first_good == 0 || last == 0) return;
    for (std::int64_t nodes = last + step_after(last); nodes < first_good && !is_stopped();
         nodes += step_after(last))
      if (ask(nodes).good) break;
  }

  // Returns whether the guess is what climbing would find, as far as more nodes are never slower.
  bool holds(std::int64_t guess) {
    if (guess < 1 || guess > most_ || !ask(guess).good) return false;
    if (guess == 1) return true;
    std::int64_t last = 1;
    while (2 * last < guess) last *= 2;
    for (std::int64_t nodes = guess - step_after(last); nodes >= last; nodes -= step_after(last)) {
      if (is_stopped()) return true;
      const NodeCount& fewer = ask(nodes);
      if (fewer.good) return false;
      if (fewer.too_slow) return true;
    }
    return false;  // what is fewer than half may do
  }

  FewestNodes take() {
    result_.tried = static_cast<int>(asked_.size());
    return std::move(result_);
  }

 private:
  bool is_stopped() const { return result_.interrupted; }

  const NodeCount& ask(std::int64_t nodes) {
    const auto [at, is_new] = asked_.try_emplace(nodes);
    NodeCount& count = at->second;
    if (is_new) {
      count = try_nodes_(nodes);
      result_.interrupted = stop_ && stop_();
    }
    if (!count.good)
      result_.closest = count;
    else if (!result_.found || count.nodes <= result_.found->nodes)
      result_.found = count;
    return count;
  }

  std::int64_t most_;
  const TryNodes& try_nodes_;
  const std::function<bool()>& stop_;
  std::map<std::int64_t, NodeCount> asked_;
  FewestNodes result_;
};

}  // namespace

FewestNodes fewest_nodes(std::int64_t most, const TryNodes& try_nodes,
                         const std::function<bool()>& stop, std::int64_t guess) {
  Counts counts(most, try_nodes, stop);
  if (!counts.holds(guess)) counts.climb();
  return counts.take();
}

}  // namespace zplan
