// Where what the forward of a layer leaves for its backward stays: the values of its blocks.
//
// Recompute none: every value of every layer and micro-batch in flight stays on the GPU.
// Selective: all but the probabilities of attention, which backward computes again from queries and
// keys [Korthikanti22 sec 5]. Full: only the layer inputs stay (checkpoints.h); backward replays
// the whole layer into buffers of one layer [Chen16], [Narayanan21 sec 3.5]. By operator: what the
// named ones give is replayed before the layer's backward, from what is kept or was replayed before
// it. A fused attention keeps its log-sum-exp instead of the probabilities [Dao22].
#pragma once

#include <string>
#include <vector>

#include "planner/lower/blocks/value.h"
#include "planner/lower/stage.h"

namespace zplan {

class Activations {
 public:
  // `number` tells the segments of a stage apart.
  Activations(Stage& stage, const Values& values, const Segment& segment, std::size_t number);

  bool replays_layer() const { return segment_.recompute == Recompute::kFull; }
  bool replays_attention() const { return segment_.recompute == Recompute::kSelective; }
  bool replays_operators() const { return !segment_.replayed.empty(); }
  // What belongs to no operator is replayed with the whole layer only.
  bool replays(std::optional<LayerOperator> op) const {
    return replays_layer() || (op && segment_.replayed.has(*op));
  }

  // What forward writes; with recomputation it does not outlive the layer.
  ValueViews forward() { return views("forward.", true); }
  // What backward reads: the same without recomputation, else what the replay writes.
  ValueViews replay() { return views("replay.", false); }
  // Where the replayed layer output goes; nobody reads it.
  View replay_output() const;

 private:
  bool stays(const ValueSpec& spec) const;
  View kept(Value value) const;
  View within_body(const std::string& prefix, const ValueSpec& spec) const;
  ValueViews views(const std::string& prefix, bool forward) const;
  // Calls with each value: first what all backwards read, then what only some do, then the rest.
  void by_life(const std::function<void(Value, const ValueSpec&)>& visit) const;

  Stage& s_;
  const Values& values_;
  const Segment& segment_;
  std::vector<BufferId> kept_;  // by index of the value; nothing of what does not stay
};

}  // namespace zplan
