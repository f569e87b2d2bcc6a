// The in-order queues of a device, as one rank uses them: one per launched lane (ops.h). A call
// queues its work and returns; work of one queue runs in the order it was queued, that of different
// queues together unless an event or a flag says otherwise. The thread that launches the rank's
// operations makes all calls; the CPU may read and write flags at any time from any thread.
//
// Events order queues among each other; flags order queues and CPU threads, and queues of different
// ranks: a counter in memory that both reach, which only grows. Nothing here blocks the CPU but
// finish(), and no queued work waits in a kernel or a function of the host: waits on flags are the
// queue's own.
//
// Graphs: what is queued between begin_capture() and end_capture() becomes one unit that launch()
// queues again, on all its lanes, after all that was queued on them before. Neither flags nor
// timing events may be part of it.
//
// All calls but those marked noexcept may throw Error(kDevice) when the device has failed.
//
// The end after a failure: queues of all ranks write flags of one another, so all of them are
// brought to their end before the first is destroyed, by three calls that are made when the
// launching threads are gone: abandon() on all, then open_flags() on all until all are idle.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "exec/comm/barrier.h"
#include "exec/comm/collective.h"
#include "planner/program/job/ops.h"

namespace zplan::exec {

using EventId = std::uint32_t;
using GraphId = std::uint32_t;

// What opens a flag for good. Devices compare as signed numbers: all values lie below 2^63.
inline constexpr std::uint64_t kOpenFlag = std::numeric_limits<std::int64_t>::max();

// Written by the CPU or by one queue, read by both.
struct Flag {
  std::atomic<std::uint64_t> value{0};
};
static_assert(sizeof(Flag) == sizeof(std::uint64_t));

class Queues {
 public:
  virtual ~Queues() = default;

  // Ahead of the first step. A timing event can tell when it was reached.
  virtual EventId make_event(bool timing) = 0;
  // Zeros, valid as long as the queues.
  virtual std::span<Flag> make_flags(std::size_t count) = 0;

  virtual void record(Lane lane, EventId event) = 0;
  // For the event's last recording before this call.
  virtual void wait_event(Lane lane, EventId event) = 0;
  virtual void write_flag(Lane lane, Flag& flag, std::uint64_t value) = 0;
  virtual void wait_flag(Lane lane, Flag& flag, std::uint64_t at_least) = 0;

  // Whether the last recording was reached, true when there is none; and when, of a timing event
  // that was.
  virtual bool reached(EventId event) = 0;
  virtual TimePoint time_of(EventId event) = 0;
  // Returns when everything queued is done.
  virtual void finish() = 0;

  // The share of member `index` (comm/collective.h), on addresses that this device reaches.
  virtual void run_share(Lane lane, std::span<const CollectiveCall> members, int index) = 0;
  virtual void copy_bytes(Lane lane, std::byte* to, const std::byte* from, Bytes bytes) = 0;

  virtual void begin_capture(std::span<const Lane> lanes) = 0;
  virtual GraphId end_capture() = 0;
  virtual void launch(GraphId graph) = 0;

  // What was being captured is gone, and what is queued need not be done; waits among it still
  // stand.
  virtual void abandon() noexcept = 0;
  // All that make_flags() gave. One that queues still write to may close again.
  virtual void open_flags() noexcept = 0;
  // Whether nothing that was queued is under way or still to come. A device that has failed as a
  // whole is idle.
  virtual bool is_idle() noexcept = 0;
};

}  // namespace zplan::exec
