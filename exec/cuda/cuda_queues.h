// The launched lanes of a rank as CUDA streams (exec/schedule/queues.h). Flags are 64-bit words of
// pinned host memory that streams write and wait for by themselves (stream memory operations), so
// nothing on the device spins. They compare as signed numbers, modulo 2^64.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "exec/cuda/driver_api.h"
#include "exec/cuda/event_clock.h"
#include "exec/cuda/handles.h"
#include "exec/cuda/stream_budget.h"
#include "exec/schedule/queues.h"
#include "planner/program/job/program.h"

namespace zplan::exec::cuda {

// Those launched lanes that have nodes.
std::vector<Lane> launched_lanes(const Program& program);

// The thread that launches has chosen the device (cudaSetDevice). Before queues are destroyed those
// of all ranks are idle (queues.h), else it hangs or a stream writes to memory that is gone. A
// rank's queues go before its communicators, which wait for the graphs that use them to end.
class CudaQueues final : public Queues {
 public:
  CudaQueues(int device, std::shared_ptr<StreamBudget> budget, std::span<const Lane> lanes);
  ~CudaQueues() override;
  CudaQueues(const CudaQueues&) = delete;
  CudaQueues& operator=(const CudaQueues&) = delete;

  int device() const { return device_; }
  // Of one of the lanes given.
  cudaStream_t stream(Lane lane) const;

  EventId make_event(bool timing) override;
  std::span<Flag> make_flags(std::size_t count) override;

  void record(Lane lane, EventId event) override;
  void wait_event(Lane lane, EventId event) override;
  void write_flag(Lane lane, Flag& flag, std::uint64_t value) override;
  void wait_flag(Lane lane, Flag& flag, std::uint64_t at_least) override;

  bool reached(EventId event) override;
  TimePoint time_of(EventId event) override;
  void finish() override;

  void run_share(Lane lane, std::span<const CollectiveCall> members, int index) override;
  void copy_bytes(Lane lane, std::byte* to, const std::byte* from, Bytes bytes) override;

  void begin_capture(std::span<const Lane> lanes) override;
  GraphId end_capture() override;
  void launch(GraphId graph) override;

  void abandon() noexcept override;
  void open_flags() noexcept override;
  bool is_idle() noexcept override;

 private:
  struct Event {
    EventHandle handle;
    bool timing = false;
    std::size_t base = 0;  // of the last recording, on the clock
  };
  struct Flags {
    PinnedMemory memory;
    std::span<Flag> all;  // in it
  };
  struct LaneQueue {
    StreamHandle stream;
    EventHandle joint;  // where graphs fork off it and join it
  };
  struct Graph {
    std::vector<Lane> lanes;  // the first one's stream launches it
    GraphExecHandle executable;
  };

  void use_device() const;
  // The streams of lanes[1..] wait for that of lanes[0], or the other way round.
  void fork(std::span<const Lane> lanes);
  void join(std::span<const Lane> lanes);
  cudaEvent_t joint(Lane lane) const { return lanes_[static_cast<std::size_t>(lane)].joint.get(); }

  const int device_;
  const std::shared_ptr<StreamBudget> budget_;
  const DriverApi driver_;
  int streams_ = 0;
  std::vector<Flags> flags_;
  std::array<LaneQueue, kLaneCount> lanes_;
  std::vector<Event> events_;
  std::unique_ptr<EventClock> clock_;
  std::vector<Lane> capturing_;
  std::vector<Graph> graphs_;
};

}  // namespace zplan::exec::cuda
