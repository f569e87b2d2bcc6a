// Collectives between ranks that are threads of one process: members publish their addresses, meet,
// and each does its own share (collective.h) in parallel with the others. Nothing is copied twice
// and nothing is allocated.
#pragma once

#include <vector>

#include "exec/comm/barrier.h"
#include "exec/comm/collective.h"

namespace zplan::exec {

class ThreadGroup {
 public:
  ThreadGroup(int size, StopSignal& signal)
      : calls_(static_cast<std::size_t>(size)), barrier_(size, signal) {}

  int size() const { return static_cast<int>(calls_.size()); }

  // Called by every member, one thread each, in the same order. Returns when the output is complete
  // and the input may be overwritten; the value is when the last member came.
  // Throws Error when the members call different operations, Stopped when another thread failed.
  TimePoint run(int index, const CollectiveCall& call);

 private:
  std::vector<CollectiveCall> calls_;
  Barrier barrier_;
};

}  // namespace zplan::exec
