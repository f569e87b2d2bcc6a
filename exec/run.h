// Runs a placed Job on this machine, ranks as threads of one process. Interprets the Program's
// nodes, views and edges and nothing else: what strategy they come from is unknown here.
//
// Threaded: one thread per (rank, lane) issues its lane's nodes in order; a node starts when the
// completion counts its edges ask for are reached and, for communication, its partners have come.
// Steps run back to back. On a device with queues the lanes of the device are issued by one thread
// per rank instead, in program order, and run by themselves (launcher.h).
// Serial: one thread runs all ranks, an operation at a time; for tests. Both give the same bits.
//
// Expects a job that planner/program/verify/verify.h accepts. Of that, only what keeps addresses
// inside slabs is checked again: circular waits end a serial run with an Error, and hang a threaded
// one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "exec/backend.h"
#include "exec/checkpoint/checkpoint.h"
#include "exec/checkpoint/weight_writer.h"
#include "exec/data_source.h"
#include "exec/device.h"
#include "exec/kernel_choice.h"
#include "exec/memory/slab.h"
#include "exec/offload/storage.h"
#include "exec/schedule/interruption.h"
#include "exec/schedule/step_result.h"
#include "exec/schedule/step_sequence.h"
#include "planner/core/units.h"
#include "planner/program/job/job.h"
#include "planner/program/job/model_files.h"
#include "planner/program/timeline/timeline.h"
#include "planner/program/train_config.h"

namespace zplan::exec {

enum class RunMode : std::uint8_t { kThreaded, kSerial };

// An operation that has just completed; its operands may be read during the call.
struct NodeEvent {
  std::int32_t rank = 0;
  const Program* program = nullptr;
  NodeIndex node = 0;
  Env env;
  std::int64_t step = 0;
  std::span<const Operand> operands;
};

class Rendezvous;

struct ValidationOptions {
  std::shared_ptr<const DataSource> data;  // null: the training is not validated
  ValidationTimes times;
};

struct RunOptions {
  int steps = 1;  // of the training; a run that goes on from a checkpoint does those that are left
  TrainConfig train;
  RunMode mode = RunMode::kThreaded;
  int threads_per_rank = 1;        // of OpenMP, inside kernels
  std::shared_ptr<Device> device;  // null: the CPU
  bool record_timeline = false;    // of jobs that are not launched as graphs
  // Of a job whose ranks are processes: how this one, which is one rank, meets the others. Null:
  // all ranks are threads of this process.
  std::shared_ptr<Rendezvous> rendezvous;
  // For a partner that does not come, and for queues of ranks that share a device.
  std::chrono::seconds comm_deadline{600};
  StorageOptions storage;  // a job with states on NVMe needs a directory
  // Serial only. Checks every operation against its declared views (guard.h).
  bool guard = false;
  // Serial only. 0: always the first ready operation in order of (rank, lane); else one of the
  // ready operations, drawn from this seed.
  std::uint64_t schedule_seed = 0;
  KnownChoices choices;  // of an earlier run, to be made again
  // Once all is ready for the first step.
  std::function<void(const std::vector<KernelChoice>&)> prepared;
  Interruption interruption;
  // Steps as all ranks complete them, in order, one call at a time; in threaded mode from any
  // thread. Counted from the begin of the training.
  std::function<void(std::int64_t step, const StepResult&)> step_done;
  // Validations, likewise.
  std::function<void(const ValidationResult&)> validated;
  // How far the training of this run is, in steps, a few times a second; from any thread, one call
  // at a time.
  std::function<void(double steps)> pulse;
  // In threaded mode called from many threads at once; on devices with queues serial only.
  std::function<void(const NodeEvent&)> observer;
  ValidationOptions validation;
  SaveOptions save;
  ResumeOptions resume;
  // What a run begins with that goes on from no checkpoint; null: with initial values that are
  // drawn. Has each tensor of the job.
  std::shared_ptr<const ModelFiles> weights;
  // Where the parameters are written when all steps are done; null: nowhere.
  std::shared_ptr<const ModelFiles> exported;
  // Called once, before the first step: where the run begins.
  std::function<void(const ResumePoint&)> resumed;
  // What goes wrong without ending the run, a line each, from any thread; empty: nobody is told.
  std::function<void(const std::string&)> say;
};

struct RunResult {
  std::vector<StepResult> steps;  // those that were completed, from that of `begin` on
  std::vector<ValidationResult> validations;
  std::vector<KernelChoice> choices;  // of this process's ranks, each once
  bool interrupted = false;
  bool gave_up_step = false;  // the next one, which was half done
  bool has_losses = true;     // else another process has them
  // Source "exec", of all ranks; empty unless recorded, or where another process has the losses.
  Timeline timeline;
  // One step, of the mean times of operations in all steps but the first, lane by lane without
  // pauses. Empty where these have no times of their own.
  Timeline mean_step;
  std::vector<RankMemory>
      memory;  // of this process's ranks; refers to the Job (state_access.h reads it)
  std::optional<StorageReport> storage;  // of a job with states on NVMe
  ResumePoint begin;
  std::optional<SaveReport> saves;  // where states are saved
  std::optional<ExportReport> exported;
};

// Throws Error: kBadInput for a job, data or option that cannot be run, kDevice when memory or
// storage cannot be had or fail, kCheckFailed when a guard finds a violation or nothing can go on
// (a stuck job). Files of the NVMe tier have no name any more when it returns or throws.
RunResult run(const Job& job, const DataSource& data, const RunOptions& options);

}  // namespace zplan::exec
