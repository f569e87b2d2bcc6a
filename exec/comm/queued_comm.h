// How ranks meet in the nodes that communicate, on lanes that are queues (queues.h): flag_comm.h
// for ranks of one process, cuda/nccl_comm.h for processes. The calls queue on the node's lane and
// return.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "exec/comm/collective.h"
#include "planner/core/units.h"
#include "planner/program/instances/cursor.h"

namespace zplan::exec {

class QueuedComm {
 public:
  virtual ~QueuedComm() = default;

  virtual void collective(std::int32_t rank, const Instance& at, const CollectiveCall& call) = 0;
  virtual void send(std::int32_t rank, const Instance& at, const std::byte* from, Bytes bytes) = 0;
  virtual void receive(std::int32_t rank, const Instance& at, std::byte* to, Bytes bytes) = 0;
  // Whether its calls may stand in a graph.
  virtual bool may_be_captured() const = 0;
  // Polled by the launching thread. Throws Error naming the rank and operation when a partner was
  // lost or a deadline has passed.
  virtual void check() = 0;
  // The oldest operation that is under way, in words; "": there is none, or flags tell. Of the
  // launching thread, or when that has ended.
  virtual std::string under_way() { return {}; }
  // Ends everything under way, after a failure, but for what waits on flags, which their queues
  // open. May be called again; the object is of no other use afterwards.
  virtual void abort() noexcept = 0;
};

}  // namespace zplan::exec
