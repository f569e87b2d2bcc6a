// Reads the schedule of a pipeline from a file, and refuses one that cannot be worked off
// (planner/program/schedule/check.h):
//   {
//     "schema": "zplan.schedule/1",
//     "stages": 2,                  ranks of the pipeline
//     "micro_batches": 1,           of one step; the file is for that number alone
//     "chunks": [[0, 3], [1, 2]],   for each rank, which pieces of the model its chunks are:
//                                   ranks x chunks pieces, numbered from the first layers on
//     "ranks": [["F0.0", "F1.0", "B1.0", "B0.0"], ["F0.0", "F1.0", "I1.0", "I0.0", "W1.0", "W0.0"]]
//   }
// A pass is written as its kind, chunk and micro-batch: F forward, B backward, or its two parts, I
// for the gradient of the input and W for those of the weights.
#pragma once

#include <string>

#include "planner/program/schedule/schedule.h"

namespace zplan {

PipelineSchedule schedule_from_json(const std::string& text, const std::string& file_name);
PipelineSchedule load_schedule(const std::string& path);

}  // namespace zplan
