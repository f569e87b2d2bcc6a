// A lower bound of the step time shared by all plans that differ only in homes, gather unit,
// prefetch and in the ZeRO stage within {0, 1} or {2, 3}: they run the same forward, recomputation
// and backward kernels. The two pairs differ in how backward leaves gradients: the first adds to
// those of the micro-steps before, the second writes those of one micro-step. Of stage i
//
//   period >= sum over stages j < i of (f_j + b_j) + m (f_i + r_i + b_i)
//
// f, r, b: compute time of one micro-batch in forward, recomputation and backward, m micro-steps.
// [derived] stage i begins when the first micro-batch has passed all stages before it, and the last
// one has to go back through them before the update, which the next step's first forward needs.
// Of a stage passed on the way back only backward counts: it may recompute while it waits.
// Left out: the update, communication, transfers, launches, zeroing, adding up gradients elsewhere.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/plan/plan.h"

namespace zplan {

Seconds time_floor(const Plan& plan, const ModelConfig& model, const Cluster& cluster);

// Remembers the floors of one model on one cluster. Safe to share between threads.
class TimeFloors {
 public:
  Seconds of(const Plan& plan, const ModelConfig& model, const Cluster& cluster);

 private:
  // All that the floor depends on.
  using Key = std::tuple<std::int32_t, std::int32_t, std::int32_t, Recompute, std::int64_t,
                         std::int64_t, std::int64_t, std::string>;
  std::mutex mutex_;
  std::map<Key, Seconds> known_;
};

}  // namespace zplan
