// The cluster as a framework's software uses it, and the plan that a configuration comes to there.
#pragma once

#include "hwprofiles/hw_profile.h"
#include "planner/cli/predict/stack_use.h"
#include "planner/foreign/frameworks/setup.h"

namespace zplan {

struct SetupCluster {
  Cluster cluster;
  StackUse use;  // of the stack
};

// With the rates and the memory of the setup's stack, and with its buffers.
SetupCluster cluster_of_setup(const Setup& setup, Cluster cluster);

}  // namespace zplan
