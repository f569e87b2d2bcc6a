// How long a step of a schedule takes where passes have given durations, in units of one's choice:
// ranks work off their passes in order, each as soon as what it reads is there, and communication
// takes no time. From this come the bubble of a schedule, and whether it gets stuck.
#pragma once

#include <optional>

#include "planner/program/schedule/schedule.h"

namespace zplan {

// Of one chunk.
struct PassUnits {
  std::int64_t forward = 1;
  std::int64_t input_backward = 1;
  std::int64_t weight_backward = 1;

  std::int64_t of(PassKind kind) const;  // a whole backward is both its parts
};

// What a pass reads of a neighbouring piece of the model: the output of the piece before, or the
// gradient of the input of the piece after it.
struct PassInput {
  ChunkMap::Place from;
  bool forward = true;  // else a gradient
};
std::optional<PassInput> input_of(const ChunkMap& chunks, std::int32_t rank, const Pass& pass);
// The chunk that reads what the pass gives; none: nobody does.
std::optional<ChunkMap::Place> reader_of(const ChunkMap& chunks, std::int32_t rank,
                                         const Pass& pass);

struct RankTime {
  std::int64_t start = 0;  // of the first pass
  std::int64_t end = 0;    // of the last one
  std::int64_t busy = 0;
  std::size_t done = 0;  // passes; fewer than the rank has where the schedule gets stuck
};

struct ScheduleTime {
  std::vector<RankTime> ranks;

  std::int64_t makespan() const;
  // Of the makespan, the part that a rank has nothing to do.
  double idle(std::int32_t rank) const;
  // The same in parts of the time that the busiest rank computes [Narayanan21 sec 2.2.1].
  double bubble() const;
};

// `units` by position. Micro-batches and chunks of all passes are within the schedule.
ScheduleTime time_of(const PipelineSchedule& schedule, const std::vector<PassUnits>& units);

}  // namespace zplan
