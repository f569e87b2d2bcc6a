// A framework with a caching allocator would hold this for the same Job: a report that never
// changes an offset. The step of one class is walked instance by instance; each content of a slot
// is a request, from the instance that first writes it to the last that uses it before it is
// written anew. Persistent buffers are requested before the step. What the framework holds besides
// is added as it is told.
//
//   live       most bytes requested at a time
//   allocated  the same, as the allocator rounds requests
//   reserved   most bytes of segments
//   least      bytes of segments, to 1 %, with which the allocator still gets through that gives
//              back free ones when it runs out: what is in use and what fragments
// A loop over micro-batches is cut to two periods of its slots and kKeptMicros iterations, by whole
// periods: later ones repeat the same requests. Jobs of more than kMostReplayed instances even so
// are not replayed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/program/job/job.h"

namespace zplan {

inline constexpr std::int64_t kKeptMicros = 2;
// Two steps are replayed where segments are given back: the second meets those that the first cut.
inline constexpr int kReplayedSteps = 2;
inline constexpr std::int64_t kMostReplayed = std::int64_t{1} << 21;

struct HeldBesides;  // held_besides.h

struct ReplayedMemory {
  Bytes live{0}, allocated{0}, reserved{0};
  Bytes least{0};              // `allocated` where the framework is not said to give back
  std::vector<Bytes> at_peak;  // of `live`, by Holder
  std::int64_t requests = 0;
  Bytes before_update{0};  // as `live`, of what comes before the first node of norm and update
};

// Replays the GPU tier of one class; nothing where that has too many instances.
std::optional<ReplayedMemory> replay_allocator(const Job& job, std::size_t rank_class,
                                               const HeldBesides& besides,
                                               bool expandable_segments = false);

// Parameters whose update runs on the GPU, in elements of one rank.
std::int64_t updated_parameters(const RankClass& rank_class);

}  // namespace zplan
