// The files of a timeline for trace viewers (--trace), of simulate and run.
#pragma once

#include <string>

#include "hwprofiles/hw_profile.h"
#include "planner/program/job/job.h"
#include "planner/program/timeline/timeline.h"
#include "planner/trace/trace.h"

namespace zplan {

// Before anything is done: throws Error when the file could not be written as its name says.
void check_trace(const std::string& path, bool all);

// What the operations of a Job load, as the cost model has it.
TraceLinks trace_links(const Job& job, const Cluster& cluster);

// Says on stderr how large it becomes. `all`: every rank, step and
// operation. Compressed where the name ends in .gz.
void write_trace(const std::string& path, const Job& job, const Timeline& timeline, bool all,
                 const TraceLinks& links = {});

}  // namespace zplan
