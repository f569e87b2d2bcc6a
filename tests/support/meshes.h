// Meshes of Jobs that tests build by hand: tensor parallel ranks, replicas that share a copy of
// what is sharded, its copies, stages; and the groups of such a mesh.
#pragma once

#include <array>
#include <string_view>

#include "planner/program/job/mesh.h"

namespace zplan::testing_support {

// Places of its axes.
inline constexpr std::size_t kTp = 0, kShard = 1, kCopy = 2, kPp = 3;

struct MeshSizes {
  std::int32_t dp = 1, tp = 1, pp = 1;
  std::int32_t shards = 0;  // 0: dp
  bool pipeline_first = false;
};

inline Mesh mesh_of(const MeshSizes& sizes) {
  const std::int32_t shards = sizes.shards == 0 ? sizes.dp : sizes.shards;
  const std::array axes{NamedSize{kTensorAxis, sizes.tp}, NamedSize{"dp.0", shards},
                        NamedSize{"dp.1", sizes.dp / shards}, NamedSize{kPipelineAxis, sizes.pp}};
  using Order = std::array<std::string_view, 4>;
  const Order data_first{kTensorAxis, "dp.0", "dp.1", kPipelineAxis};
  const Order pipeline_first{kTensorAxis, kPipelineAxis, "dp.0", "dp.1"};
  return make_mesh(axes, sizes.pipeline_first ? pipeline_first : data_first);
}

constexpr AxisSet axes_of(std::initializer_list<std::size_t> axes) {
  AxisSet set;
  for (const std::size_t axis : axes) set.add(axis);
  return set;
}

namespace groups {
inline constexpr Group kTensor{axes_of({kTp})};
inline constexpr Group kShard{axes_of({testing_support::kShard})};
inline constexpr Group kReplica{axes_of({kCopy})};
inline constexpr Group kData{axes_of({testing_support::kShard, kCopy})};
inline constexpr Group kEmbedding{axes_of({kPp}), true};
inline constexpr Group kWorld{axes_of({kTp, testing_support::kShard, kCopy, kPp})};
}  // namespace groups

// A view moves so along one axis.
constexpr AxisSteps step_along(std::size_t axis, std::int64_t step) {
  AxisSteps steps{};
  steps[axis] = step;
  return steps;
}

constexpr Peer stage_at(std::int32_t step) { return {kPp, static_cast<std::int8_t>(step), false}; }

}  // namespace zplan::testing_support
