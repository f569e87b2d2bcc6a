// PipeDream: 1F1B that never drains and updates a stage after the backward of every micro-batch
// [Harlap18 sec 3.2]. A stage stashes the parameters that a micro-batch has gone forward with until
// its backward, so that both read the same version [Narayanan19 sec 3.3]; versions of different
// stages are not aligned (no vertical sync). Stages are numbered from 0 and a micro-batch t over
// all steps: stage s of p trains on parameters that lack the gradients of the p - 1 - s
// micro-batches before it,
//   w_s(t + 1) = w_s(t) - update(grad_s f(w_0(t - p + 1), .., w_(p - 1)(t))).
//
// What a stage does in a step of m micro-batches is one period of that, as double_buffered.h has
// it: m pairs of a forward and a backward, d = p - 1 - s apart, and an update after each. Between a
// forward and its backward d others update: there are d versions beside the newest.
//
// On one rank the same is trained without a pipeline: of c pieces of the model the i-th applies a
// gradient c - 1 - i micro-batches after it was taken, and nothing is stashed.
#pragma once

#include "planner/program/schedule/double_buffered.h"

namespace zplan {

// Micro-batches whose gradients the parameters of a piece lack in the forward of the next one.
constexpr std::int32_t updates_behind(std::int32_t piece, std::int32_t pieces) {
  return pieces - 1 - piece;
}

// Slots of a ring in which the versions that a stage stashes, those of steps that follow each other
// too, have slots of their own.
std::int32_t stash_slots(std::int32_t stage, std::int32_t stages, std::int32_t micro_batches);

// Of one rank: each micro-batch goes forward through all chunks and backward through them.
PassOrder one_by_one_order(std::int32_t chunks, std::int32_t micro_batches);
// Slots of a ring in which the gradients that wait there have slots of their own: so many that a
// step divides into them, micro_batches >= chunks.
std::int32_t gradient_slots(std::int32_t chunks, std::int32_t micro_batches);

}  // namespace zplan
