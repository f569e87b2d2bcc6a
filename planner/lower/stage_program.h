// The step of one stage: begin, passes of its chunks, update, report.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "planner/lower/blocks/decoder.h"
#include "planner/lower/boundary.h"
#include "planner/lower/encoder_ends.h"
#include "planner/lower/expert_sums.h"
#include "planner/lower/layer_run.h"
#include "planner/lower/model_ends.h"
#include "planner/lower/optimizer.h"
#include "planner/lower/tower_run.h"

namespace zplan {

class StageProgram {
 public:
  StageProgram(Stage& stage, const Decoder& model, PassOrder order);

  // Emits all of it; the homes of the states.
  std::vector<UnitHome> emit();

 private:
  using LayerRuns = std::vector<std::unique_ptr<LayerRun>>;  // one per segment

  const Checkpoints& checkpoints() const { return checkpoints_[s_.current]; }
  void passes(const PassOrder& order);
  void passes_around_update();
  void update();
  void update_after_backward();
  void pass(const Pass& pass);
  void forward();
  void begin_forward();
  void end_forward();
  void backward(Backward what, bool last_of_step);
  View begin_backward(Backward what, bool last_micro);
  void end_backward(const View& dx, bool last_of_step);
  void weight_backward(bool last_micro);
  void layers_backward(Backward what, const View& dx, bool last_micro);
  void heads_forward();
  void heads_backward(Backward what, const View& dx, bool last_micro);
  std::size_t segments_of_model() const;  // of the current chunk
  // Calls `emit` with the layer of each module of the chunk, while that is the one that is emitted.
  void each_module(bool upwards, const std::function<void(LayerRun&)>& emit);
  // A forward and a whole backward of another micro-batch in turns: both begin, then their layers
  // come side by side, then both end.
  void both(const Pass& forward, const Pass& backward);
  LayerLoops forward_loops();
  LayerLoops backward_loops(const View& dx, bool last_micro);
  // Whether the encoder's layers end before this segment.
  bool begins_decoder(std::size_t segment) const;
  void report();

  Stage& s_;
  PassOrder order_;
  Parameters parameters_;
  Gradients gradients_;
  Optimizer optimizer_;
  ExpertSums expert_sums_;
  std::vector<Checkpoints> checkpoints_;  // of each chunk
  ModelEnds ends_;
  std::optional<EncoderEnds> encoder_;
  std::optional<TowerRun> tower_;
  Boundaries boundaries_;
  std::vector<LayerRuns> layers_;  // of each chunk
};

}  // namespace zplan
