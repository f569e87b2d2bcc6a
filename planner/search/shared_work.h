// What all plans that differ in homes and in prefetch alone have to do: the kernels of forward,
// recomputation and backward, and communication between ranks. Of a Job that keeps all states on
// the GPU; [derived] one that keeps them farther away does the same and more, and between the same.
#pragma once

#include <optional>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/core/units.h"
#include "planner/cost/shared_wires.h"
#include "planner/plan/plan.h"
#include "planner/program/job/job.h"
#include "planner/search/time_floor.h"

namespace zplan {

// The plan that stands for all those that send the same parameters and gradients: it recomputes
// nothing and cuts no sequences.
Plan with_bare_traffic(Plan plan);
// The same with its parameters or its gradients alone off the GPU, one plan for each of the two
// that the plan keeps there; the optimizer states are in the same tier.
std::vector<Plan> with_bare_copies(const Plan& plan);
// What gathers and reductions of parameters and gradients alone have to do: of all the plans that
// the Job's plan stands for. [derived] recomputation may gather again, and asks for nothing less.
Seconds traffic_work(const Job& job, const Cluster& cluster, SharedWires* wires = nullptr);
// What forward and backward copy between tiers and do on the CPU. [derived] whatever else is off
// the GPU takes nothing from that, nor does it matter to these where the optimizer states are.
Seconds copies_work(const Job& job, const Cluster& cluster, SharedWires* wires = nullptr);

// The plan with all states on the GPU; nothing: that is not legal.
std::optional<Plan> all_on_gpu(Plan plan, const ModelConfig& model);
// Never above the simulated period of the plan with any homes and its prefetch or a shallower one.
// `job`: of it, lowered without order. `stages`: in_flight_of_stages(all_on_gpu). `wires`: of the
// cluster (cost_model.h).
Seconds shared_work(const Plan& all_on_gpu, Job& job, const Cluster& cluster, TimeFloors& floors,
                    const StagePieces& stages, SharedWires* wires = nullptr);

}  // namespace zplan
