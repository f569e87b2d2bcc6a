// Interleaved 1F1B: each rank holds several chunks of the model, dealt out in loops, so that a
// micro-batch passes a rank several times and the bubble shrinks [Narayanan21 sec 2.2.2].
//
// Micro-batches go in rounds, of as many as there are ranks where these divide them: the k-th
// forward of a rank is of chunk k / round mod v, the k-th backward of the chunks in reverse. Rank r
// of p runs (v - 1) round + 2 (p - 1 - r) forwards ahead. Where ranks do not divide the
// micro-batches a round is m / max(1, m / p), as in PyTorch 2.15. Where a forward is worked off
// beside the backward that follows it, which may not need what it gives, each rank runs one more
// ahead [MegatronCore].
#pragma once

#include <optional>

#include "planner/program/schedule/schedule.h"

namespace zplan {

// The least number of micro-batches >= this one that makes equal rounds.
std::int32_t nearest_rounds(std::int32_t ranks, std::int32_t micro_batches);

// Needs equal rounds: nearest_rounds(ranks, micro_batches) == micro_batches.
PassOrder interleaved_order(std::int32_t rank, std::int32_t ranks, std::int32_t chunks,
                            std::int32_t micro_batches, bool beside = false);
PipelineSchedule interleaved(std::int32_t ranks, std::int32_t chunks, std::int32_t micro_batches);

}  // namespace zplan
