// What one step of a Job asks of each lane, launch queue and link, added up without walking it: a
// node runs as often as the product of its blocks' counts says.
#pragma once

#include <array>
#include <functional>
#include <set>
#include <vector>

#include "planner/core/units.h"
#include "planner/cost/cost_model.h"
#include "planner/program/job/program.h"

namespace zplan {

// How often each block is run through in one step, and instances of each node.
std::vector<std::int64_t> runs_per_step(const Program& program);
std::vector<std::int64_t> instances_per_step(const Program& program);

struct ClassTotals {
  std::array<SimTime, kLaneCount> lane{};  // time of its ops, each alone
  SimTime launch{0};                       // host time to launch the ops of its lanes; marks free
};

struct StepTotals {
  std::vector<ClassTotals> classes;  // by stage
  std::vector<Seconds> links;        // bytes / capacity, by CostModel link
};

// `counts`: of which nodes.
StepTotals step_totals(const CostModel& model, const std::function<bool(const Node&)>& counts);
StepTotals step_totals(const CostModel& model);

// The first stage, and that of which the compute lane works longest.
std::set<std::size_t> walked_stages(const StepTotals& totals);

// flop of matrix products and attention in one step over all ranks, recomputation included.
// A double: a step of the greatest models exceeds int64.
double hardware_flops_per_step(const Job& job);

}  // namespace zplan
