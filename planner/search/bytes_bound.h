// Bytes that no lowering and placement of a plan can undercut, without lowering it: sums of what
// the parts of lower declare, of the buffers known to be held together at one moment (footprint.h).
// Never above the placed slab (tested).
//
// What a part declares follows some decisions only, and many plans share them: the sums are
// remembered, by part. Left out: what is declared as held briefly or not at all, staging between
// tiers, tokens, scalars, gathered activations, fragmentation.
#pragma once

#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "models/model_config.h"
#include "models/vision_config.h"
#include "planner/lower/gradients.h"
#include "planner/lower/optimizer_states.h"
#include "planner/lower/parameters.h"
#include "planner/plan/plan_schedule.h"
#include "planner/search/footprint.h"
#include "planner/search/memory_use.h"

namespace zplan {

class BytesBounds {
 public:
  // A vision tower adds to what the text model holds and is left out.
  explicit BytesBounds(const ModelConfig& model) : model_(text_alone(model)) {}

  // Bytes of one rank, by stage. The plan must be legal. Safe to share between threads.
  // `stages`: in_flight_of_stages(plan).
  std::vector<TierBytes> of(const Plan& plan, const StagePieces& stages);

 private:
  // All that the layout of the units follows, and what the bytes of a micro-batch do.
  using UnitKey =
      std::tuple<std::int32_t, std::int32_t, std::int32_t, std::int64_t, Gather, OptimizerKind,
                 std::int32_t, TrainedChoice, std::int32_t, bool, bool, const KernelSet*>;
  using WorkKey =
      std::tuple<std::int32_t, std::int32_t, std::int32_t, std::int32_t, std::int32_t, std::int64_t,
                 std::int64_t, Replay, Tier, const KernelSet*, bool, bool, bool, bool, bool,
                 TrainedChoice, std::int32_t, double, double, bool, Dispatcher, bool, bool>;
  struct States {
    Layout layout;
    std::map<ParameterBuffers, Footprint> parameters{};
    std::map<GradientBuffers, Footprint> gradients{};
    std::map<OptimizerBuffers, Footprint> optimizer{};
  };
  States& states_of(const Plan& plan, const KernelSet& kernels);
  const Footprint& work_of(const Plan& plan, const KernelSet& kernels);

  const ModelConfig model_;
  std::mutex mutex_;
  std::map<UnitKey, States> states_;
  std::map<WorkKey, Footprint> work_;
};

std::vector<TierBytes> bytes_bound(const Plan& plan, const ModelConfig& model);

}  // namespace zplan
