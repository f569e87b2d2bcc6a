// A run in progress, shared by its two ways of executing (threaded.h, serial.h): the ranks, one
// record per lane, and what executing one operation means. Internal to exec.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "exec/comm/barrier.h"
#include "exec/comm/collective.h"
#include "exec/comm/queued_comm.h"
#include "exec/host_kernels.h"
#include "exec/offload/io_engine.h"
#include "exec/run.h"
#include "exec/schedule/pulse.h"
#include "exec/schedule/step_border.h"
#include "exec/schedule/step_gate.h"
#include "exec/schedule/step_log.h"
#include "planner/program/instances/cursor.h"

namespace zplan::exec {

struct Rank {
  std::int32_t number = 0;
  RankMemory* memory = nullptr;
  ProgramIndex index;
  // By node (planner/program/instances/validation.h), of a run that validates.
  std::vector<bool> makes_loss;
  std::vector<bool> changes_state;  // by node (planner/program/instances/carried.h)
  std::unique_ptr<Backend> backend;
  std::unique_ptr<IoEngine> reader, writer;  // of the lanes from and to NVMe; null: none

  const Program& program() const { return index.program(); }
  const Node& node(const Instance& at) const { return program().nodes[at.node]; }
};

// A lane that has nodes, and what it leaves behind.
struct LaneRun {
  Rank* rank = nullptr;
  Lane lane = Lane::kCompute;
  Cursor cursor;
  std::int64_t nodes = 0;   // per step
  std::vector<Span> spans;  // reserved for the whole run
  // By place in the step: what the operation took in all steps but the first. Kept in every run:
  // two additions beside the two looks at the clock that each operation has anyway.
  struct Busy {
    std::int64_t ns = 0, times = 0;
  };
  std::vector<Busy> busy;
  std::int64_t step_ns = 0;  // what all operations of the step under way have taken

  bool ends_step() const { return cursor->lane_sequence % nodes == nodes - 1; }
  const Node& node() const { return rank->node(*cursor); }
};

struct RunState {
  const Job* job = nullptr;
  const RunOptions* options = nullptr;
  RunServices services;
  StepGate gate;
  StepLog log;
  std::unique_ptr<QueuedComm> queued_comm;  // outlives the queues, which are the ranks'
  std::vector<Rank> ranks;                  // of this process
  std::vector<LaneRun> lanes;               // by (rank, lane)
  TimePoint start;                          // of the first step
  BorderAction border;
  Pulse pulse;
};

// The operands of one instance, at their addresses.
class BoundOperands {
 public:
  BoundOperands(const Rank& rank, const Instance& at);
  std::span<const Operand> all() const { return {operands_.data(), count_}; }
  const Operand& operator[](std::size_t i) const { return operands_[i]; }

 private:
  std::array<Operand, kMostOperands> operands_;
  std::size_t count_ = 0;
};

// The operands that the rank touches: none of a mark, none of a kernel or copy that another rank
// does alone. Only the root touches the input of a broadcast and the output of a reduce.
std::span<const Operand> touched(const Rank& rank, const Node& node, const BoundOperands& operands);

// Whether the step passes the node over: it validates, and has no use for it.
bool is_skipped(const RunState& state, const Rank& rank, NodeIndex node, std::int64_t run_step);

// Whether the operation that the lane stands on, and that waits for nothing but its partners, is
// still done (step_gate.h).
bool goes_on(RunState& state, const LaneRun& lane);

// Runs a kernel, a copy or a mark of a step of the run, but not what another rank does alone.
// Throws Error(kDevice) when storage fails.
void execute_local(RunState& state, const Rank& rank, const Instance& at, std::int64_t run_step,
                   const BoundOperands& operands);

CollectiveCall collective_call(const Rank& rank, const Node& node, const BoundOperands& operands);

struct Times {
  TimePoint ready, start, end;
};
void record_span(const RunState& state, LaneRun& lane, OpId op, std::int64_t step,
                 const Times& times);
// Records the instance the lane stands on and tells the observer and, after the last one of a step,
// the log. Of what validates only the log hears.
void complete(RunState& state, LaneRun& lane, const BoundOperands& operands, const Times& times);

// "rank 1: forward.qkv.compute[m0,l3]"
std::string describe(const Rank& rank, const Instance& at);

}  // namespace zplan::exec
