// What the parts of a framework's reader share: the keys, what they leave to others, and the plan
// that they come to. Parts are run in order: a later one may use what an earlier one decided.
#pragma once

#include "planner/foreign/frameworks/config_reader.h"

namespace zplan {

struct KeysToPlan {
  ConfigReader& config;
  const Surroundings& around;
  Plan& plan;
};

}  // namespace zplan
