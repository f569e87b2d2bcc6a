// Measured times of collectives on their way into a profile (hwprofiles/measured_curves.h), and as
// `zplan calibrate` shows them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/cli/frame/sheet.h"

namespace zplan {

// Of one group.
struct NewCurve {
  MeasuredGroup group;
  std::map<std::int64_t, Seconds> times;  // by bytes of the whole buffer
  std::string ref;                        // how they were measured
};

// The times of one group, beside those of the base.
struct CurveChange {
  struct Point {
    Bytes size;
    std::optional<Seconds> before;  // none: the base has no measured time of this group and size
    Seconds now;
  };
  MeasuredGroup group;
  std::vector<Point> points;  // sizes ascend
};
CurveChange change_by(const NewCurve& curve, const HwProfile& base);

// The text of a zplan.hw/1 file with these curves, in place of those of the same groups.
std::string with_curves(const std::string& text, const std::vector<NewCurve>& curves);

// [{"op", "ranks", "nodes", "times"}]; the words are a table, of each curve some sizes.
Value curves_value(const std::string& base, const std::vector<CurveChange>& curves);

}  // namespace zplan
