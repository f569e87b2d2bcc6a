// How many micro-batches a chunk of a rank has between two passes at once, counted from the order
// of its passes: for so many, what the first pass leaves for the second is kept. The order has no
// fault (check.h).
#pragma once

#include <span>

#include "planner/program/schedule/schedule.h"

namespace zplan {

struct InFlight {
  std::int32_t most = 0;  // at once
  // From the first to the last of them: in a ring of so many slots each has one of its own, at its
  // micro-batch modulo the slots. More than `most` where passes leave the order of micro-batches.
  std::int32_t span = 0;
  friend bool operator==(const InFlight&, const InFlight&) = default;
};

// From the forward until its weights' gradient is there: the activations that backward reads.
InFlight forward_to_backward(std::span<const Pass> passes, std::int32_t chunk);
// From the input backward until the weight backward; none where backward is one pass.
InFlight input_to_weight(std::span<const Pass> passes, std::int32_t chunk);

// From the input backward of one chunk to that of another, which goes on with its gradient.
InFlight gradient_on_turn(std::span<const Pass> passes, std::int32_t from, std::int32_t to);

// The most micro-batches of all chunks of a rank together between forward and weight gradient.
std::int32_t most_chunks_in_flight(std::span<const Pass> passes);

}  // namespace zplan
