// What every part of the lowering of one pipeline stage shares: the decisions, the shapes, the
// program being built.
#pragma once

#include "models/model_config.h"
#include "planner/lower/body_buffers.h"
#include "planner/lower/layout.h"
#include "planner/lower/program_builder.h"
#include "planner/plan/plan.h"
#include "planner/program/kernel_set.h"

namespace zplan {

struct Stage {
  const Plan& plan;
  const ModelConfig& model;
  const Layout& layout;
  const KernelSet& kernels;
  ProgramBuilder& out;
  BodyBuffers& body;

  std::int32_t index = 0;
  std::int32_t first_layer = 0;
  std::int32_t layers = 0;
  std::int32_t micro_steps = 1;
  std::int32_t in_flight = 1;  // micro-batches between forward and backward [Narayanan21 sec 2.2]
  View workspace;              // scratch of the compute lane

  bool is_first() const { return index == 0; }
  bool is_last() const { return index == plan.parallel.pp - 1; }
  std::int32_t last_layer() const { return first_layer + layers - 1; }
  std::int32_t dp() const { return plan.parallel.dp; }
  DType compute() const { return kernels.compute; }

  std::int64_t b() const { return plan.batch.micro_batch; }
  std::int64_t s() const { return plan.batch.sequence; }
  std::int64_t tokens() const { return b() * s(); }
  std::int64_t h() const { return model.hidden; }
  std::int64_t ffn() const { return model.ffn; }

  // Slots of every ring of gather units: the one in use and those ahead of it or behind.
  std::int32_t ring_slots() const { return plan.prefetch + 1; }

  // Loops over the stage's layers, forward or backward, binding Var::kLayer.
  Repeat layers_up() const { return {layers, Var::kLayer, first_layer, 1}; }
  Repeat layers_down() const { return {layers, Var::kLayer, last_layer(), -1}; }
  // Slot of a per-layer state inside such a loop.
  SlotExpr layer_slot() const { return {-first_layer, 0, 1}; }

  bool holds(UnitIndex unit) const;
};

// A dense view of a whole slot.
inline View view_of(BufferId buffer, DType dtype, Shape shape, SlotExpr slot = {}) {
  View v;
  v.buffer = buffer;
  v.dtype = dtype;
  v.shape = shape;
  v.slot = slot;
  return v;
}

}  // namespace zplan
