#include "planner/search/pass_times.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

#include "planner/cost/chain.h"
#include "planner/cost/core_time.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/kernel_time.h"
#include "planner/cost/step_totals.h"
#include "planner/program/job/model_end.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/program/kernels/kernel_table.h"

namespace zplan {
namespace {

using NodeTimes = std::vector<std::optional<Seconds>>;

// Whether the block is, or is in, a loop over layers that come before the model's `first`, which
// are of another kind.
bool is_before(const Program& program, BlockIndex block, std::int64_t first) {
  for (BlockIndex b = block; b != 0; b = program.blocks[b].parent) {
    const Block& loop = program.blocks[b];
    if (loop.var == Var::kLayer)
      return std::min(loop.first, loop.first + (loop.count - 1) * loop.step) < first;
  }
  return false;
}

// Returns whether it is, or is in, a loop over what has numbers behind the model's `layers`:
// modules that predict further tokens, which stand with the head, or a vision tower, with the
// embedding.
bool is_behind(const Program& program, BlockIndex block, std::int64_t layers) {
  for (BlockIndex b = block; b != 0; b = program.blocks[b].parent)
    if (program.blocks[b].var == Var::kLayer)
      return std::int64_t{program.blocks[b].first} * program.unit_layers >= layers;
  return false;
}

PassTimes& part_of(KernelTimes& times, Part part) {
  switch (model_end_of(part)) {
    case ModelEnd::kEmbedding:
      return times.embedding;
    case ModelEnd::kHead:
      return times.head;
    case ModelEnd::kNone:
      break;
  }
  return times.layer;
}

void add(PassTimes& sum, Phase phase, Seconds time) {
  if (phase == Phase::kForward) sum.forward += time;
  if (phase == Phase::kRecompute) sum.recompute += time;
  if (phase == Phase::kBackward) sum.backward += time;
}

// By the rates of a device or, of measured cores, by the table of its times.
Seconds alone_time(const Program& program, const Node& node, const Demand& demand,
                   const KernelSet* kernels, bool unaligned_head, const Cluster& cluster) {
  const Seconds rates = device_time(program, node, demand, kernels, unaligned_head, cluster).time;
  if (cluster.node.cores == nullptr) return rates;
  // More ranks than a node has devices follow the rates (cost_model.h).
  return std::min(rates, kernel_on_cores(node.kernel, demand, cluster, rates).work);
}

// Of the kernels that all plans with the same operands run.
NodeTimes kernel_times(const Job& job, const Cluster& cluster) {
  const Program& program = job.classes.front().program;
  const KernelSet& kernels = find_kernel_set(job.kernel_set);
  const bool unaligned_head = has_unaligned_head(program);
  NodeTimes times;
  for (const Node& node : program.nodes) {
    std::optional<Seconds>& own = times.emplace_back();
    if (!is_common(node)) continue;
    const Demand demand = demand_of(program, node);
    own = to_seconds(
        to_sim_time(alone_time(program, node, demand, &kernels, unaligned_head, cluster)));
  }
  return times;
}

// What the kernels of a loop's body wait.
Seconds within(const Program& program, const NodeTimes& times, BlockIndex block) {
  const Chain chain(program, times);
  return chain.body(block) - chain.kernels(block);
}

NodeTimes of_phase(const Program& program, NodeTimes times, Phase phase) {
  for (std::size_t i = 0; i < times.size(); ++i)
    if (program.nodes[i].role.phase != phase) times[i].reset();
  return times;
}

bool is_layer_loop(const Program& program, BlockIndex block) {
  if (program.blocks[block].var != Var::kLayer) return false;
  for (BlockIndex b = program.blocks[block].parent; b != 0; b = program.blocks[b].parent)
    if (program.blocks[b].var == Var::kLayer) return false;
  return true;
}

bool has_phase(const Program& program, BlockIndex block, Phase phase) {
  return std::ranges::any_of(program.nodes, [&](const Node& node) {
    return node.block == block && node.role.phase == phase && is_common(node);
  });
}

// Whether an iteration of the loop is one layer, not several that take turns.
bool is_of_one_layer(const Block& loop) { return std::abs(loop.step) == 1; }

// Adds what the layers of one loop wait, each of `share` of the layers of the model.
void add_waits(const Program& program, const NodeTimes& all, BlockIndex block, double share,
               KernelTimes& times) {
  const Seconds waits = within(program, all, block) * share;
  const Seconds between = is_of_one_layer(program.blocks[block])
                              ? Chain(program, all).between(block) * share
                              : Seconds{};
  if (!has_phase(program, block, Phase::kBackward)) {
    times.layer.forward += waits;
    times.between.forward += between;
    return;
  }
  // Recomputation in the middle of backward may fill what the rest of it waits.
  const NodeTimes backward = of_phase(program, all, Phase::kBackward);
  const Seconds of_backward = std::min(waits, within(program, backward, block) * share);
  times.layer.backward += of_backward;
  if (!has_phase(program, block, Phase::kRecompute)) {
    times.between.backward += between;
    return;
  }
  times.layer.recompute += waits - of_backward;
  times.between.recompute += between;
}

// Whether products of the layer give or take what meets: sums of gradients over ranks that share a
// parameter come where units end, which is another decision.
bool is_between_products(const Node& node) {
  return node.lane == Lane::kCommTensor && node.role.action != Action::kSumShared;
}

void add_collectives(const Job& job, const Cluster& cluster, SharedWires* wires, NodeTimes& times) {
  const Program& program = job.classes.front().program;
  const CostModel costs(job, cluster, wires);
  for (std::size_t i = 0; i < times.size(); ++i)
    if (is_between_products(program.nodes[i])) times[i] = to_seconds(costs.costs(0)[i].alone);
}

}  // namespace

bool is_common(const Node& node) {
  return node.kind == OpKind::kKernel && node.lane == Lane::kCompute &&
         node.kernel != KernelId::kFillZero && node.kernel != KernelId::kAccumulate;
}

KernelTimes pass_times(const Job& job, std::int64_t layers, std::int64_t first, Behind behind,
                       bool waits, const Cluster& cluster, SharedWires* wires) {
  const Program& program = job.classes.front().program;
  const std::vector<std::int64_t> instances = instances_per_step(program);
  NodeTimes alone = kernel_times(job, cluster);
  KernelTimes times;
  const auto measured = static_cast<double>(layers - first);
  const auto per_micro = [&](std::int64_t runs, double of) {
    return static_cast<double>(runs) / static_cast<double>(job.micro_steps) / of;
  };
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    if (!alone[i] || is_before(program, node.block, first)) continue;
    const bool is_further = is_behind(program, node.block, layers);
    const bool of_tower = is_further && behind == Behind::kTower;
    // A decision of its own says whether these layers are replayed.
    if (of_tower && node.role.phase == Phase::kRecompute) continue;
    PassTimes& own = of_tower     ? times.embedding
                     : is_further ? times.head
                                  : part_of(times, node.role.part);
    add(own, node.role.phase,
        *alone[i] * per_micro(instances[i], &own == &times.layer ? measured : 1));
  }
  if (!waits) return times;
  add_collectives(job, cluster, wires, alone);
  const std::vector<std::int64_t> runs = runs_per_step(program);
  for (BlockIndex b = 1; b < program.blocks.size(); ++b)
    if (is_layer_loop(program, b) && !is_before(program, b, first) &&
        !is_behind(program, b, layers))
      add_waits(program, alone, b, per_micro(runs[b], measured), times);
  return times;
}

}  // namespace zplan
