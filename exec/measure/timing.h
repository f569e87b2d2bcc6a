// How long work takes that is queued on a device again and again, by the wall clock.
#pragma once

#include <functional>
#include <vector>

#include "exec/backend.h"

namespace zplan::exec {

// How long to look at each figure.
struct Effort {
  double seconds = 0.2;  // of one batch, about
  int batches = 5;       // the median counts
};

// What one lane is to do: `queue` starts it once.
struct LaneWork {
  std::function<void()> queue;
  int times = 1;
};

// Until the work of all lanes is done. Without queues each lane but the first is a thread.
double seconds_together(Backend& backend, const std::vector<LaneWork>& lanes);

// Of one, back to back.
double seconds_each(Backend& backend, const std::function<void()>& queue, const Effort& effort);

// Of one in a graph of so many; of a backend with queues.
double seconds_in_graph(Backend& backend, const std::function<void()>& queue, int times,
                        const Effort& effort);

// Until the call that starts one returns.
double host_seconds(Backend& backend, const std::function<void()>& queue, int times,
                    const Effort& effort);

// The same for one of a graph of so many; of a backend with queues.
double host_seconds_in_graph(Backend& backend, const std::function<void()>& queue, int times,
                             const Effort& effort);

}  // namespace zplan::exec
