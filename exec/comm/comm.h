// How ranks meet in the nodes that communicate, on lanes whose operations are done when their call
// returns: thread_comm.h for ranks of one process, process_comm.h for processes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "exec/comm/barrier.h"
#include "exec/comm/collective.h"
#include "planner/core/units.h"
#include "planner/program/job/program.h"

namespace zplan::exec {

class Comm {
 public:
  virtual ~Comm() = default;

  // Each is called by the thread of the node's lane, in lane order, and returns when the output is
  // complete and the input may be overwritten; the value is when the last partner came.
  // Throw Error when the partners call different operations or one of them is lost, Stopped when
  // another thread of this process failed.
  virtual TimePoint collective(std::int32_t rank, NodeIndex node, const CollectiveCall& call) = 0;
  virtual TimePoint send(std::int32_t rank, NodeIndex node, const std::byte* from, Bytes bytes) = 0;
  virtual TimePoint receive(std::int32_t rank, NodeIndex node, std::byte* to, Bytes bytes) = 0;
};

}  // namespace zplan::exec
