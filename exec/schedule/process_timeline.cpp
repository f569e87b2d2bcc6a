#include "exec/schedule/process_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "planner/core/error.h"

namespace zplan::exec {
namespace {

constexpr int kExchanges = 9;  // [assumed] enough that most are not late

SimTime since(TimePoint start) {
  const std::chrono::nanoseconds passed = std::chrono::steady_clock::now() - start;
  return SimTime{1000 * passed.count()};
}

std::string bytes_of(std::span<const SimTime> times) {
  return {reinterpret_cast<const char*>(times.data()), times.size_bytes()};
}

// Machines of a job have the same byte order.
std::vector<SimTime> times_of(const std::string& bytes) {
  if (bytes.size() != kExchanges * sizeof(SimTime))
    throw Error(ExitCode::kDevice, "another process sent no times of exchanges");
  std::vector<SimTime> times(kExchanges, SimTime{0});
  std::memcpy(times.data(), bytes.data(), bytes.size());
  return times;
}

void shift(RankTimeline& rank, SimTime by) {
  for (Span& span : rank.spans)
    for (SimTime* time : {&span.ready, &span.start, &span.end}) *time += by;
}

}  // namespace

SimTime start_offset(std::span<const SimTime> first, std::span<const SimTime> other) {
  ZPLAN_ASSERT(first.size() == other.size() && !first.empty());
  std::vector<SimTime> offsets;
  for (std::size_t i = 0; i < first.size(); ++i) offsets.push_back(first[i] - other[i]);
  const auto middle = offsets.begin() + std::ssize(offsets) / 2;
  std::nth_element(offsets.begin(), middle, offsets.end());
  return *middle;
}

Timeline join_timelines(std::vector<Timeline> parts, std::span<const SimTime> offsets) {
  ZPLAN_ASSERT(parts.size() == offsets.size() && !parts.empty());
  const SimTime earliest = *std::min_element(offsets.begin(), offsets.end());
  Timeline all = std::move(parts.front());
  for (RankTimeline& rank : all.ranks) shift(rank, offsets[0] - earliest);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    for (RankTimeline& rank : parts[i].ranks) {
      shift(rank, offsets[i] - earliest);
      all.ranks.push_back(std::move(rank));
    }
    all.kernels.merge(parts[i].kernels);
  }
  std::sort(all.ranks.begin(), all.ranks.end(),
            [](const RankTimeline& a, const RankTimeline& b) { return a.rank < b.rank; });
  return all;
}

Timeline gather_timeline(Rendezvous& rendezvous, int root, const Timeline& own, TimePoint start) {
  std::vector<SimTime> left;
  for (int i = 0; i < kExchanges; ++i) {
    rendezvous.exchange("");
    left.push_back(since(start));
  }
  const std::vector<std::string> times = rendezvous.gather(root, bytes_of(left));
  const std::vector<std::string> texts = rendezvous.gather(root, to_json(own));
  if (rendezvous.rank() != root) return {};
  std::vector<Timeline> parts;
  std::vector<SimTime> offsets;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    parts.push_back(timeline_from_json(texts[rank], fmt::format("timeline of rank {}", rank)));
    offsets.push_back(start_offset(times_of(times.front()), times_of(times[rank])));
  }
  return join_timelines(std::move(parts), offsets);
}

}  // namespace zplan::exec
