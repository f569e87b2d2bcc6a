// What is fitted to the step times of published runs: rates of stacks (hwprofiles/stack.h), and
// what a system's products take over those of its device elsewhere (SystemFacts::settled).
//
// The least sum of
//   w_i rho(log(predicted_i / measured_i) / noise)    over the runs, rho(r) = 2 (sqrt(1+r^2) - 1)
//   ((log rate - log usual) / spread)^2                 over the free rates
// with weights w_i = (runs of the group)^-1/4, so that a large group does not drown the others.
// `usual` and `spread` are those of hwprofiles/stack.h: what one knows of a stack nobody measured.
// Of a stack that has kin, the rate of the kin stands in place of `usual`. A rate may be one for
// each class of devices: "gemm@80" is of those of capability 8.0 and, up to the next that is free,
// later.
#pragma once

#include <climits>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hwprofiles/stack.h"
#include "planner/certainty/kind.h"
#include "planner/program/job/job.h"
#include "planner/validate/catalogues.h"
#include "planner/validate/runs.h"

namespace zplan::fit {

struct Sample;

// What is free: a rate of a stack, or `settled` of a system.
struct Free {
  std::string owner;                // of the stack or system
  const StackRate* rate = nullptr;  // of a stack; nothing: a system's
  int from = 0, below = INT_MAX;    // on devices of which capabilities; of all: from 0
  double usual = 1, spread = 1;
  std::optional<std::size_t> kin;  // index of the same rate of the stack's kin
  bool seconds = false;            // a time; else a factor
  double most = 10;

  std::string key() const { return rate != nullptr ? rate_key(rate->name, from) : "settled"; }
  bool concerns(const Sample& sample) const;
};

// Where values[k] is expected before any run is seen.
double expected_of(const std::vector<Free>& free, const std::vector<double>& values, std::size_t k);

// Reads tests/fit/constants.json.
std::vector<Free> read_constants(const std::string& path);

// A run, placed once and simulated often.
struct Sample {
  std::string id, group, stack, system;
  int capability = 0;  // of the devices
  double measured_s = 0, weight = 1;
  double sustained = 1;  // of the device, without what its system adds
  Kind kind;
  double mfu = 0;  // as measured
  Job job;
  Cluster cluster;
};

struct Problem {
  std::vector<Free> free;
  std::vector<Sample> samples;  // of runs that have a time and a plan
};

// Plans all runs. Of each group at most `most` runs, evenly spread over the file. `takes_part`: of
// runs of which stacks; nothing: of all.
Problem make_problem(std::vector<Free> free, const std::vector<RunRecord>& runs, std::size_t most,
                     const std::function<bool(const std::string& stack)>& takes_part);

// The cluster of a sample with these values of the free rates.
Cluster cluster_with(const Sample& sample, const std::vector<Free>& free,
                     const std::vector<double>& values);

// log(predicted / measured) of a sample with these values of the free rates.
double log_error(const Sample& sample, const std::vector<Free>& free,
                 const std::vector<double>& values);

}  // namespace zplan::fit
