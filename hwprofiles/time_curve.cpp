#include "hwprofiles/time_curve.h"

#include <algorithm>
#include <cmath>

namespace zplan {

void TimeCurve::add(double bytes, Seconds time) {
  points_.emplace_back(std::log(bytes), std::log(time.value));
}

void TimeCurve::settle() {
  std::sort(points_.begin(), points_.end());
  // Runs of points that share a mean, merged with the one before while that is not below.
  std::vector<std::pair<double, std::size_t>> runs;
  for (const auto& point : points_) {
    runs.emplace_back(point.second, 1);
    while (runs.size() > 1 && runs[runs.size() - 2].first > runs.back().first) {
      const auto [mean, count] = runs.back();
      runs.pop_back();
      auto& before = runs.back();
      const auto own = static_cast<double>(count), others = static_cast<double>(before.second);
      before = {(before.first * others + mean * own) / (others + own), before.second + count};
    }
  }
  std::size_t i = 0;
  for (const auto& [mean, count] : runs) {
    for (const std::size_t end = i + count; i < end; ++i) points_[i].second = mean;
  }
}

TimeCurve::Between TimeCurve::around(double bytes) const {
  const double x = std::clamp(std::log(bytes), points_.front().first, points_.back().first);
  const auto after = std::upper_bound(points_.begin(), points_.end(), x,
                                      [](double value, const auto& p) { return value < p.first; });
  if (after == points_.end()) return {most(), most(), 0};
  if (after == points_.begin()) return {least(), least(), 0};
  const auto before = after - 1;
  const double part = (x - before->first) / (after->first - before->first);
  return {std::exp(before->first), std::exp(after->first), part};
}

Seconds TimeCurve::at(double bytes) const {
  const double x = std::clamp(std::log(bytes), points_.front().first, points_.back().first);
  const auto after = std::upper_bound(points_.begin(), points_.end(), x,
                                      [](double value, const auto& p) { return value < p.first; });
  if (after == points_.end()) return {std::exp(points_.back().second)};
  if (after == points_.begin()) return {std::exp(points_.front().second)};
  const auto before = after - 1;
  const double part = (x - before->first) / (after->first - before->first);
  return {std::exp(before->second + part * (after->second - before->second))};
}

double TimeCurve::least() const { return std::exp(points_.front().first); }
double TimeCurve::most() const { return std::exp(points_.back().first); }

Seconds TimeCurve::in_proportion(double bytes) const {
  return at(bytes) * std::max(1.0, bytes / most());
}

}  // namespace zplan
