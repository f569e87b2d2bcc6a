// Forward and backward of consecutive layers that are recomputed alike: the blocks say what is
// computed, here the units that it takes are fetched, kept at hand and closed.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "planner/lower/activations.h"
#include "planner/lower/blocks/layer_kind.h"
#include "planner/lower/checkpoints.h"
#include "planner/lower/gradients.h"
#include "planner/lower/optimizer.h"
#include "planner/lower/parameters.h"
#include "planner/lower/stage.h"

namespace zplan {

// Emits an iteration of a loop over layers, or of a part of it.
using EmitLayers = std::function<void(const UnitLoop&)>;

// A loop over layers, or a part of it.
struct LayerLoop {
  UnitLoop loop;
  bool upwards = true;
  bool is_cut = false;  // its buffers are apart from those of the loop before it
  EmitLayers body;

  Repeat repeat() const { return upwards ? loop.up() : loop.down(); }
  // Takes the loop that comes first over so many of its iterations away from it.
  LayerLoop take(std::int32_t count);
};
using LayerLoops = std::vector<LayerLoop>;

class LayerRun : public LayerPass {
 public:
  // `number` tells the segments of a chunk apart.
  LayerRun(Stage& stage, std::span<const LayerKind> kinds, const Chunk& chunk, std::size_t number,
           Parameters& parameters, Gradients& gradients, Checkpoints& checkpoints,
           Optimizer& optimizer);

  void forward();
  LayerLoops forward_loops();
  // dx [T, h] holds the gradient of the output before and that of the input
  // after; a backward of the weights alone does not use it.
  void backward(Backward what, const View& dx, bool last_micro);
  // Returns the loops that backward() emits.
  LayerLoops backward_loops(Backward what, const View& dx, bool last_micro);

  View parameter(Param param) override;
  std::vector<View> scales(Param param) override;
  View gradient(Param param) override;
  void done(Param param) override;
  void hold(Param param) override { held_ = param; }
  void end_hold() override;
  bool emits(OperatorSet of) const override;
  bool replays_selectively() const override { return segment_.replay.attention; }
  std::int64_t layer() const override;
  bool are_together(Param a, Param b) const override;
  View handed(Part part, const char* name, const Shape& shape, bool tiled) override;
  void take_gradient(Part part, Param param, bool is_bias) override;
  void each_tile(const std::vector<Use>& uses, const std::function<void()>& emit) override;

 private:
  // Counts the uses of a ring within an iteration; `next` is the one that comes next.
  struct RingUses {
    std::int32_t per_unit = 1;
    std::int32_t next = 0;
    std::int32_t per_tile = 0;  // inside a loop over the tiles
  };
  // A unit beside the others, which stays for the whole layer: what is at hand of it.
  struct Staying {
    std::optional<Parameters::Resident> resident;
    std::optional<Gradients::Open> open;
    RingUses fetches, opened;
  };
  // A use by one of the layers of an iteration.
  struct MemberUse {
    std::int32_t member;
    Use use;
  };
  using Sequence = std::vector<MemberUse>;

  const LayerKind& kind(std::int32_t member) const { return kinds_[index_of(member)]; }
  std::size_t index_of(std::int32_t member) const {
    return static_cast<std::size_t>(member) % kinds_.size();
  }
  // Those of the kind of the layer that is being emitted.
  Activations& activations() { return activations_[index_of(s_.out.member())]; }
  View handed_gradient(Param param);
  // Returns the loops over the segment's layers, in the order in which they are emitted.
  LayerLoops loops(const ModelStates& states, bool upwards, const EmitLayers& body) const;
  void emit(const LayerLoops& loops);
  void start(const UnitLoop& loop, std::int32_t fetches, bool upwards);
  void each_layer(std::int32_t together, const std::function<void()>& emit);
  Ordinal take(RingUses& ring) const;
  UnitIndex unit_of(Param param) const { return s_.layout.unit_of(param, s_.unit_member()); }
  bool come_together(const MemberUse& a, const MemberUse& b) const;
  std::int32_t fetches(const Sequence& sequence) const;
  Sequence uses(std::int32_t member) const;
  std::int32_t fetches_by_tile() const;
  std::int32_t fetches_of_forward() const;
  std::int32_t fetches_of_backward(Backward what) const;
  bool is_first_of_unit(Param param) const;
  Staying& staying(UnitIndex unit) {
    const auto at = std::ranges::find(kSharedParts, s_.layout.part[unit]);
    return staying_[static_cast<std::size_t>(at - kSharedParts.begin())];
  }
  std::int32_t fetches_of_staying(Part part, std::int32_t together) const;
  void replay(const View& input, const View& output);
  // Returns whether the host updates the layers of an iteration beside the backward of the next.
  bool is_updated_beside(Backward what, bool last_micro) const;
  void replay_and_backward(Backward what, const View& dx);
  void backward_and_update(const LayerLoop& backward);
  void close_staying();

  std::span<const LayerKind> kinds_;  // which take turns
  const Segment& segment_;
  Parameters& parameters_;
  Gradients& gradients_;
  Checkpoints& checkpoints_;
  Optimizer& optimizer_;
  std::vector<Activations> activations_;  // of each kind
  UnitLoop loop_{};
  // State of the loop body being emitted.
  std::optional<Parameters::Resident> resident_;
  std::optional<Gradients::Open> open_;
  std::optional<Param> held_;  // whose unit stays open until the end of a branch
  RingUses fetches_, opened_;
  std::array<Staying, kSharedParts.size()> staying_;
  bool upwards_ = true;
  bool last_micro_ = false;
};

}  // namespace zplan
