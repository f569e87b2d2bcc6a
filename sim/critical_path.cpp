#include "sim/critical_path.h"

#include <algorithm>

#include "planner/program/job/ops.h"

namespace zplan::sim {
namespace {

constexpr std::uint8_t kNoColumn = 255;

}  // namespace

CriticalPath::CriticalPath(const CostModel& model, bool on) : classes_(model.job().classes.size()) {
  if (!on) return;
  column_.fill(kNoColumn);
  use({{constant_of(&StackRates::overlap_slowdown), 1},
       {constant_of(&StackRates::copy_slowdown), 1}});
  for (std::size_t stage = 0; stage < classes_; ++stage) {
    for (const OpCost& cost : model.costs(static_cast<int>(stage))) {
      use(cost.rests);
      use(cost.launch_rests);
    }
  }
  constants_ = constant_of_column_.size();
  host_rows_ = classes_ * kLaneCount;
  const std::size_t rows = host_rows_ + 2 * classes_ + 1;
  sums_.assign(rows * constants_ + 2 * classes_, 0);
}

void CriticalPath::use(const Reliances& rests) {
  for (const Reliance& r : rests.rows()) {
    if (column_[r.constant] != kNoColumn) continue;
    column_[r.constant] = static_cast<std::uint8_t>(constant_of_column_.size());
    constant_of_column_.push_back(r.constant);
  }
}

void CriticalPath::follow_lane(std::uint32_t slot) { followed_ = slot; }

void CriticalPath::follow_host(std::size_t stage, SimTime now) {
  if (!on()) return;
  const double resumed = resumed_at(stage), launching = launching_for(stage);
  const double passed = to_seconds(now).value - resumed;
  const double share = launching > 0 ? std::clamp(passed / launching, 0.0, 1.0) : 0;
  followed_ = host_rows_ + 2 * classes_;
  const std::span<double> path = row(followed_);
  const std::span<const double> waited = row(host_rows_ + stage);
  const std::span<const double> launched = row(host_rows_ + classes_ + stage);
  for (std::size_t k = 0; k < constants_; ++k) path[k] = waited[k] + share * launched[k];
}

void CriticalPath::begin(std::uint32_t slot) {
  if (!on() || slot == followed_) return;
  std::ranges::copy(row(followed_), row(slot).begin());
}

void CriticalPath::end(std::uint32_t slot, const OpCost& cost, SimTime plain, SimTime slowed,
                       Constant by) {
  if (!on()) return;
  add(row(slot), cost.rests, to_seconds(plain + slowed).value);
  if (slowed.value != 0) row(slot)[column_[by]] += to_seconds(slowed).value;
}

void CriticalPath::host_resumes(std::size_t stage, SimTime now) {
  if (!on()) return;
  std::ranges::copy(row(followed_), row(host_rows_ + stage).begin());
  std::ranges::fill(row(host_rows_ + classes_ + stage), 0.0);
  resumed_at(stage) = to_seconds(now).value;
  launching_for(stage) = 0;
}

void CriticalPath::host_launches(std::size_t stage, const OpCost& cost) {
  if (!on()) return;
  const double seconds = to_seconds(cost.launch).value;
  add(row(host_rows_ + classes_ + stage), cost.launch_rests, seconds);
  launching_for(stage) += seconds;
}

std::vector<double> CriticalPath::followed() const {
  if (!on()) return {};
  std::vector<double> path(constant_count());
  for (std::size_t c = 0; c < constants_; ++c)
    path[constant_of_column_[c]] = sums_[followed_ * constants_ + c];
  return path;
}

void CriticalPath::repeat_since(const std::vector<double>& earlier, std::int64_t times) {
  for (std::size_t i = 0; i < sums_.size(); ++i)
    sums_[i] += (sums_[i] - earlier[i]) * static_cast<double>(times);
}

void CriticalPath::add(std::span<double> row, const Reliances& rests, double seconds) {
  for (const Reliance& r : rests.rows()) row[column_[r.constant]] += r.elasticity * seconds;
}

}  // namespace zplan::sim
