// What a step of a job moves between tiers: bytes of all ranks, towards the compute and back.
#pragma once

#include <string>
#include <vector>

#include "planner/core/units.h"
#include "planner/program/job/job.h"

namespace zplan {

struct TierTraffic {
  Tier tier = Tier::kCpu;  // the farther one
  Bytes in{0}, out{0};     // of one step
};

// Of the tiers that the job moves something from or to.
std::vector<TierTraffic> tier_traffic(const Job& job);

// ", nvme 1.20 GB/s in, 800.00 MB/s out" of steps of this length; empty where nothing moves.
std::string words_of(const std::vector<TierTraffic>& traffic, Seconds step);

}  // namespace zplan
