// What forward leaves for backward, and where.
//
// Recompute none: every activation of every layer and micro-batch in flight stays on the GPU.
// Recompute full: only the layer inputs (checkpoints) stay, on GPU or CPU; backward replays the
// whole layer from its checkpoint into buffers of one layer [Chen16], [Narayanan21 sec 3.5].
// Attention keeps its log-sum-exp instead of the scores [Dao22].
#pragma once

#include <optional>
#include <string>

#include "planner/lower/stage.h"

namespace zplan {

// The activations of one layer. Each view picks its slot by the loop variables.
struct LayerActivations {
  View norm1, mean1, rstd1;  // [T, h], [T], [T]
  View qkv;                  // [T, 3h]
  View attention, lse;       // [T, h], [b, a, s]
  View projection;           // [T, h], dead after the residual sum
  View middle;               // [T, h] input of the MLP half
  View norm2, mean2, rstd2;
  View fc1;   // [T, f] before GELU
  View gelu;  // [T, f]
  View fc2;   // [T, h], dead after the residual sum
};

class Activations {
 public:
  explicit Activations(Stage& stage);

  bool recomputes() const { return s_.plan.recompute == Recompute::kFull; }
  bool offloads() const { return s_.plan.placement.activations == Tier::kCpu; }

  // Input and output [T, h] of the layer of the surrounding loop; of a given layer outside one.
  View input() const { return boundary(0); }
  View output() const { return boundary(1); }
  View input_of(std::int32_t layer) const;

  // What forward writes; with recomputation it does not outlive the layer.
  LayerActivations forward() const;
  // What backward reads: the same without recomputation, else what the replay writes.
  LayerActivations replay() const;
  // Where the replayed layer output goes; nobody reads it.
  View replay_output() const;

  // Sends the layer's input to the host; in forward's layer loop.
  void save_checkpoint();
  // The layer's input for backward; in backward's layer loop. Uploads it where it was sent away.
  View load_checkpoint();

 private:
  View boundary(std::int32_t shift) const;
  View host_checkpoint() const;
  View add(const std::string& name, Shape shape, DType dtype) const;
  LayerActivations results(const std::string& prefix) const;
  LayerActivations within_body(const std::string& prefix) const;
  void keep_all();

  Stage& s_;
  BufferId boundary_ = 0;
  std::optional<BufferId> host_;
  std::optional<LayerActivations> kept_;  // without recomputation; results only
};

}  // namespace zplan
