// Host memory that a process which trains on the CPU holds beside its slabs:
//
//   program    code and data of the program and its libraries that are touched, and the heap of
//              planning
//   text       one byte per token of the data
//   programs   per rank: nodes, views and edges, prepared products
//   stacks     per thread: what a lane touches of its stack, and of each thread of its team
//   engines    per rank with states on NVMe: two queues of requests, a block for broken ends, and
//              checksums of what the file holds
//   copy       of the states, which is written while training goes on
//   timeline   spans of all steps so far, where one is recorded, and the times kept of one step
//
// Slabs are placed, not predicted (planner/place); pages round them up. Left out: what libraries
// that are not linked here would take, the page cache.
#pragma once

#include "planner/cli/predict/prediction.h"

namespace zplan {

struct ProcessUse {
  Bytes program{0}, text{0}, programs{0}, stacks{0}, engines{0}, timeline{0}, copy{0};
  Bytes total() const { return program + text + programs + stacks + engines + timeline + copy; }
};

struct ProcessLoad {
  Bytes text{0};
  int threads_per_rank = 1;
  int recorded_steps = 0;  // of a timeline
  Bytes copy{0};           // of the states
};

// Of all ranks in one process.
ProcessUse process_use(const Job& job, const ProcessLoad& load);

// Memory and pinned memory that the slabs of all ranks take on the host, as placed.
Bytes placed_on_host(const Job& job);

}  // namespace zplan
