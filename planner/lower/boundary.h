// What crosses the ends of a chunk: activations on their way up the model and gradients on their
// way down. The neighbouring piece lies on a neighbouring stage, or on this one where the way
// through the stages turns (planner/program/schedule/schedule.h). Then the input is copied, since
// both chunks keep it for their backward, and the gradient stays in a buffer that both work on.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "planner/lower/checkpoints.h"
#include "planner/lower/stage.h"

namespace zplan {

// All functions are of the chunk that is being emitted.
class Boundaries {
 public:
  // `checkpoints`: of each chunk of the stage, whose passes are `order`.
  Boundaries(Stage& stage, const std::vector<Checkpoints>& checkpoints, const PassOrder& order);

  // Where the checkpoints have it; not of the first piece of the model.
  void take_input();
  // Not of the last piece.
  void give_output();

  // Where the gradient [T, h] of the chunk's output is, which backward turns into its input's.
  View gradient();
  // The output's, not of the last piece; the input's, not of the first.
  void take_gradient(const View& dx);
  void give_gradient(const View& dx);

 private:
  struct Neighbour {
    Peer peer;
    bool up = false;  // it is the next stage, not the one before
  };
  // Of the piece so much further up the model: the chunk of this stage that has it, if one does,
  // or the stage that has it.
  std::optional<std::size_t> own_chunk(std::int32_t further) const;
  Neighbour neighbour(std::int32_t further) const;
  // A buffer of a chunk's gradients, with so many slots, and its view.
  BufferId add(const Chunk& chunk, const char* name, std::int32_t slots);
  View of_chunk(std::size_t chunk) const;
  // Names nodes by the first layer of the chunk where the stage has several. Views of a layer are
  // made outside, since the same number picks its slot.
  void named(const std::function<void()>& emit);

  Stage& s_;
  const std::vector<Checkpoints>& checkpoints_;
  Shape shape_;
  std::vector<std::optional<BufferId>> gradients_;  // of chunks, where they outlive a pass
};

}  // namespace zplan
