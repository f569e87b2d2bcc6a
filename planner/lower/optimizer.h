// The update: global gradient norm, clip factor, AdamW on the rank's piece [Loshchilov19], then the
// new parameters go home.
//
// The update must see every gradient first, since the norm (and under loss scaling its finiteness)
// decides the factor. Each rank adds the squares of its dp-th part of every unit, in unit order,
// whatever the ZeRO stage; so stages with equal reductions update with bit-equal factors. A tied
// embedding counts once, on the first stage.
//   ZeRO 0 updates everything on every rank, 1-3 the own shard; 1-2 gather the new parameters.
//   Optimizer on the CPU: gradients are downloaded (if they live on the GPU), the CPU updates, new
//   parameters are uploaded, unit by unit through rings [Ren21 sec 4].
#pragma once

#include "planner/lower/gradients.h"
#include "planner/lower/parameters.h"
#include "planner/lower/stage.h"

namespace zplan {

class Optimizer {
 public:
  Optimizer(Stage& stage, Parameters& parameters, Gradients& gradients);

  void begin_step();  // step scalars to where they are read
  void emit();
  View host_clip() const { return host_clip_; }  // [2] f64, on the last stage
  std::vector<UnitHome> homes() const;

 private:
  bool on_host() const { return s_.plan.placement.optimizer == Tier::kCpu; }
  // A recipe without a separate master needs one as soon as the optimizer lives elsewhere.
  bool separate_master() const {
    return s_.plan.precision.separate_master ||
           s_.plan.placement.optimizer != s_.plan.placement.params;
  }
  bool needs_norm() const { return s_.plan.clip || s_.plan.loss_scaling; }
  void for_each_unit(const std::function<void(UnitIndex, Ordinal)>& body);
  void norm();
  void update_unit(UnitIndex unit, Ordinal ordinal);
  View state(UnitIndex unit, BufferId buffer, DType dtype) const;
  View ring(std::optional<BufferId>& id, const char* name, DType dtype, std::int64_t elements,
            Ordinal ordinal);
  View scalar(const char* name, Tier tier, std::int64_t n);

  Stage& s_;
  Parameters& parameters_;
  Gradients& gradients_;
  std::vector<BufferId> master_, moment1_, moment2_;
  std::optional<BufferId> gradient_ring_, parameter_ring_;
  View host_scalars_, scalars_;  // [8] f64
  View sum_, host_sum_;          // [1] f64
  View clip_, host_clip_;        // [2] f64
};

}  // namespace zplan
