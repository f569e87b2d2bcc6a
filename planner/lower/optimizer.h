// The update: global gradient norm, clip factor, each unit's rule (planner/plan/optimizer_kind.h)
// on the rank's piece, then the new parameters go home.
//
// The update must see every gradient first, since the norm (and under loss scaling its finiteness)
// decides the factor. Each rank adds the squares of its part of every unit, in unit order, whatever
// the ZeRO stage; so stages with equal reductions update with bit-equal factors. What several ranks
// hold alike counts once: a tied embedding on the first stage, unsplit parameters on tensor
// parallel rank 0, copies of shards in the first sharding group.
//   ZeRO 0 updates everything on every rank, 1-3 the own shard; 1-2 gather the new parameters.
//   States off the GPU: gradients are brought to the host, the CPU updates, new parameters are sent
//   home, unit by unit (tile by tile) through rings, so that one is copied back while the next is
//   updated [Ren21 sec 4]. States on NVMe stream through the host: one piece is read and one
//   written while a third is updated [Rajbhandari21 sec 5.1.1]. What is outside the layers is read
//   before them and written after them, so that both happen beside forward. A delayed update runs
//   at the begin of the step instead (delayed_update.h).
//   States in two homes (state_homes.h): each layer is updated where its optimizer states live, the
//   near ones first. Where gradients have two, the sum of the norm follows them from the GPU to the
//   host and back, so that the squares add up in the same order.
//
// With Plan::overlap.optimizer there is no norm, and layers are updated in the last micro-batch's
// loop of backward over them: each after the next one's backward has been issued, so that what this
// fetches is ahead of the results of the update on their lanes [Liao24]. What is outside the layers
// comes at the end as ever.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "planner/lower/choice_bias.h"
#include "planner/lower/delayed_update.h"
#include "planner/lower/gradients.h"
#include "planner/lower/optimizer_states.h"
#include "planner/lower/parameters.h"
#include "planner/lower/stage.h"
#include "planner/lower/transfers.h"

namespace zplan {

class Optimizer {
 public:
  Optimizer(Stage& stage, Parameters& parameters, Gradients& gradients);

  void begin_step();  // step scalars to where they are read; a delayed update
  // Scalars of the update that follows a backward, so many micro-batches behind that of the pass.
  void begin_update(std::int32_t micro_batches);
  void emit();
  // Whether layers are updated within backward; and then, in an iteration of such a loop, those
  // that it came to so many iterations ago.
  bool is_beside_backward() const { return s_.plan.overlap.optimizer; }
  void update_layers(const UnitLoop& loop, std::int32_t iterations_ago);
  View scalars() const { return scalars_; }      // on the GPU
  View host_clip() const { return host_clip_; }  // [2] f64, on the last stage
  std::vector<UnitHome> homes() const;

 private:
  using State = OptimizerStates::State;
  // Near: what the update changes of a unit, in the order of its kernel's operands.
  using States = std::vector<std::pair<State, View>>;

  // Whether what is emitted of the unit is updated on the host, and whether anything is.
  bool on_host(UnitIndex unit) const { return states_.tier(unit) != Tier::kGpu; }
  bool uses_host() const { return s_.plan.placement.optimizer != Tier::kGpu; }
  Tier near(UnitIndex unit) const { return on_host(unit) ? Tier::kCpu : Tier::kGpu; }
  Lane lane(UnitIndex unit) const { return on_host(unit) ? Lane::kCpu : Lane::kCompute; }
  bool needs_norm() const { return s_.plan.clip || s_.plan.loss_scaling; }
  View scalar(const char* name, Tier tier, std::int64_t n);
  Ring ring(const char* name, DType dtype) const;
  Ring update_ring(const char* name, DType dtype, UnitIndex unit) const;

  void take_scalars(Phase phase, const Attributes& attributes);
  void norm(Phase phase);
  void named(const std::function<void()>& emit);
  void take_clip(Phase phase, bool host);
  bool sums_on_host(UnitIndex unit) const;
  View gradient_for_norm(UnitIndex unit, bool host, Ordinal ordinal);
  View take_main_gradient(UnitIndex unit, Ordinal ordinal);
  void square(UnitIndex unit, View part, const View& sum, Lane lane);
  std::vector<UnitIndex> units_of(const UnitLoop& loop) const;
  void finish_unit(UnitIndex unit, Ordinal ordinal);
  void update_unit(UnitIndex unit, Ordinal ordinal);
  View gradient_near(UnitIndex unit, Ordinal ordinal);
  // Whether its states may be read ahead of the layers and written after them.
  bool is_apart(UnitIndex unit) const {
    return states_.is_apart(unit) && !delayed_ && !s_.updates_each;
  }
  States bring_states(UnitIndex unit, Ordinal ordinal);
  void send_states(UnitIndex unit, const States& states, Ordinal ordinal);
  Attribute first_of_shard(UnitIndex unit) const;
  Attributes place_of(UnitIndex unit) const;
  View scalars_near(UnitIndex unit) const { return on_host(unit) ? host_scalars_ : scalars_; }
  View clip_near(UnitIndex unit) const { return on_host(unit) ? host_clip_ : clip_; }
  View orthogonal(UnitIndex unit, const View& moment, const View& gradient, Ordinal ordinal);
  void orthogonalise(UnitIndex unit, const View& whole);
  void update_with(UnitIndex unit, const States& states, const View& gradient, const View& target,
                   Ordinal ordinal);
  bool gathers() const;
  void gather(UnitIndex unit);
  void gather_apart();

  Stage& s_;
  Parameters& parameters_;
  Gradients& gradients_;
  Transfers transfers_;
  OptimizerStates states_;
  ChoiceBias choice_bias_;
  std::optional<DelayedUpdate> delayed_;
  std::map<UnitIndex, States> brought_;  // of units apart, until they are written
  View host_scalars_, scalars_;          // [kStepScalarCount] f64
  View sum_, host_sum_;                  // [1] f64
  View clip_, host_clip_;                // [2] f64
  View loss_scale_;                      // [3] f64
};

}  // namespace zplan
