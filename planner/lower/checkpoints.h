// The inputs of a chunk's layers: where forward leaves them and backward finds them.
//
// Of layers that are replayed together only the input of the first outlives their pass: the others'
// are made by the layer before, in forward and again in the replay.
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
  std::int32_t together;  // layers with one checkpoint
  std::int32_t parts;     // that a checkpoint is cut into; 1: it is whole
  Tier tier;              // of the home
  Category category;      // of what backward finds in place

  bool go_away() const { return parts > 1 || tier != Tier::kGpu; }
  Shape kept() const;  // of what a rank keeps
  // Inputs and the last output: all of them, or a ring of those that go away.
  Declared inputs(bool away) const;
  Declared home() const;  // of those that go away
  // On their way back: what a rank has kept, and of all ranks together.
  Declared loaded() const;
  Declared gathered() const;
  Declared checkpoint(std::string name, const Shape& shape, Lives lives) const;
  // Of so many layers between two checkpoints, as a replay leaves them for backward.
  Declared replayed(std::int32_t layers) const;
  void declare(const Declare& declare) const;
};

// This says whether inputs stay for a backward; those of layers that only go forward pass through a
// ring.
enum class KeepsInputs : std::uint8_t { kYes, kNo };

class Checkpoints {
 public:
  Checkpoints(Stage& stage, const Chunk& chunk, KeepsInputs keeps = KeepsInputs::kYes);

  // Input and output [T, h] of the layer of the surrounding loop (T of one rank with sequence
  // parallelism) in forward; of a given layer that has a checkpoint outside such a loop.
  View input() const;
  View output() const;
  View input_of(std::int32_t layer) const;
  // In backward: the input of a layer that has no checkpoint, which the replay of the one before
  // writes as its output. The output of the last layer before a checkpoint has no such view.
  View replayed_input() const { return between("replay.", s_.replay_member()); }
  View replayed_output() const { return between("replay.", s_.replay_member() + 1); }
  bool has_input() const { return s_.replay_member() == 0; }
  bool has_output() const { return s_.replay_member() + 1 == buffers_.together; }
  // Of the first layer and of the last, outside such a loop.
  View first_input() const { return input_of(chunk_.first_layer); }
  View last_output() const { return input_of(chunk_.first_layer + chunk_.model_layers()); }
  // These are of the layer of the module that is emitted (Stage::module). Its input is not what the
  // layer before gives, so that it has a slot of its own.
  View module_input() const { return input_of(chunk_.layer_of(s_.module)); }
  View module_output() const { return input_of(chunk_.layer_of(s_.module) + 1); }

  // Sends the layer's input away, if it has a checkpoint; in forward's layer loop.
  void save();
  // The layer's checkpoint for backward; in backward's layer loop.
  View load();
  // Inputs do not stay where input() says.
  bool go_away() const { return away_.has_value(); }
  bool stay() const { return keeps_ && !away_; }

 private:
  View boundary(std::int32_t shift) const;
  View between(const char* pass, std::int32_t member) const;
  View home() const;
  std::int32_t count() const { return chunk_.layers / buffers_.together; }
  std::int32_t inputs() const { return count() + 1 + chunk_.modules; }
  // Returns whether two micro-batches take turns and share slots: the inputs of one take the places
  // of those that the other is done with. Before there are any, they take one more for each layer
  // of an iteration.
  bool shares_places() const;
  std::int32_t last_place() const { return count() + s_.unit_layers(); }
  // The how-many-th checkpoint is the layer's, goes away, and comes back, in the layer loop.
  Ordinal saved() const;
  Ordinal loaded() const;

  Stage& s_;
  const Chunk& chunk_;
  const CheckpointBuffers buffers_;
  bool keeps_;
  Transfers transfers_;
  BufferId boundary_ = 0;
  std::optional<BufferId> away_;
};

}  // namespace zplan
