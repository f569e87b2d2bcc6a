// Requests of a step and an allocator that meets them (allocator_replay.h).
//
// Where memory is limited and runs out, the host waits for the device, whereupon all is free that
// it has released, and the allocator gives back the segments of which nothing is in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "planner/core/units.h"
#include "planner/place/allocator_replay.h"
#include "planner/place/held_besides.h"

namespace zplan {

inline constexpr std::int64_t kBeforeStep = -1, kNever = -1;

// A request lasts from the instance before which it is made to the one after which it is given
// back. What is made before the step stays.
struct Request {
  Bytes size;
  std::int64_t first, last;
  Holder holder;
  bool lags = false;  // a collective reads or writes it
};

struct Requests {
  std::vector<Request> list;     // in order of their first instance
  std::vector<double> launched;  // before each instance; empty: the host is not ahead
  std::int64_t update_first = kNever;
};

class RequestReplay {
 public:
  static constexpr Bytes kNoLimit{std::numeric_limits<std::int64_t>::max()};

  // The host is ahead of the device by so many launches.
  RequestReplay(const Requests& requests, double queue, int steps, bool expandable_segments);

  // Within so many bytes of segments; nothing: it runs out of memory.
  std::optional<ReplayedMemory> run(Bytes capacity) const;
  // The least capacity, to 1 %, by halving between what is in use and what is reserved without one.
  Bytes least(const ReplayedMemory& unlimited) const;

 private:
  struct State;
  bool run_step(int step, State& at) const;
  void begin(std::size_t i, State& at) const;
  void end(std::size_t i, State& at) const;
  double launched_of(std::int64_t instance) const;
  std::int64_t last_of(std::size_t ended) const { return requests_.list[by_last_[ended]].last; }

  const Requests& requests_;
  double queue_;
  int steps_;
  bool is_expandable_;
  std::vector<std::size_t> by_last_;  // requests, in order of their last instance
};

}  // namespace zplan
