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

// How long the work of all lanes takes together. Without queues lanes but the first are threads.
double seconds_together(Backend& backend, const std::vector<LaneWork>& lanes);

// How long one takes where they follow each other without a pause.
double seconds_each(Backend& backend, const std::function<void()>& queue, const Effort& effort);

// How long one takes in a graph of `times` of them; the backend has queues.
double seconds_in_graph(Backend& backend, const std::function<void()>& queue, int times,
                        const Effort& effort);

// How long the call that starts one takes to return.
double host_seconds(Backend& backend, const std::function<void()>& queue, int times,
                    const Effort& effort);

// The same where a graph of `times` of them is started; per operation. The backend has queues.
double host_seconds_in_graph(Backend& backend, const std::function<void()>& queue, int times,
                             const Effort& effort);

}  // namespace zplan::exec
