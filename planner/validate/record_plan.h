// This makes a Plan of a published run: model, cluster, software and every decision pinned, by
// rules that look at nothing but what the record states.
//
//   null             the stack's default; where it has none, what the Plan does by default
//   model            run_model.h
//   software         run_stack.h
//   cluster          hwprofiles/build_cluster.h
//   kernel set       the newest that the device's capability allows, for the format of the
//                    products; fused where the run says fused attention, else as the stack is
//   ZeRO stage       as stated; where none is, or on one replica, which no stage divides, at least
//                    the one that homes off the GPU need
//   loss scaling     as the kernels need it, unless the stack has a say
//   homes            as stated; of software that chose, its stack's, else the planner's
//                    (run_homes.h)
//   recipe           of those that go with the ZeRO stage the one with the bytes per parameter that
//                    are stated; else the stack's
//   micro-steps      global batch / (micro-batch x dp), rounded to the nearest and flagged where it
//                    is no whole number
// Each subject has a function of its own (record_subjects.h). What a record states and nothing
// expresses refuses it by name (record_refusals.h).
// What a Plan cannot express at all is a reason, never something else instead. What it expresses
// less exactly is a flag: the table of simplifications is in record_plan.cpp.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "models/model_config.h"
#include "planner/plan/plan.h"
#include "planner/validate/catalogues.h"
#include "planner/validate/runs.h"

namespace zplan {

struct PlannedRun {
  ModelConfig model;
  Cluster cluster;  // with the rates of the stack
  Plan plan;
  std::string stack;               // name
  bool stack_stated = true;        // else it is a guess (run_stack.h)
  bool recompute_stated = true;    // else nothing is recomputed
  std::vector<std::string> flags;  // what was rounded, assumed or simplified
  std::string unsupported;         // why there is no plan; empty: there is
};

// `stack`: whose software; nothing: by run_stack.h.
PlannedRun plan_run(const RunRecord& run, const RunCatalogues& catalogues,
                    const StackProfile* stack = nullptr);

}  // namespace zplan
