// What is fitted: rates of stacks (hwprofiles/stack.h), to the step times of published runs.
//
// The least sum of
//   w_i^2 rho(log(predicted_i / measured_i) / noise)    over the runs, rho(r) = 2 (sqrt(1+r^2) - 1)
//   ((log rate - log usual) / spread)^2                 over the free rates
// with weights w_i = (runs of the group)^-1/4, so that a large group does not drown the others.
// `usual` and `spread` are the same for all stacks: what one knows of a stack nobody measured.
#pragma once

#include <string>
#include <vector>

#include "hwprofiles/stack.h"
#include "planner/program/job.h"
#include "planner/validate/catalogues.h"
#include "planner/validate/runs.h"

namespace zplan::fit {

// A rate of a stack that is free.
struct Free {
  std::string stack;
  const StackRate* rate = nullptr;
  double usual = 1, spread = 1;
  std::string name() const { return stack + "." + std::string(rate->name); }
};

// Reads tests/fit/constants.json.
std::vector<Free> read_constants(const std::string& path);

// A run, placed once and simulated often.
struct Sample {
  std::string id, group, stack;
  double measured_s = 0, weight = 1;
  Job job;
  Cluster cluster;
};

struct Problem {
  std::vector<Free> free;
  std::vector<Sample> samples;  // of runs that have a time and a plan
};

// Plans all runs. Of each group at most `most` runs, evenly spread over the file. `left_out`: a
// group that takes no part.
Problem make_problem(std::vector<Free> free, const std::vector<RunRecord>& runs, std::size_t most,
                     const std::string& left_out);

// log(predicted / measured) of a sample with these values of the free rates.
double log_error(const Sample& sample, const std::vector<Free>& free,
                 const std::vector<double>& values);

}  // namespace zplan::fit
