// Sizes that all parts of the lowering share: of a micro-batch, and what one rank and one tile have
// of it.
#pragma once

#include "planner/plan/plan.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {

struct Sizes {
  const Plan& plan;
  const KernelSet& kernels;
  std::int64_t hidden;
  std::int64_t model_layers;
  std::int64_t sequence;         // tokens of each sequence that are worked on together
  std::int64_t turn_layers = 1;  // after so many layers those that differ come again
  // Layers are of several kinds, whose values at work are each of one layer.
  bool has_pattern = false;
  std::int64_t mtp_layers = 0;  // behind those of the model, of modules that predict further tokens
  // Equal parts of a sequence, of which attention sees one.
  std::int64_t attention_parts = 1;

  std::int32_t replicas() const { return plan.replicas(); }
  std::int32_t tp() const { return plan.parallel.tp; }
  std::int32_t tiles() const { return plan.gather.tiles(); }
  // A matrix of a layer is cut into so many.
  std::int64_t pieces() const { return std::int64_t{tp()} * tiles(); }
  bool sequence_parallel() const { return plan.parallel.sequence_parallel; }
  DType compute() const { return kernels.compute; }

  std::int64_t b() const { return plan.batch.micro_batch; }
  std::int64_t s() const { return sequence; }
  std::int64_t tokens() const { return b() * s(); }
  // The same tokens as stretches of consecutive ones (stretches.h).
  std::int64_t stretches() const { return b() * plan.stretches(); }
  std::int64_t stretch() const { return s() / plan.stretches(); }
  // Of norms and residuals: with sequence parallelism each rank has a part [Korthikanti22 sec 4.2].
  std::int64_t local_tokens() const { return sequence_parallel() ? tokens() / tp() : tokens(); }
  // That a rank routes to experts, and the pieces that each of these is cut into.
  std::int64_t routed_tokens() const {
    return plan.parallel.routes_own_tokens() ? local_tokens() : tokens();
  }
  std::int64_t expert_pieces() const { return plan.parallel.folds_experts() ? tiles() : pieces(); }
  std::int64_t h() const { return hidden; }
};

}  // namespace zplan
