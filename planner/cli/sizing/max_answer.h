// The answer of `zplan max`: the largest model of a cluster, by family of plans. JSON schema
// "zplan.max/1".
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/cli/frame/sheet.h"
#include "planner/search/questions/largest_model.h"

namespace zplan {

struct FamilyMost {
  const SizeFamily* family = nullptr;
  LargestModel largest;
  std::optional<Seconds> step;  // of its plan, where simulated
};

struct MaxAnswer {
  Cluster cluster;
  std::string stand_in;    // as MemoryPrediction has it (prediction.h)
  std::int64_t ranks = 0;  // GPUs that are used
  std::int64_t global_batch = 0, micro_batch = 1, sequence = 0;
  std::vector<FamilyMost> families;
  std::size_t asked = 0;     // families
  bool interrupted = false;  // families may be missing, sizes be too small
};

Sheet max_sheet(const MaxAnswer& answer);

}  // namespace zplan
