#include "planner/search/homes/assignment.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace zplan {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
// Of sums of doubles. [derived] tens of terms, each exact to 1e-16.
constexpr double kRoundoff = 1e-12;
// Steps of the ascent, and the first of them as a share of the distance to the best known time.
constexpr int kAscentSteps = 300;
constexpr double kFirstStep = 1.0;
constexpr double kStepShrinks = 0.985;

using Choice = std::vector<std::size_t>;

// The nearest point whose coordinates are at least 0 and add up to 1 [Held74].
void project_to_simplex(double* begin, std::size_t n) {
  std::vector<double> sorted(begin, begin + n);
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  double sum = 0, shift = 0;
  for (std::size_t i = 0; i < n; ++i) {
    sum += sorted[i];
    const double candidate = (sum - 1) / static_cast<double>(i + 1);
    if (sorted[i] > candidate) shift = candidate;
  }
  for (std::size_t i = 0; i < n; ++i) begin[i] = std::max(0.0, begin[i] - shift);
}

// Weights of the resources in each phase, and prices of a memory's whole room.
struct Multipliers {
  std::vector<double> weight, price;
};

// The sums of what an assignment takes; memories as shares of their room.
struct Taken {
  std::vector<double> share, seconds;
};

class Solver {
 public:
  Solver(const TensorChain& chain, const AssignmentLimits& limits) : c_(chain), limits_(limits) {
    for (const double room : c_.room) scale_.push_back(room > 0 ? 1 / room : 0);
    best_.seconds = kInfinite;
  }

  std::optional<Assignment> solve() {
    for (std::size_t m = 0; m < c_.room.size(); ++m)
      if (least_bytes(m, 0) > c_.room[m] * (1 + kRoundoff)) return std::nullopt;
    for (const auto& options : c_.tensors)
      if (std::all_of(options.begin(), options.end(), [&](auto& o) { return is_out(o); }))
        return std::nullopt;
    ascend();
    prepare();
    Taken none = nothing();
    Choice choice(c_.tensors.size());
    descend(0, none, constant_, choice);
    if (best_.option.empty() && !c_.tensors.empty()) return std::nullopt;
    const bool all_seen = best_.nodes < limits_.most_nodes;
    best_.bound = all_seen ? std::max(bound_, best_.seconds * (1 - limits_.tolerance))
                           : std::min(bound_, best_.seconds);
    for (std::size_t m = 0; m < c_.room.size(); ++m)
      best_.price.push_back(multipliers_.price[m] * scale_[m]);
    return best_;
  }

 private:
  double share(const HomeOption& option, std::size_t m) const {
    return option.bytes[m] * scale_[m];
  }

  // Whether it needs a memory that has no room at all.
  bool is_out(const HomeOption& option) const {
    for (std::size_t m = 0; m < c_.room.size(); ++m)
      if (c_.room[m] <= 0 && option.bytes[m] > 0) return true;
    return false;
  }

  double least_bytes(std::size_t memory, std::size_t from) const {
    double sum = 0;
    for (std::size_t t = from; t < c_.tensors.size(); ++t) {
      double least = kInfinite;
      for (const HomeOption& option : c_.tensors[t]) least = std::min(least, option.bytes[memory]);
      sum += least;
    }
    return sum;
  }

  Taken nothing() const { return {std::vector<double>(c_.room.size()), c_.base}; }

  void add(Taken& taken, const HomeOption& option, double sign = 1) const {
    for (std::size_t m = 0; m < taken.share.size(); ++m) taken.share[m] += sign * share(option, m);
    for (std::size_t r = 0; r < taken.seconds.size(); ++r)
      taken.seconds[r] += sign * option.seconds[r];
  }

  bool fits(const Taken& taken) const {
    for (std::size_t m = 0; m < taken.share.size(); ++m)
      if (c_.room[m] > 0 && taken.share[m] > 1 + kRoundoff) return false;
    return true;
  }

  double reduced(const HomeOption& option, const Multipliers& with) const {
    if (is_out(option)) return kInfinite;
    double cost = 0;
    for (std::size_t r = 0; r < with.weight.size(); ++r) cost += with.weight[r] * option.seconds[r];
    for (std::size_t m = 0; m < with.price.size(); ++m) cost += with.price[m] * share(option, m);
    return cost;
  }

  // What remains of the dual without any tensor.
  double constant(const Multipliers& with) const {
    double sum = 0;
    for (std::size_t r = 0; r < with.weight.size(); ++r) sum += with.weight[r] * c_.base[r];
    for (std::size_t m = 0; m < with.price.size(); ++m) sum -= c_.room[m] > 0 ? with.price[m] : 0;
    return sum;
  }

  // The cheapest option of each tensor at these prices.
  Choice cheapest(const Multipliers& with, double& value) const {
    Choice choice;
    value = constant(with);
    for (const auto& options : c_.tensors) {
      std::size_t best = 0;
      double least = kInfinite;
      for (std::size_t o = 0; o < options.size(); ++o) {
        const double cost = reduced(options[o], with);
        if (cost >= least) continue;
        least = cost;
        best = o;
      }
      choice.push_back(best);
      value += least;
    }
    return choice;
  }

  void offer(const Choice& choice, const Taken& taken) {
    if (!fits(taken)) return;
    const double seconds = c_.time_of(taken.seconds);
    if (seconds >= best_.seconds) return;
    best_.seconds = seconds;
    best_.option = choice;
  }

  // Finds good multipliers, and tries what is cheapest on the way.
  void ascend() {
    Multipliers now;
    now.weight.assign(c_.base.size(), 1.0 / static_cast<double>(c_.resources));
    now.price.assign(c_.room.size(), 0);
    bound_ = -kInfinite;
    double step = kFirstStep;
    for (int i = 0; i < kAscentSteps; ++i, step *= kStepShrinks) {
      double value = 0;
      const Choice choice = cheapest(now, value);
      Taken taken = nothing();
      for (std::size_t t = 0; t < choice.size(); ++t) add(taken, c_.tensors[t][choice[t]]);
      offer(choice, taken);
      if (value > bound_) {
        bound_ = value;
        multipliers_ = now;
      }
      const bool is_close = bound_ >= best_.seconds * (1 - limits_.tolerance);
      if (is_close || !move(now, taken, value, step)) break;
    }
  }

  // Along the subgradient, as far as the distance to a time that can be had says [Held74].
  bool move(Multipliers& now, const Taken& taken, double value, double step) const {
    const double goal = best_.seconds < kInfinite ? best_.seconds : 2 * std::abs(value) + 1e-9;
    std::vector<double> along = taken.seconds;
    double length = 0;
    for (std::size_t p = 0; p < c_.phases; ++p) {
      double* const of_phase = along.data() + p * c_.resources;
      const double mean = std::accumulate(of_phase, of_phase + c_.resources, 0.0) /
                          static_cast<double>(c_.resources);
      for (std::size_t r = 0; r < c_.resources; ++r) of_phase[r] -= mean;
    }
    for (const double each : along) length += each * each;
    std::vector<double> over;
    for (std::size_t m = 0; m < taken.share.size(); ++m) {
      over.push_back(c_.room[m] > 0 ? taken.share[m] - 1 : 0);
      if (over[m] > 0 || now.price[m] > 0) length += over[m] * over[m] * goal * goal;
    }
    if (length <= 0 || goal <= value * (1 + kRoundoff)) return false;
    const double stride = step * (goal - value) / length;
    for (std::size_t r = 0; r < along.size(); ++r) now.weight[r] += stride * along[r];
    for (std::size_t p = 0; p < c_.phases; ++p)
      project_to_simplex(now.weight.data() + p * c_.resources, c_.resources);
    for (std::size_t m = 0; m < over.size(); ++m)
      now.price[m] = std::max(0.0, now.price[m] + stride * over[m] * goal * goal);
    return true;
  }

  // Options by reduced cost, and what the tensors after each take at the least.
  void prepare() {
    const std::size_t n = c_.tensors.size();
    constant_ = constant(multipliers_);
    order_.resize(n);
    costs_.resize(n);
    rest_.assign(n + 1, 0);
    for (std::size_t t = n; t-- > 0;) {
      const auto& options = c_.tensors[t];
      order_[t].resize(options.size());
      std::iota(order_[t].begin(), order_[t].end(), std::size_t{0});
      for (const HomeOption& option : options) costs_[t].push_back(reduced(option, multipliers_));
      std::stable_sort(order_[t].begin(), order_[t].end(),
                       [&](std::size_t a, std::size_t b) { return costs_[t][a] < costs_[t][b]; });
      rest_[t] = rest_[t + 1] + costs_[t][order_[t].front()];
    }
    for (std::size_t m = 0; m < c_.room.size(); ++m) {
      least_.emplace_back();
      for (std::size_t t = 0; t <= n; ++t) least_[m].push_back(least_bytes(m, t) * scale_[m]);
    }
  }

  bool may_fit(const Taken& taken, std::size_t from) const {
    for (std::size_t m = 0; m < least_.size(); ++m)
      if (c_.room[m] > 0 && taken.share[m] + least_[m][from] > 1 + kRoundoff) return false;
    return true;
  }

  void descend(std::size_t t, Taken& taken, double cost, Choice& choice) {
    if (t == c_.tensors.size()) return offer(choice, taken);
    for (const std::size_t o : order_[t]) {
      const double own = cost + costs_[t][o];
      if (own + rest_[t + 1] >= best_.seconds * (1 - limits_.tolerance)) return;
      if (++best_.nodes >= limits_.most_nodes) return;
      const HomeOption& option = c_.tensors[t][o];
      Taken with = taken;
      add(with, option);
      choice[t] = o;
      if (may_fit(with, t + 1)) descend(t + 1, with, own, choice);
    }
  }

  const TensorChain& c_;
  const AssignmentLimits limits_;
  std::vector<double> scale_;  // of bytes to shares
  Multipliers multipliers_;
  double bound_ = 0, constant_ = 0;
  Assignment best_;
  std::vector<std::vector<std::size_t>> order_;
  std::vector<std::vector<double>> costs_;
  std::vector<double> rest_;
  std::vector<std::vector<double>> least_;  // by memory, of the tensors from one on
};

}  // namespace

double TensorChain::time_of(const std::vector<double>& seconds) const {
  double sum = 0;
  for (std::size_t p = 0; p < phases; ++p) {
    const auto begin = seconds.begin() + static_cast<std::ptrdiff_t>(p * resources);
    sum += *std::max_element(begin, begin + static_cast<std::ptrdiff_t>(resources));
  }
  return sum;
}

std::optional<Assignment> assign_homes(const TensorChain& chain, const AssignmentLimits& limits) {
  return Solver(chain, limits).solve();
}

}  // namespace zplan
