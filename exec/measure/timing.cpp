#include "exec/measure/timing.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "exec/schedule/queues.h"
#include "planner/core/error.h"

namespace zplan::exec {
namespace {

constexpr double kMostInBatch = 1000;

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

void finish(Backend& backend) {
  if (Queues* queues = backend.queues()) queues->finish();
}

template <typename Sample>
double median(int batches, const Sample& sample) {
  std::vector<double> samples;
  for (int i = 0; i < batches; ++i) samples.push_back(sample());
  const auto middle = samples.begin() + std::ssize(samples) / 2;
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

GraphId capture(Queues& queues, const std::function<void()>& queue, int times) {
  constexpr std::array kLanes{Lane::kCompute};
  queue();  // what only a first launch does is not for a graph
  queues.finish();
  queues.begin_capture(kLanes);
  for (int i = 0; i < times; ++i) queue();
  return queues.end_capture();
}

// All lanes in turn: none waits for the host to have queued another one's work.
void queue_in_turn(const std::vector<LaneWork>& lanes) {
  int most = 0;
  for (const LaneWork& lane : lanes) most = std::max(most, lane.times);
  for (int i = 0; i < most; ++i)
    for (const LaneWork& lane : lanes)
      if (i < lane.times) lane.queue();
}

void run(const LaneWork& lane) {
  for (int i = 0; i < lane.times; ++i) lane.queue();
}

}  // namespace

double seconds_together(Backend& backend, const std::vector<LaneWork>& lanes) {
  const Stopwatch watch;
  if (backend.queues() != nullptr) {
    queue_in_turn(lanes);
    finish(backend);
    return watch.seconds();
  }
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < lanes.size(); ++i)
    threads.emplace_back([&backend, lane = lanes[i]] {
      backend.prepare_thread();
      run(lane);
    });
  run(lanes.front());
  threads.clear();  // waits for them
  return watch.seconds();
}

double seconds_each(Backend& backend, const std::function<void()>& queue, const Effort& effort) {
  seconds_together(backend, {{queue, 1}});  // the first one may be slower
  const double one = seconds_together(backend, {{queue, 1}});
  const int times = static_cast<int>(std::clamp(effort.seconds / one, 1.0, kMostInBatch));
  return median(effort.batches, [&] {
    return seconds_together(backend, {{queue, times}}) / times;
  });
}

double seconds_in_graph(Backend& backend, const std::function<void()>& queue, int times,
                        const Effort& effort) {
  Queues* queues = backend.queues();
  ZPLAN_ASSERT(queues != nullptr);
  const GraphId graph = capture(*queues, queue, times);
  return seconds_each(
             backend, [&] { queues->launch(graph); }, effort) /
         times;
}

double host_seconds(Backend& backend, const std::function<void()>& queue, int times,
                    const Effort& effort) {
  seconds_together(backend, {{queue, times}});
  return median(effort.batches, [&] {
    const Stopwatch watch;
    for (int i = 0; i < times; ++i) queue();
    const double took = watch.seconds();
    finish(backend);
    return took / times;
  });
}

double host_seconds_in_graph(Backend& backend, const std::function<void()>& queue, int times,
                             const Effort& effort) {
  Queues* queues = backend.queues();
  ZPLAN_ASSERT(queues != nullptr);
  const GraphId graph = capture(*queues, queue, times);
  return host_seconds(
             backend, [&] { queues->launch(graph); }, 1, effort) /
         times;
}

}  // namespace zplan::exec
