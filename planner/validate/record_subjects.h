// Each of these functions makes part of a plan of a record's keys on one subject, or gives the
// reason why it cannot be expressed; record_plan.cpp puts the parts together.
#pragma once

#include "hwprofiles/hardware_catalogue.h"
#include "planner/validate/record_plan.h"
#include "planner/validate/record_refusals.h"

namespace zplan {

inline bool is_pytorch(Modules modules) {
  return modules == Modules::kEager || modules == Modules::kCompiled;
}

// record_kernels.cpp: the kernel set, launches, and the rates of fused kernels.
Reason choose_kernels(const RunRecord& run, const StackProfile& stack, const DeviceFacts& device,
                      PlannedRun& out);
void choose_launches(const RunRecord& run, PlannedRun& out);
void choose_fused_kernels(const RunRecord& run, const std::vector<StackProfile>& stacks,
                          int capability, PlannedRun& out);
void choose_head(const RunRecord& run, PlannedRun& out);

// record_precision.cpp: element types of the states, and the optimizer.
// Chooses whether inputs of products are kept as codes; it comes behind what that goes with.
void choose_codes(const RunRecord& run, const StackProfile& stack, PlannedRun& out);
Reason choose_recipe(const RunRecord& run, const StackProfile& stack, PlannedRun& out);
Reason choose_optimizer(const RunRecord& run, PlannedRun& out);

// record_trained.cpp: what is trained, and by which loss.
Reason choose_trained(const RunRecord& run, PlannedRun& out);

// record_experts.cpp: how experts are spread and how even their work is.
Reason choose_experts(const RunRecord& run, PlannedRun& out);

// record_recompute.cpp: what is recomputed, and which activations leave the GPU.
Reason choose_recompute(const RunRecord& run, const StackProfile& stack, PlannedRun& out);

// record_parallel.cpp: ranks, shards, the pipeline, homes of states, the cluster's links.
Reason choose_parallel(const RunRecord& run, const StackProfile& stack, PlannedRun& out);
void choose_pieces(const RunRecord& run, Plan& plan);
Reason choose_links(const RunRecord& run, const HardwareCatalogue& catalogue, PlannedRun& out);

}  // namespace zplan
