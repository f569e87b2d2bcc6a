// CriticalPath: which constants of the cost model (planner/cost/reliance.h) the time of a
// simulation rests on.
//
// To every lane belongs the path that led to the end of its last op: the op itself, what its start
// waited for, and so on back to time 0. Along a path all time passes in ops or launches, and of
// each a share follows each constant. A path is kept as the sum of these shares, one time per
// constant: an op that starts takes over the path of what it waited for, an op that ends adds its
// own. So the sums of the path that ends a step are the derivatives of its end by the logarithms of
// the constants, as long as the same ops wait for the same others [derived: envelope of a maximum].
//
// What an op waited for is what came last: another op of its class or of a member it meets, or its
// launch. The launches since the host last waited share that time in proportion.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/core/units.h"
#include "planner/cost/cost_model.h"

namespace zplan::sim {

class CriticalPath {
 public:
  // Off: keeps nothing and costs nothing.
  CriticalPath(const CostModel& model, bool on);
  bool on() const { return constants_ > 0; }

  // What the ops that begin from now on have waited for: the end of an op of a lane (class *
  // kLaneCount + lane), or the launching host of a class. `now`: to place it within its launches.
  void follow_lane(std::uint32_t slot);
  void follow_host(std::size_t stage, SimTime now);

  void begin(std::uint32_t slot);
  // `plain`: what the op takes with nothing beside it that slows it, `slowed`: what came on top, by
  // the rate `by`.
  void end(std::uint32_t slot, const OpCost& cost, SimTime plain, SimTime slowed, Constant by);

  // The host of a class goes on after it waited for what is followed; then it launches.
  void host_resumes(std::size_t stage, SimTime now);
  void host_launches(std::size_t stage, const OpCost& cost);

  // The path that is followed, seconds by constant.
  std::vector<double> followed() const;

  // For folding: everything that is kept, and its growth times `times` since an earlier moment.
  const std::vector<double>& state() const { return sums_; }
  void repeat_since(const std::vector<double>& earlier, std::int64_t times);

 private:
  std::span<double> row(std::size_t index) {
    return {sums_.data() + index * constants_, constants_};
  }
  void use(const Reliances& rests);
  void add(std::span<double> row, const Reliances& rests, double seconds);

  double& resumed_at(std::size_t stage) { return sums_[sums_.size() - 2 * classes_ + stage]; }
  double& launching_for(std::size_t stage) { return sums_[sums_.size() - classes_ + stage]; }

  // Only of constants that some operation rests on; the others have no column.
  std::array<std::uint8_t, kMostConstants> column_{};
  std::vector<Constant> constant_of_column_;
  std::size_t constants_ = 0, classes_ = 0, host_rows_ = 0, followed_ = 0;
  // Rows: of each lane of each class; then of each class its host when it last went on, and what it
  // launched since; last the one that is followed. Behind them, of each class, when its host went
  // on and how long it launched since, in seconds.
  std::vector<double> sums_;
};

}  // namespace zplan::sim
