// What flows put on the links of a network, of each kind of link the slowest.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "hwprofiles/fabric.h"

namespace zplan::testing_support {

using Slowest = std::map<std::string, double>;  // by kind of link: seconds

inline Slowest slowest(const Fabric& fabric, const std::vector<double>& loads) {
  Slowest most;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    const LinkId id{static_cast<std::int32_t>(i)};
    const double time = loads[i] / fabric.graph().link(id).capacity.value;
    if (time <= 0) continue;
    double& known = most[std::string(fabric.kind(id))];
    known = std::max(known, time);
  }
  return most;
}

}  // namespace zplan::testing_support
