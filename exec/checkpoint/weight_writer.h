// Writes what was trained into files of another program (planner/program/job/model_files.h): of
// each parameter its master, where it has one, in the type that it is kept in.
//
// Ranks that are processes write their own elements into the same files, which they see in one
// folder; the process of rank 0 makes the files and names the folder. Nothing else runs meanwhile.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exec/checkpoint/export_folder.h"
#include "exec/memory/slab.h"
#include "exec/memory/state_access.h"
#include "planner/core/units.h"
#include "planner/program/job/model_files.h"

namespace zplan::exec {

class Rendezvous;

struct ExportReport {
  std::string folder;
  std::int64_t files = 0;  // that hold tensors
  Bytes bytes{0};          // of all processes
  Seconds time{0};
};

// The type in which a tensor's parameters are kept (weight_layout).
DType weight_dtype(const Job& job, const TensorRef& tensor);

// `files` has each tensor of the job. `folder`: of the process of rank 0, else null. Processes that
// fail tell the others. Throws Error: kDevice when something cannot be written, kCheckFailed when
// values are not finite.
ExportReport write_weights(const Job& job, const ModelFiles& files,
                           const std::vector<RankMemory>& memory, ExportFolder* folder,
                           Rendezvous* rendezvous);

}  // namespace zplan::exec
