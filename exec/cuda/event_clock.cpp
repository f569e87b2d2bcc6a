#include "exec/cuda/event_clock.h"

#include <utility>

namespace zplan::exec::cuda {
namespace {

// [derived] a float of 4000 ms resolves 0.24 us; events are reached with about half a microsecond.
constexpr std::chrono::seconds kRenewal{4};

TimePoint::duration elapsed(cudaEvent_t from, cudaEvent_t to) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, from, to), "cudaEventElapsedTime");
  return std::chrono::duration_cast<TimePoint::duration>(
      std::chrono::duration<double, std::milli>(milliseconds));
}

}  // namespace

EventClock::EventClock(cudaStream_t stream) {
  Base first;
  first.event = make_cuda_event(true);
  check(cudaEventRecord(first.event.get(), stream), "cudaEventRecord");
  check(cudaEventSynchronize(first.event.get()), "cudaEventSynchronize");
  first.recorded = first.reached = std::chrono::steady_clock::now();
  first.known = true;
  bases_.push_back(std::move(first));
}

std::size_t EventClock::base(Lane lane, cudaStream_t stream) {
  std::size_t& newest = newest_[static_cast<std::size_t>(lane)];
  const TimePoint now = std::chrono::steady_clock::now();
  if (now - bases_[newest].recorded < kRenewal) return newest;
  Base next;
  next.event = make_cuda_event(true);
  next.previous = newest;
  next.recorded = now;
  check(cudaEventRecord(next.event.get(), stream), "cudaEventRecord");
  bases_.push_back(std::move(next));
  return newest = bases_.size() - 1;
}

TimePoint EventClock::time_of(cudaEvent_t event, std::size_t base) {
  return time_of(base) + elapsed(bases_[base].event.get(), event);
}

// Streams are in order: what stands before a reached event was reached.
TimePoint EventClock::time_of(std::size_t base) {
  Base& b = bases_[base];
  if (!b.known) {
    b.reached = time_of(b.previous) + elapsed(bases_[b.previous].event.get(), b.event.get());
    b.known = true;
  }
  return b.reached;
}

}  // namespace zplan::exec::cuda
