// The roofline of every kind of operation that a stage's compute lane runs in a step: the flop and
// compulsory bytes of its kernels (kernel_table.h) against the device [Williams09].
//   products  flop / peak of the format, of matrix products and attention
//   memory    bytes / bandwidth of the device's memory
//   launch    host time of its launches
// The greatest of these limits it. The time beside them is that of the cost model.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "planner/core/units.h"
#include "planner/cost/cost_model.h"
#include "planner/program/kernels/kernel_table.h"

namespace zplan {

enum class RoofLimit : std::uint8_t { kProducts, kMemory, kLaunch };
std::string_view name(RoofLimit limit);  // "memory"

// All passes of one part of the model together, products apart from the rest. Per step, one rank.
struct OpRoofline {
  Part part{};
  WorkKind kind = WorkKind::kMemory;
  double runs = 0;
  double flops = 0, bytes = 0;
  Seconds at_peak{}, at_memory{}, at_launch{};
  Seconds time{};

  double intensity() const { return bytes > 0 ? flops / bytes : 0; }  // flop per byte
  RoofLimit limit() const;
  Seconds least() const;  // of the limit
};

// The longest first.
std::vector<OpRoofline> op_rooflines(const CostModel& model, int stage);

}  // namespace zplan
