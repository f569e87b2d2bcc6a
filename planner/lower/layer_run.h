// Forward and backward of consecutive layers that are of one kind and recomputed alike: the blocks
// say what is computed, here the units that it takes are fetched, kept at hand and closed.
#pragma once

#include "planner/lower/activations.h"
#include "planner/lower/blocks/layer_kind.h"
#include "planner/lower/checkpoints.h"
#include "planner/lower/gradients.h"
#include "planner/lower/parameters.h"
#include "planner/lower/stage.h"

namespace zplan {

class LayerRun : public LayerPass {
 public:
  // `number` tells the segments of a stage apart.
  LayerRun(Stage& stage, const LayerKind& kind, const Segment& segment, std::size_t number,
           Parameters& parameters, Gradients& gradients, Checkpoints& checkpoints);

  void forward();  // inside Segment::up
  // Inside Segment::down; dx [T, h] holds the gradient of the output, then of the input.
  void backward(const View& dx, bool last_micro);

  View parameter(Param param) override;
  View gradient(Param param) override;
  void done(Param param) override;
  bool emits(std::optional<LayerOperator> op) const override;
  bool emits_all() const override { return emits(std::nullopt); }
  bool replays_selectively() const override { return activations_.replays_attention(); }
  bool are_together(Param a, Param b) const override;
  void each_tile(const std::vector<Use>& uses, const std::function<void()>& emit) override;

 private:
  // The how-many-th of the uses of a ring within the layer comes next.
  struct Uses {
    std::int32_t per_layer = 1;
    std::int32_t next = 0;
    std::int32_t per_tile = 0;  // inside a loop over the tiles
  };

  void start(std::int32_t fetches_per_member, bool upwards);
  Ordinal take(Uses& uses) const;
  Ordinal once_per_layer() const;
  UnitIndex unit_of(const Use& use) const { return s_.layout.unit_of(use.param); }
  std::int32_t fetches(const std::vector<Use>& uses) const;
  std::int32_t fetches_per_pass() const;
  std::int32_t fetches_per_backward() const;
  void finish();

  const LayerKind& kind_;
  const Segment& segment_;
  std::vector<Use> uses_;  // of one layer, in forward order
  Parameters& parameters_;
  Gradients& gradients_;
  Checkpoints& checkpoints_;
  Activations activations_;
  // State of the loop body being emitted. The unit beside the tiles stays for the whole layer.
  std::optional<Parameters::Resident> resident_, shared_resident_;
  std::optional<Gradients::Open> open_, shared_open_;
  Uses fetches_, opened_;
  bool upwards_ = true;
  bool last_micro_ = false;
};

}  // namespace zplan
