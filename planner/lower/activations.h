// What the forward of a layer leaves for its backward.
//
// Recompute none: every activation of every layer and micro-batch in flight stays on the GPU.
// Selective: all but the probabilities of attention, which backward computes again from queries and
// keys [Korthikanti22 sec 5]. Full: only the layer inputs stay (checkpoints.h); backward replays
// the whole layer into buffers of one layer [Chen16], [Narayanan21 sec 3.5]. By operator: what the
// named ones give is replayed before the layer's backward, from what is kept or was replayed before
// it. A fused attention keeps its log-sum-exp instead of the probabilities [Dao22].
#pragma once

#include <map>
#include <string>

#include "planner/lower/stage.h"

namespace zplan {

// The activations of one layer; T is a rank's part where sequence parallelism splits it (norms and
// residuals). Each view picks its slot by the loop variables, of those below `tiled` by the tile.
struct LayerActivations {
  View norm1, mean1, rstd1;  // [T, h], [T], [T]; an RMSNorm has no mean
  View middle;               // [T, h] input of the MLP half
  View mask1, mask2;         // [T, h] of dropout of what each half adds
  View norm2, mean2, rstd2;
  View projection, fc2;  // [T, h] of all ranks' tokens, dead after the residual sum
  // tiled
  View qkv;             // [T, c], rotated where the model rotates
  View attention, lse;  // [T, a d], [b, a, s]
  View probs;           // [b, a, s, s] of an attention that is not fused
  View probs_mask;      // of their dropout
  View dropped;         // the probabilities after it; without dropout probs
  View fc1;             // [T, u] before GELU or SwiGLU
  View gelu;            // [T, f] after it
};

class Activations {
 public:
  // `number` tells the segments of a stage apart.
  Activations(Stage& stage, const Segment& segment, std::size_t number);

  bool replays_layer() const { return segment_.recompute == Recompute::kFull; }
  bool replays_attention() const { return segment_.recompute == Recompute::kSelective; }
  bool replays(LayerOperator op) const { return replays_layer() || segment_.replayed.has(op); }
  bool replays_operators() const { return !segment_.replayed.empty(); }

  // What forward writes; with recomputation it does not outlive the layer.
  LayerActivations forward();
  // What backward reads: the same without recomputation, else what the replay writes.
  LayerActivations replay();
  // Where the replayed layer output goes; nobody reads it.
  View replay_output() const;

 private:
  using Make = std::function<View(const char* name, Shape shape, DType dtype, bool tiled)>;
  using MakeOf = std::function<const Make&(LayerOperator op)>;
  // `rest` makes what is of no operator that can be named.
  void results(LayerActivations& a, const MakeOf& of, const Make& rest) const;
  void probabilities(LayerActivations& a, const Make& make) const;
  Make within_body(std::string prefix) const;
  Make by_layer();
  void keep();
  LayerActivations with_replayed(const std::string& prefix);

  Stage& s_;
  const Segment& segment_;
  std::string prefix_;                    // of what is kept
  std::map<std::string, BufferId> kept_;  // by name; none with full recomputation
};

}  // namespace zplan
