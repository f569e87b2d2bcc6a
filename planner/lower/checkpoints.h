// The inputs of a chunk's layers: where forward leaves them and backward finds them.
//
// They stay on the GPU, a slot per layer and micro-batch in flight, or they go away: to the host,
// to NVMe [Rajbhandari21 sec 5.1.2], or cut over the tensor parallel ranks, of which each keeps its
// part (Pa) [Rajbhandari20 sec 6.1]. Then forward runs over a ring of two and backward brings them
// back, gathering the parts.
#pragma once

#include <optional>

#include "planner/lower/stage.h"
#include "planner/lower/transfers.h"

namespace zplan {

class Checkpoints {
 public:
  Checkpoints(Stage& stage, const Chunk& chunk);

  // Input and output [T, h] of the layer of the surrounding loop (T of one rank with sequence
  // parallelism); of a given layer outside one.
  View input() const { return boundary(0); }
  View output() const { return boundary(1); }
  View input_of(std::int32_t layer) const;
  // Of the first layer and of the last, outside such a loop.
  View first_input() const { return input_of(chunk_.first_layer); }
  View last_output() const { return input_of(chunk_.first_layer + chunk_.layers); }

  // Sends the layer's input away; in forward's layer loop.
  void save();
  // The layer's input for backward; in backward's layer loop.
  View load();
  // Inputs do not stay where input() says.
  bool go_away() const { return away_.has_value(); }

 private:
  View boundary(std::int32_t shift) const;
  View home() const;
  Ring ring(const char* name) const;
  // The how-many-th layer input goes away, and comes back, in the layer loop.
  Ordinal saved() const;
  Ordinal loaded() const;

  Stage& s_;
  const Chunk& chunk_;
  Transfers transfers_;
  Shape shape_;  // of what a rank keeps
  BufferId boundary_ = 0;
  std::optional<BufferId> away_;
};

}  // namespace zplan
