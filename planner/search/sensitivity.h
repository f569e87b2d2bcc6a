// Shadow prices: what the simulated step of a plan follows of the quantities of the hardware
// (hwprofiles/quantities.h).
//
// The effort of a quantity is what it makes the step pay, relative to now: of a rate q the time per
// unit, now / q - 1; of a latency or an oversubscription q / now - 1. Near a plan's step
//   step(effort) = step + slope x effort                                               [derived]
// with a slope of its own for better and for worse, since a step is a maximum over paths. A slope
// is a difference of two simulations, 1 % from each other (of cores: a whole one). That is exact
// where transfers share links, too: what a wider link does to the flows beside it (max-min shares)
// has no closed form that would survive the next event.
//
// Beside it stands the derivative without a simulation: of the step's critical path
// (sim/critical_path.h) the time that follows the quantity, where the elasticity of each operation
// is that of the cost model (planner/cost/cost_change.h). Both agree where the path stays as it is
// and no other transfer is beside its own.
//
// The check simulates 5 % each way. Where the slope does not lead there, the step has a kink
// between: another path takes over, or transfers meet otherwise. Simulations of 2, 3 and 4 % say
// where it leaves its slope.
// Left out: capacities of memory, which the step of a plan does not follow; the number of nodes.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hwprofiles/quantities.h"
#include "planner/program/job/job.h"
#include "sim/simulate.h"

namespace zplan {

inline constexpr double kSlopeChange = 0.01;
inline constexpr double kCheckedChange = 0.05;

// Whether more of it is better.
bool is_better_more(const HardwareQuantity& quantity);
// At `factor` times the quantity.
double effort(const HardwareQuantity& quantity, double factor);

struct Kink {
  double from = 1, to = 1;  // factors of the quantity, between which the step leaves its slope
  std::string less, more;  // kinds of work that the step rests on less and more behind it; or empty
};

struct PriceCheck {
  double factor = 1;
  Seconds predicted{}, simulated{};  // change of the step
  std::optional<Kink> kink;          // where they do not agree
};

// One way from the quantity as it is.
struct PriceSide {
  double factor = 1;  // that was simulated
  Seconds slope{};    // of the step by effort
  std::optional<PriceCheck> check;
};

struct ShadowPrice {
  const HardwareQuantity* quantity = nullptr;
  double value = 0;                        // in its unit
  std::optional<PriceSide> better, worse;  // nothing: it has no such value
  // Of the step, by the critical path: - d log(step) / d log(quantity) where more is better, else
  // d log(step) / d log(quantity).
  double critical_share = 0;

  // What a better value saves, and a worse one costs.
  Seconds saved(double change) const;
  Seconds lost(double change) const;
  // d step / d quantity, in seconds per its unit, towards better values.
  double per_unit() const;
  // The step bends here: better values save less than worse ones cost, by more than what counts.
  bool bends_here(Seconds step) const;
};

struct Sensitivity {
  sim::SimResult step;
  std::vector<ShadowPrice> prices;                 // what saves most for the same change first
  std::vector<const HardwareQuantity*> untouched;  // no operation depends on them
  bool is_stopped = false;                         // before all were looked at
};

struct SensitivityOptions {
  int threads = 1;
  bool check = false;
  std::function<void(std::size_t done, std::size_t all)> progress{};  // from any thread
  std::function<bool()> stop{};                                       // from any thread
};

Sensitivity find_sensitivity(const Job& job, const Cluster& cluster,
                             const SensitivityOptions& options);

// Whether a predicted change of a step is as simulated: within 10 % of it or 0.1 % of the step.
bool agrees(Seconds predicted, Seconds simulated, Seconds step);

// The step at a factor of the quantity, nothing where the cluster cannot have it.
struct StepAt {
  double factor = 1;  // of whole numbers the nearest that differs
  sim::SimResult step;
};
std::optional<StepAt> step_at(const Job& job, const Cluster& cluster,
                              const HardwareQuantity& quantity, double factor);

PriceCheck check_price(const Job& job, const Cluster& cluster, const HardwareQuantity& quantity,
                       const PriceSide& side, const sim::SimResult& step, const StepAt& there);

}  // namespace zplan
