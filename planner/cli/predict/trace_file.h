// The files of a timeline for trace viewers (--trace), of simulate and run.
#pragma once

#include <string>

#include "planner/program/job/job.h"
#include "planner/program/timeline/timeline.h"

namespace zplan {

// Before anything is done: throws Error when the file could not be written as its name says.
void check_trace(const std::string& path, bool all);

// Says on stderr how large it becomes. `all`: every rank, step and
// operation. Compressed where the name ends in .gz.
void write_trace(const std::string& path, const Job& job, const Timeline& timeline, bool all);

}  // namespace zplan
