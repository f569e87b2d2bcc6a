// What crosses the ends of a chunk: activations on their way up the model and gradients on their
// way down. The neighbouring piece lies on a neighbouring stage, or on this one where the way
// through the stages turns (planner/program/schedule/schedule.h). Then the input is copied, since
// both chunks keep it for their backward, and the gradient stays in a buffer that both work on. Of
// a pair of replicas (Stage::pair) each gives both to the other there.
#pragma once

#include <optional>
#include <vector>

#include "planner/lower/checkpoints.h"
#include "planner/lower/stage.h"

namespace zplan {

// The gradient [T, h] of a chunk's output, which backward turns into that of its input; per stage
// as one chunk has it.
Declared gradient_of_output(const Sizes& sizes);

// All functions speak of the chunk that is being emitted.
class Boundaries {
 public:
  // `checkpoints`: those of each chunk of the stage. `order`: the passes of the stage.
  Boundaries(Stage& stage, const std::vector<Checkpoints>& checkpoints, const PassOrder& order);

  // Brings the chunk's input to where the checkpoints have it. The first piece of the model takes
  // none, the last one gives no output.
  void take_input();
  void give_output();

  // The gradient [T, h] of the chunk's output, which backward turns into that of its input.
  View gradient();
  // Take the gradient of the output, which the last piece does not, and give that of the input,
  // which the first piece does not.
  void take_gradient(const View& dx);
  // The same for the micro-batch whose backward comes next, where that may be within the next step:
  // each stage so has as many receives in a step as the next stage has sends. `last`: the next one
  // is the first of another step.
  void take_next_gradient(bool last);
  void give_gradient(const View& dx);

 private:
  struct Neighbour {
    Peer peer;
    bool up = false;  // it is the next stage, not the one before
  };
  // Where the piece of the model lies that is `further` pieces up from the chunk's own: in a chunk
  // of this stage, or on a stage next to it.
  std::optional<std::size_t> own_chunk(std::int32_t further) const;
  Neighbour neighbour(std::int32_t further) const;
  // add() makes the buffer of a chunk's gradients, of_chunk() gives a view of it.
  BufferId add(const Chunk& chunk, std::string name, std::int32_t slots);
  View of_chunk(std::size_t chunk) const;
  void receive_gradient(const View& dx);
  void exchange(Phase phase, const View& own, const View& to);
  Stage& s_;
  const std::vector<Checkpoints>& checkpoints_;
  Shape shape_;
  std::vector<std::optional<BufferId>> gradients_;  // of chunks, where they outlive a pass
};

}  // namespace zplan
