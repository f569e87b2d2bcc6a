// `zplan run` in a real process for each rank of a plan, as torchrun would start them, each with a
// stand-in GPU of its own (tests/support/gpu/plugin.cpp). The program and the plug-in lie where the
// build has them beside this test: bin/zplan, tests/stand_in/libzplan_cuda.so.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "exec/run.h"
#include "planner/plan/plan.h"

namespace zplan::testing_support {

struct ProcessRun {
  int steps = 0;
  bool validates = false;  // its states at the end, on one batch
  TrainConfig train{};
  std::string save{};                 // folder of a checkpoint of the end; empty: none
  std::chrono::seconds deadline{60};  // for partners
};

struct ProcessResult {
  exec::RunResult result;             // losses, norms and validations; norms of 0: not computed
  std::vector<std::string> findings;  // of all stand-ins, and ranks of which there is no report
  std::int64_t launches = 0;          // of graphs, by rank 0
};

// On the text of tests/data. Throws Error(kBadInput) where the program refuses the plan, and
// Error(kDevice) with what the processes said where they end with any other failure.
ProcessResult run_in_processes(const Plan& plan, int world, const ProcessRun& run);

}  // namespace zplan::testing_support
