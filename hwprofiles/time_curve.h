// Times of one operation by bytes, ascending: measured collectives, copies, kernels that stream.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "planner/core/units.h"

namespace zplan {

class TimeCurve {
 public:
  void add(double bytes, Seconds time);
  // Makes times ascend; after the last add().
  void settle();
  // Straight in log(time) over log(bytes); as at its ends beyond them.
  Seconds at(double bytes) const;
  // The same, but in proportion to the bytes above its upper end.
  Seconds in_proportion(double bytes) const;
  // Returns the points between which these bytes lie, and how far from the first to the second,
  // from 0 to 1, straight in log(bytes); beyond an end that end twice.
  struct Between {
    double before = 0, after = 0;  // bytes
    double part = 0;
  };
  Between around(double bytes) const;
  double least() const;
  double most() const;
  std::size_t size() const { return points_.size(); }

 private:
  std::vector<std::pair<double, double>> points_;  // log(bytes), log(seconds)
};

}  // namespace zplan
