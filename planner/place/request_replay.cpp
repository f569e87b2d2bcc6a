#include "planner/place/request_replay.h"

#include <algorithm>
#include <array>
#include <deque>
#include <numeric>
#include <utility>

#include "planner/place/caching_allocator.h"

namespace zplan {
namespace {

constexpr std::int64_t kFineness = 100;
constexpr double kAll = std::numeric_limits<double>::infinity();  // launches

}  // namespace

struct RequestReplay::State {
  State(bool expandable, Bytes limit) : allocator(expandable), capacity(limit) {}

  void release_lagging(double launches) {
    for (; !lagging.empty() && lagging.front().first <= launches; lagging.pop_front()) {
      unused -= allocator.size(lagging.front().second);
      allocator.release(lagging.front().second);
    }
  }

  bool make_room(Bytes size) {
    const auto has = [&] { return allocator.has_room(size, capacity); };
    if (capacity == kNoLimit || has()) return true;
    release_lagging(kAll);
    if (has()) return true;
    allocator.give_back();
    return has();
  }

  CachingAllocator allocator;
  Bytes capacity;
  std::vector<CachingAllocator::Handle> handles;  // of the requests
  // The host has released these and the device may still use them, by the launches after which they
  // are free.
  std::deque<std::pair<double, CachingAllocator::Handle>> lagging;
  Bytes unused{0};  // of these
  std::array<Bytes, kHolderCount> held{};
  Bytes live{0};
  ReplayedMemory result;
};

RequestReplay::RequestReplay(const Requests& requests, double queue, int steps,
                             bool expandable_segments)
    : requests_(requests),
      queue_(queue),
      steps_(steps),
      is_expandable_(expandable_segments),
      by_last_(requests.list.size()) {
  std::iota(by_last_.begin(), by_last_.end(), std::size_t{0});
  std::stable_sort(by_last_.begin(), by_last_.end(), [&](std::size_t a, std::size_t b) {
    return requests.list[a].last < requests.list[b].last;
  });
}

std::optional<ReplayedMemory> RequestReplay::run(Bytes capacity) const {
  State at(is_expandable_, capacity);
  at.handles.resize(requests_.list.size());
  at.result.requests = static_cast<std::int64_t>(requests_.list.size());
  at.result.at_peak.assign(kHolderCount, Bytes{0});
  for (int step = 0; step < steps_; ++step)
    if (!run_step(step, at)) return std::nullopt;
  at.result.least = at.result.allocated;
  at.result.reserved = at.allocator.most_reserved();
  return std::move(at.result);
}

Bytes RequestReplay::least(const ReplayedMemory& unlimited) const {
  Bytes low = unlimited.allocated, high = unlimited.reserved;
  if (is_expandable_ || run(low)) return low;
  while ((high - low) * kFineness > high) {
    const Bytes middle = (low + high) / 2;
    (run(middle) ? high : low) = middle;
  }
  return high;
}

double RequestReplay::launched_of(std::int64_t instance) const {
  const bool counts = instance != kBeforeStep && !requests_.launched.empty();
  return counts ? requests_.launched[static_cast<std::size_t>(instance)] : 0;
}

bool RequestReplay::run_step(int step, State& at) const {
  const std::vector<Request>& list = requests_.list;
  std::size_t ended = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (step > 0 && list[i].first == kBeforeStep) continue;
    for (; last_of(ended) < list[i].first; ++ended) end(by_last_[ended], at);
    at.release_lagging(launched_of(list[i].first));
    if (!at.make_room(list[i].size)) return false;
    begin(i, at);
  }
  if (step + 1 == steps_) return true;
  for (; ended < list.size(); ++ended)
    if (list[by_last_[ended]].first != kBeforeStep) end(by_last_[ended], at);
  at.release_lagging(kAll);  // the step's figures are read back
  return true;
}

void RequestReplay::begin(std::size_t i, State& at) const {
  const Request& request = requests_.list[i];
  at.handles[i] = at.allocator.allocate(request.size);
  at.result.allocated = std::max(at.result.allocated, at.allocator.allocated() - at.unused);
  at.live += request.size;
  at.held[static_cast<std::size_t>(request.holder)] += request.size;
  const bool is_before = requests_.update_first == kNever || request.first < requests_.update_first;
  if (is_before) at.result.before_update = std::max(at.result.before_update, at.live);
  if (at.live <= at.result.live) return;
  at.result.live = at.live;
  at.result.at_peak.assign(at.held.begin(), at.held.end());
}

void RequestReplay::end(std::size_t i, State& at) const {
  const Request& request = requests_.list[i];
  at.live -= request.size;
  at.held[static_cast<std::size_t>(request.holder)] -= request.size;
  if (!request.lags) return at.allocator.release(at.handles[i]);
  at.unused += at.allocator.size(at.handles[i]);
  at.lagging.emplace_back(launched_of(requests_.list[i].last) + queue_, at.handles[i]);
}

}  // namespace zplan
