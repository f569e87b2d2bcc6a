// How long the compute lane takes for one micro-batch in each pass, by part of the model: kernels,
// each alone, and what these wait for collectives between ranks that work on a layer together
// (chain.h). Of a Job of one stage; its times are never above those of plans with more ranks.
#pragma once

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/core/units.h"
#include "planner/cost/shared_wires.h"
#include "planner/program/job/job.h"

namespace zplan {

struct PassTimes {
  Seconds forward{}, recompute{}, backward{};
  Seconds sum() const { return forward + recompute + backward; }
};
struct KernelTimes {
  PassTimes layer, embedding, head;  // layer: of one, on average over all layers of the model
  // For each layer that follows another: what both wait more than each alone. In `recompute` where
  // backward recomputes.
  PassTimes between;
};

// Whether plans with the same operands run the kernel wherever they keep states.
bool is_common(const Node& node);

// The layers behind those of the model are of one of these.
enum class Behind : std::uint8_t { kModules, kTower };

// `first`: so many of the layers, at the begin, are not measured. `waits`: whether collectives
// count; the Job then has edges. `wires`: of the cluster (cost_model.h).
KernelTimes pass_times(const Job& job, std::int64_t layers, std::int64_t first, Behind behind,
                       bool waits, const Cluster& cluster, SharedWires* wires);

}  // namespace zplan
