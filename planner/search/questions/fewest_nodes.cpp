#include "planner/search/questions/fewest_nodes.h"

#include <algorithm>
#include <map>
#include <utility>

namespace zplan {
namespace {

constexpr std::int64_t kParts = 8;  // of the last count that was too small
constexpr int kTooSlow = 2;         // counts below a guess that show that it holds

// [assumed] A run that takes more of its time than this on twice as many nodes will not end in time
// on more of them.
constexpr double kHardlyFaster = 0.9;

// Returns whether twice the nodes of the first count were of little use.
bool is_hardly_faster(const NodeCount& before, const NodeCount& twice) {
  const bool are_known = before.time.value > 0 && twice.time.value > 0;
  return are_known && twice.time > before.time * kHardlyFaster;
}

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
      const NodeCount& count = ask(nodes);
      if (count.good) {
        first_good = nodes;
        break;
      }
      if (last > 0 && is_hardly_faster(ask(last), count)) break;
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
    int too_slow = 0;  // one after the other: ranks may divide badly into a single count
    for (std::int64_t nodes = guess - step_after(last); nodes >= last; nodes -= step_after(last)) {
      if (is_stopped()) return true;
      const NodeCount& fewer = ask(nodes);
      if (fewer.good) return false;
      too_slow = fewer.too_slow ? too_slow + 1 : 0;
      if (too_slow == kTooSlow) return true;
    }
    return too_slow > 0;  // else what is fewer than half may do
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
    if (!count.good && nodes >= result_.closest.nodes) result_.closest = count;
    if (count.good && (!result_.found || nodes <= result_.found->nodes)) result_.found = count;
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
