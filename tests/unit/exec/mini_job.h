// A small training Job built by hand, for tests of the executor: a language model of two tables,
// logits = (wte[token] + wpe[position]) wte^T, trained by AdamW. Data parallel, optionally with the
// optimizer sharded over the replicas, with its states on NVMe, updated on the host, and with the
// two halves on two pipeline stages.
#pragma once

#include <functional>
#include <string>

#include "exec/data_source.h"
#include "exec/run.h"
#include "planner/program/job/job.h"

namespace zplan::exec::testing {

struct MiniOptions {
  std::int32_t dp = 1;
  std::int32_t pp = 1;  // 1 or 2
  std::int64_t global_batch = 4;
  std::int64_t micro_batch = 1;
  bool shard_optimizer = false;
  bool on_nvme = false;
  bool pipeline_first = false;  // stages are neighbours, not replicas
  std::string kernel_set = "cpu.f64";
};

// Has data edges and no placement.
Job unplaced_mini_job(const MiniOptions& options);
Job mini_job(const MiniOptions& options);

// The first node of a stage with this kernel.
NodeIndex find_kernel(const Program& program, KernelId kernel);
BufferId find_buffer(const Program& program, const std::string& name);
void remove_edges(Program& program, NodeIndex node);

DataSource mini_data();
// For jobs on NVMe, in the folder of temporary files.
RunOptions mini_run(RunMode mode, int steps = 3);

// Steps 0 and 1 are done; in step 2 the first operation for which `at` is true waits until the run
// has been asked whether it ends.
RunResult run_interrupted(const Job& job, RunOptions options,
                          const std::function<bool(const NodeEvent&)>& at);
bool is_backward(const NodeEvent& event, std::int32_t rank);

}  // namespace zplan::exec::testing
