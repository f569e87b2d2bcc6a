// What kind of run a plan on a cluster is: which of the published runs speak for it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/plan/plan.h"

namespace zplan {

// Features of plans with slow tiers.
inline constexpr std::string_view kStatesOnCpu = "states on the CPU";
inline constexpr std::string_view kStatesOnDrives = "states on drives";

struct Kind {
  std::string device, format;  // "H100-SXM5-80GB", "fp8": of the products of layers
  int devices = 1;
  std::vector<std::string> features;  // "ZeRO 3", "states on the CPU" ..
};

// Whether names are of devices that compute alike: equal but for their memory, as
// "A100-SXM4-40GB" and "A100-SXM4-80GB" are.
bool same_class(std::string_view device, std::string_view other);
// Whether names are of devices of one generation, whose chips have one architecture:
// "H100-SXM5-80GB" and "H200-SXM-141GB". Each class that is not known is one by itself.
bool same_generation(std::string_view device, std::string_view other);

Kind kind_of(const Plan& plan, const Cluster& cluster);

}  // namespace zplan
