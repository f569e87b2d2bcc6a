// Jobs without operations whose units are split in every way there is, for tests of what depends on
// where model states lie: two layers of a tiled operator with rows, columns and a shared vector,
// and an embedding with padded rows.
#pragma once

#include <vector>

#include "exec/memory/slab.h"
#include "exec/memory/tensor_part.h"
#include "planner/program/job/job.h"
#include "tests/support/meshes.h"

namespace zplan::exec::testing {

struct SplitOptions {
  std::int32_t dp = 1;
  std::int32_t tp = 1;
  std::int32_t shards = 1;  // states are sharded when more than 1
  std::int32_t tiles = 1;
  DType param = DType::kF64;
  DType state = DType::kF64;
  Tier tier = Tier::kCpu;
};

inline Unit split_unit(const SplitOptions& options, std::string name, bool per_layer,
                       std::int32_t tiles, std::vector<Tensor> tensors) {
  Unit unit;
  unit.name = std::move(name);
  unit.per_layer = per_layer;
  unit.tiles = tiles;
  for (Tensor& tensor : tensors) {
    tensor.offset = unit.elements;
    unit.elements += TensorPart(tensor, 0, options.tp * tiles).elements();
    if (tensor.split.kind == Split::Kind::kNone) {
      if (unit.shared_elements == 0) unit.shared_from = tensor.offset;
      unit.shared_elements += tensor.shape.elements();
    }
  }
  unit.tensors = std::move(tensors);
  unit.shards = testing_support::groups::kShard.axes;
  unit.shard_elements = round_up(ceil_div(unit.elements, options.shards), 8);
  unit.flat_elements = unit.shard_elements * options.shards;
  return unit;
}

inline Job split_job(const SplitOptions& options) {
  using enum Split::Kind;
  Job job;
  job.kernel_set = "cpu.f64";
  job.mesh =
      testing_support::mesh_of({.dp = options.dp, .tp = options.tp, .shards = options.shards});
  const std::int64_t vocab = 10, padded = 12;
  job.units = {
      split_unit(options, "embedding", false, 1,
                 {{.name = "wte",
                   .shape = {vocab, 4},
                   .init = Init::kNormal,
                   .init_std = 1,
                   .split = {kRows, {}},
                   .piece_rows = padded / options.tp}}),
      split_unit(options, "layer.op", true, options.tiles,
                 {{.name = "h.{}.qkv",
                   .shape = {6, 24},
                   .init = Init::kNormal,
                   .init_std = 1,
                   .split = {kColumns, {8, 8, 8}}},
                  {.name = "h.{}.proj",
                   .shape = {8, 6},
                   .init = Init::kNormal,
                   .init_std = 1,
                   .split = {kRows, {}}}}),
      split_unit(options, "layer.shared", true, 1,
                 {{.name = "h.{}.gain", .shape = {6}, .init = Init::kOne},
                  {.name = "h.{}.bias", .shape = {6}, .init = Init::kNormal, .init_std = 1}})};
  RankClass c;
  c.layers = {{0, 2}};
  c.program.blocks.push_back({});
  Bytes offset{0};
  for (std::uint32_t u = 0; u < job.units.size(); ++u) {
    const Unit& unit = job.units[u];
    const std::int64_t elements = options.shards > 1 ? unit.shard_elements : unit.flat_elements;
    const auto home = [&](DType dtype) {
      const auto id = static_cast<BufferId>(c.program.buffers.size());
      c.program.buffers.push_back({.name = unit.name,
                                   .slot_size = round_up(size_of(dtype) * elements, kIoAlignment),
                                   .slots = (unit.per_layer ? c.layer_count() : 1) * unit.tiles,
                                   .tier = options.tier,
                                   .dtype = dtype,
                                   .persistent = true});
      c.placement.offset.push_back(offset);
      offset += c.program.buffers.back().size();
      return StateHome{id, options.shards > 1 ? unit.shards : AxisSet{}};
    };
    c.homes.push_back(
        {u, home(options.param), home(options.state), {home(options.state), home(options.state)}});
  }
  c.placement.slab[static_cast<std::size_t>(options.tier)] = offset;
  job.classes = {c};
  job.placed = true;
  return job;
}

}  // namespace zplan::exec::testing
