#include "planner/program/schedule/interleaved.h"

#include <algorithm>

#include "planner/core/error.h"

#include "planner/program/schedule/of_ranks.h"

namespace zplan {
namespace {

std::int32_t rounds_of(std::int32_t ranks, std::int32_t micro_batches) {
  return std::max(1, micro_batches / ranks);
}

}  // namespace

std::int32_t nearest_rounds(std::int32_t ranks, std::int32_t micro_batches) {
  while (micro_batches % rounds_of(ranks, micro_batches) != 0) ++micro_batches;
  return micro_batches;
}

PassOrder interleaved_order(std::int32_t rank, std::int32_t ranks, std::int32_t chunks,
                            std::int32_t micro_batches, bool beside) {
  const std::int32_t round = micro_batches / rounds_of(ranks, micro_batches);
  ZPLAN_ASSERT(micro_batches % round == 0);
  const std::int32_t passes = chunks * micro_batches;
  const std::int32_t ahead =
      std::min((chunks - 1) * round + 2 * (ranks - 1 - rank) + (beside ? 1 : 0), passes);
  // Of the k-th forward or backward.
  const auto turn = [&](std::int32_t k) { return k / round % chunks; };
  const auto micro = [&](std::int32_t k) { return k / (round * chunks) * round + k % round; };
  PassOrder order;
  const auto forward = [&](std::int32_t k) { order.add(PassKind::kForward, turn(k), micro(k)); };
  const auto backward = [&](std::int32_t k) {
    order.add(PassKind::kBackward, chunks - 1 - turn(k), micro(k));
  };
  for (std::int32_t k = 0; k < ahead; ++k) forward(k);
  order.cut();
  for (std::int32_t k = ahead; k < passes; ++k) {
    forward(k);
    order.passes.back().beside = beside;
    backward(k - ahead);
  }
  order.cut();
  for (std::int32_t k = passes - ahead; k < passes; ++k) backward(k);
  return order;
}

PipelineSchedule interleaved(std::int32_t ranks, std::int32_t chunks, std::int32_t micro_batches) {
  return schedule_of_ranks(looped_chunks(ranks, chunks), micro_batches, [=](std::int32_t rank) {
    return interleaved_order(rank, ranks, chunks, micro_batches);
  });
}

}  // namespace zplan
