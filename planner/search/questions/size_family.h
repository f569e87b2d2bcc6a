// Families of plans as the papers on ZeRO compare them: what each fixes, to ask how large a model
// it trains [Rajbhandari21 Fig.1, Fig.6a], [Ren21 Fig.7].
//
// All recompute every layer, with one sequence per replica and micro-step: what needs least memory.
// What a family does not name is free: gather units, tiles, prefetch, cut checkpoints. Families
// without tensor parallelism have one rank per replica.
#pragma once

#include <string_view>

#include "planner/plan/pins.h"

namespace zplan {

struct SizeFamily {
  std::string_view key;    // "zero-offload"
  std::string_view words;  // "ZeRO-Offload (states on CPU)"
  std::int32_t zero_stage = 0;
  Tier params = Tier::kGpu, grads = Tier::kGpu, optimizer = Tier::kGpu, activations = Tier::kGpu;
  bool tensor = false, pipeline = false;
};
inline constexpr SizeFamily kSizeFamilies[] = {
    {.key = "data-parallel", .words = "Data parallel"},
    {.key = "zero-1", .words = "ZeRO-1 on GPUs", .zero_stage = 1},
    {.key = "zero-2", .words = "ZeRO-2 on GPUs", .zero_stage = 2},
    {.key = "zero-offload",
     .words = "ZeRO-Offload",
     .zero_stage = 2,
     .grads = Tier::kCpu,
     .optimizer = Tier::kCpu},
    {.key = "zero-offload-tp",
     .words = "ZeRO-Offload, tensor parallel",
     .zero_stage = 2,
     .grads = Tier::kCpu,
     .optimizer = Tier::kCpu,
     .tensor = true},
    {.key = "3d", .words = "3D: tensor and pipeline", .tensor = true, .pipeline = true},
    {.key = "zero-3", .words = "ZeRO-3 on GPUs", .zero_stage = 3},
    {.key = "infinity-cpu",
     .words = "ZeRO-Infinity, CPU",
     .zero_stage = 3,
     .params = Tier::kCpu,
     .grads = Tier::kCpu,
     .optimizer = Tier::kCpu,
     .activations = Tier::kCpu},
    {.key = "infinity-nvme",
     .words = "ZeRO-Infinity, NVMe",
     .zero_stage = 3,
     .params = Tier::kNvme,
     .grads = Tier::kNvme,
     .optimizer = Tier::kNvme,
     .activations = Tier::kCpu},
    {.key = "infinity-nvme-tp",
     .words = "ZeRO-Infinity, NVMe, tensor par.",
     .zero_stage = 3,
     .params = Tier::kNvme,
     .grads = Tier::kNvme,
     .optimizer = Tier::kNvme,
     .activations = Tier::kCpu,
     .tensor = true}};

// Throws Error naming the nearest key.
const SizeFamily& find_size_family(std::string_view key);

// `given`: what the user pinned of batch and recipe.
Pins pins_of(const SizeFamily& family, const Pins& given);

}  // namespace zplan
