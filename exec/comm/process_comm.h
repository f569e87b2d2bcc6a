// Communication between ranks that are processes, one each: TCP connections, one per (lane, pair),
// made ahead of the first step. Results are bit for bit those of threads (thread_comm.h).
// Host memory only. Leaves out: connections of more than one stream, shared memory of processes on
// one host, encryption.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "exec/comm/comm.h"
#include "exec/comm/lane_comm.h"
#include "exec/comm/process_links.h"
#include "planner/core/error.h"
#include "planner/program/instances/cursor.h"
#include "planner/program/job/job.h"

namespace zplan::exec {

class ProcessComm final : public Comm {
 public:
  // Made by all processes of the job; `deadline`: for a partner that does not come. Refers to its
  // arguments. Throws Error(kDevice) when connections cannot be made.
  ProcessComm(const Job& job, Rendezvous& rendezvous, const StopSignal& signal, Seconds deadline);

  TimePoint collective(std::int32_t rank, NodeIndex node, const CollectiveCall& call) override;
  TimePoint send(std::int32_t rank, NodeIndex node, const std::byte* from, Bytes bytes) override;
  TimePoint receive(std::int32_t rank, NodeIndex node, std::byte* to, Bytes bytes) override;

  // What to end with when another process is lost: who, why, and where this one was. From any
  // thread.
  Error lost(const Loss& loss) const;

 private:
  // Of a node.
  struct Site {
    Partners partners;       // the one of a transfer; none when it does not communicate
    std::int64_t calls = 0;  // so far
  };

  void connect(const Job& job, Rendezvous& rendezvous);
  void make_lanes(const Job& job);
  Site& site(std::int32_t rank, NodeIndex node);
  LaneComm& lane(NodeIndex node);

  ProgramIndex index_;
  LaneContext context_;
  std::map<LinkKey, Link> links_;  // channel = lane
  std::map<Lane, LaneComm> lanes_;
  std::vector<Site> sites_;  // by node
};

}  // namespace zplan::exec
