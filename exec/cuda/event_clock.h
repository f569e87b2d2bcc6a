// When events were reached, in the time of the host. The runtime tells milliseconds between two
// events as a float, which is finer than a microsecond for some seconds only; so each stream gets a
// new base event every few seconds, measured against its previous one. The first base is read
// beside the host's clock.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "exec/comm/barrier.h"
#include "exec/cuda/handles.h"
#include "planner/program/job/ops.h"

namespace zplan::exec::cuda {

class EventClock {
 public:
  // `stream` is idle.
  explicit EventClock(cudaStream_t stream);

  // The base of an event about to be recorded on the lane's stream.
  std::size_t base(Lane lane, cudaStream_t stream);
  // `event` was recorded after that base, with timing, and was reached.
  TimePoint time_of(cudaEvent_t event, std::size_t base);

 private:
  struct Base {
    EventHandle event;
    std::size_t previous = 0;
    TimePoint recorded;  // by the host
    TimePoint reached;
    bool known = false;
  };
  TimePoint time_of(std::size_t base);

  std::vector<Base> bases_;                       // [0]: the first, of all lanes
  std::array<std::size_t, kLaneCount> newest_{};  // of each lane
};

}  // namespace zplan::exec::cuda
