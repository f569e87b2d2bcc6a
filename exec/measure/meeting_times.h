// How long threads take to meet and to move data between them, by what the executor uses for it
// (comm/thread_group.h, comm/channel.h, progress.h). Medians of repeats; of collectives and
// transfers with their operands out of the caches.
#pragma once

#include <cstdint>

#include "exec/measure/timing.h"
#include "planner/program/job/ops.h"

namespace zplan::exec {

class MeetingTimes {
 public:
  explicit MeetingTimes(const Effort& effort) : effort_(effort) {}

  // Of float32; `bytes`: of the whole buffer.
  double collective(CollectiveKind kind, int ranks, std::int64_t bytes) const;
  double transfer(std::int64_t bytes) const;
  // From the moment that a thread counts an operation as done until another one that sleeps for it
  // goes on.
  double wake() const;
  // What a lane does for each operation beside its work: reads the clock and counts it as done.
  double operation() const;

 private:
  Effort effort_;
};

}  // namespace zplan::exec
