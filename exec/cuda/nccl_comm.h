// Communication between processes by NCCL (exec/comm/queued_comm.h): one communicator for each kind
// of group and each lane that the Job uses, and one for each pair of neighbours and each way of
// transfers between them: what goes on at one border never waits for another. Members have the
// order of planner/program/job/meetings.h. Sums are NCCL's: their order depends on its
// algorithm, and 16-bit values are rounded after each addition.
//
// Memory: communicators connect at the start instead of on first use (NCCL_RUNTIME_CONNECT=0,
// unless the user set it), and each is used once before the first step.
//
// The start is asynchronous and has a deadline. In steps the calls are made on the launching thread
// (ncclConfig_t::blocking = 1, which waits for nothing once connections stand; otherwise NCCL
// starts a thread for each call). A transfer is one operation of its own, not grouped with others:
// the Job's launch orders are free of circles with each pair of send and receive as one node.
#pragma once

#include <nccl.h>

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "exec/cuda/cuda_queues.h"
#include "exec/cuda/handles.h"
#include "exec/cuda/operation_watch.h"
#include "exec/device.h"
#include "planner/program/job/job.h"

namespace zplan::exec::cuda {

class NcclComm final : public QueuedComm {
 public:
  // As Device::make_comm says. `queues` are used by calls only, not by the
  // destructor, which hangs while graphs with its operations exist.
  NcclComm(CudaQueues& queues, const ProcessGroup& processes);
  ~NcclComm() override;
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  void collective(std::int32_t rank, const Instance& at, const CollectiveCall& call) override;
  void send(std::int32_t rank, const Instance& at, const std::byte* from, Bytes bytes) override;
  void receive(std::int32_t rank, const Instance& at, std::byte* to, Bytes bytes) override;
  bool may_be_captured() const override { return true; }
  void check() override;
  std::string under_way() override;
  void abort() noexcept override;

 private:
  // What a communicator is for: collectives of a kind of group, or transfers from one place of an
  // axis to the next. `turn`: of the transfers, pairs that no rank is in two of.
  struct Use {
    Lane lane = Lane::kCompute;  // of transfers the one that sends
    bool transfers = false;
    Group group;
    int turn = 0;
    friend auto operator<=>(const Use&, const Use&) = default;
  };
  struct Communicator {
    Use use;
    ncclComm_t comm = nullptr;
    Communicator() = default;
    ~Communicator();
    Communicator(const Communicator&) = delete;
    Communicator& operator=(const Communicator&) = delete;
  };
  struct LaneWatch {
    std::vector<EventHandle> events;
    std::optional<OperationWatch> operations;
    std::optional<OpId> captured;  // the first operation that a graph has
  };

  const Node& node(const Instance& at) const { return program_.nodes[at.node]; }
  std::string describe(const Use& use) const;
  Use use_of(std::int32_t stage, const Node& node) const;
  Use use_of(const Node& node) const { return use_of(job_.stage_of(rank_), node); }
  std::vector<Use> uses() const;
  bool takes_part(const Use& use) const;
  std::set<CollectiveKind> collectives(const Use& use) const;
  std::optional<Node> transfer(const Use& use) const;
  Lane lane_of(const Communicator& communicator) const;
  ncclComm_t find(const Use& use) const;

  void connect(const ProcessGroup& processes);
  void connect_world(Communicator& world, const ProcessGroup& processes);
  void split(Communicator& world, const Use& use);
  void make_first_memory();
  void use_once();
  void queue_once(const Communicator& communicator, std::byte* memory);
  void wait_until_ready(ncclComm_t comm, const std::string& what) const;
  void wait_until_done(const Communicator& communicator) const;

  [[noreturn]] void fail(ncclResult_t result, ncclComm_t comm, const std::string& what) const;
  // Waits for a call on an asynchronous communicator: that of the start, or any where
  // NCCL_COMM_BLOCKING=0 is set.
  void settle(ncclResult_t result, ncclComm_t comm, const std::string& what) const;
  // What follows the call that queues an operation.
  void queued(ncclResult_t result, ncclComm_t comm, const Instance& at);
  void watch(Lane lane, OpId op);
  void check_deadline(Lane lane);
  std::string words(const LaneWatch& watch, OpId op) const;

  const Job& job_;
  const std::int32_t rank_;
  const Program& program_;
  CudaQueues& queues_;
  const std::chrono::seconds deadline_;
  const std::function<void()> check_processes_;
  DeviceMemory first_use_;  // freeing it waits for the device, so after the communicators
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::array<LaneWatch, kLaneCount> watches_;
  std::vector<std::jthread> aborting_;
};

}  // namespace zplan::exec::cuda
