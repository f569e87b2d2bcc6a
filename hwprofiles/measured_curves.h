// Collectives measured on this kind of node: the optional member "collectives" of a zplan.hw/1
// file, one entry per collective and group.
//
//   "collectives": [
//     {"op": "all_reduce", "ranks": 16, "nodes": 2,
//      "times": {"value": [["1 MiB", "203.2 us"], ["8 GiB", "47.5 ms"]],
//                "source": "measured", "ref": "all_reduce_perf of nccl-tests .."}}]
//
// Sizes ascend and are those of the whole buffer: what all ranks together gather or scatter; of an
// all-to-all what one rank sends. An entry takes the place of the curve that the tables of the
// device (hwprofiles/kernels) have for the same group; other groups keep theirs.
#pragma once

#include <memory>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/core/json_reader.h"

namespace zplan {

// The collectives of `profile` with the entries of `node` in their place. Throws Error where its
// ranks are no GPUs, or the groups do not fit its nodes.
std::shared_ptr<const CollectiveProfile> with_measured_curves(const HwProfile& profile,
                                                              const JsonNode& node,
                                                              std::vector<ValueSource>& sources);

}  // namespace zplan
