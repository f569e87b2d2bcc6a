// The inputs of a chunk's layers: where forward leaves them and backward finds them.
//
// They stay on the GPU, a slot per layer and micro-batch in flight, or they go away: to the host,
// to NVMe [Rajbhandari21 sec 5.1.2], or cut over the tensor parallel ranks, of which each keeps its
// part (Pa) [Rajbhandari20 sec 6.1]. Then forward runs over a ring of two and backward brings them
// back, gathering the parts.
#pragma once

#include <optional>

#include "planner/lower/declared.h"
#include "planner/lower/stage.h"
#include "planner/lower/transfers.h"

namespace zplan {

struct CheckpointBuffers {
  explicit CheckpointBuffers(const Sizes& sizes);

  DType dtype;
  std::int64_t tokens, local_tokens, hidden;
  std::int32_t parts;  // that a checkpoint is cut into; 1: it is whole
  Tier tier;           // of the home
  Category category;   // of what backward finds in place

  bool go_away() const { return parts > 1 || tier != Tier::kGpu; }
  Shape kept() const;  // of what a rank keeps
  // Inputs and the last output: all of them, or a ring of those that go away.
  Declared inputs(bool away) const;
  Declared home() const;  // of those that go away
  // On their way back: what a rank has kept, and of all ranks together.
  Declared loaded() const;
  Declared gathered() const;
  Declared checkpoint(std::string name, const Shape& shape, Lives lives) const;
  void declare(const Declare& declare) const;
};

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
  // The how-many-th layer input goes away, and comes back, in the layer loop.
  Ordinal saved() const;
  Ordinal loaded() const;

  Stage& s_;
  const Chunk& chunk_;
  const CheckpointBuffers buffers_;
  Transfers transfers_;
  BufferId boundary_ = 0;
  std::optional<BufferId> away_;
};

}  // namespace zplan
