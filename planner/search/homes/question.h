// What the planner asks before it gives every kept tensor of every layer a home: what each takes of
// memories and resources where it is kept, recomputed, on the CPU or on NVMe.
//
// Nothing here interprets the Plan: bytes are those that lower declares (activations.h,
// checkpoints.h), seconds are the costs (cost_model.h) of Jobs lowered with one tensor at a time in
// another home, less those of the Job that keeps all. The layers of a model count as alike, each
// as their mean. [derived] Replays and transfers of one tensor do not follow the homes of others:
// what comes before it in the layer is kept, brought back or replayed already. Left out: parameters
// that are gathered once for two replayed operators, and kernels that fuse two of them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/cost/shared_wires.h"
#include "planner/plan/plan.h"

namespace zplan {

// Forward, and backward with what it recomputes: a transfer hides behind the compute of its own.
inline constexpr std::size_t kHomePhases = 2;
// Seconds of each phase, by the name of a lane or of a kind of link.
using HomeLoads = std::map<std::string, std::array<double, kHomePhases>>;

// What one operator of a layer leaves for backward, of one micro-batch, in bytes of a rank.
struct LayerTensor {
  LayerOperator op{};
  double kept = 0;      // on the GPU where it stays there
  double rest = 0;      // on the GPU where it lives elsewhere: statistics of rows
  double away = 0;      // there
  double replayed = 0;  // on the GPU, once, where a layer replays it
  double passing = 0;   // the same where a layer sends it away
  // Of attention that stores probabilities: the same where they alone are recomputed.
  double partly_kept = 0, partly_replayed = 0;
  // Of a layer and micro-batch, beyond where it is kept; empty: it cannot be there.
  HomeLoads recomputed{}, partly{}, on_cpu{}, on_nvme{};
};

// The inputs of layers, whose home is one for all.
struct LayerInputs {
  double kept = 0, passing = 0;
  HomeLoads on_cpu{}, on_nvme{};
};

struct HomesStage {
  std::vector<std::int32_t> numbers;  // of its layers, piece by piece
  double in_flight = 0;  // micro-batches between forward and backward, the mean over its layers
  HomeLoads base;        // of a step that keeps everything
  double room_gpu = 0;   // bytes left where nothing is kept

  std::int32_t layers() const { return static_cast<std::int32_t>(numbers.size()); }
};

struct HomesQuestion {
  Plan plan;  // that keeps everything
  std::int64_t layers = 0;
  double micro_steps = 0;
  std::vector<LayerTensor> tensors;
  LayerInputs inputs;
  // Of a layer and micro-batch, what the first layer of the plan asked about takes more.
  HomeLoads present;
  std::vector<HomesStage> stages;
  double room_cpu = 0, room_nvme = 0;  // of a rank
};

// Nothing to ask of plans that cut operators into tiles or gather several layers together, nor
// where backward comes in two parts: then there are no stages. `wires`: of the cluster
// (cost_model.h).
HomesQuestion ask_homes(const Plan& plan, const ModelConfig& model, const Cluster& cluster,
                        SharedWires* wires = nullptr);

}  // namespace zplan
