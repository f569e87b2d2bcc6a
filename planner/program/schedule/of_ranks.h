// Makes a schedule of the order that each rank has.
#pragma once

#include <utility>

#include "planner/program/schedule/schedule.h"

namespace zplan {

// `order`: that of a rank, by its number.
template <typename Order>
PipelineSchedule schedule_of_ranks(ChunkMap chunks, std::int32_t micro_batches,
                                   const Order& order) {
  PipelineSchedule schedule{std::move(chunks), micro_batches, {}};
  for (std::int32_t rank = 0; rank < schedule.chunks.ranks(); ++rank)
    schedule.ranks.push_back(order(rank));
  return schedule;
}

}  // namespace zplan
