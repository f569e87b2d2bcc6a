#include "planner/program/instances/carried.h"

#include <optional>

namespace zplan {
namespace {

constexpr std::size_t kLossScaleOperand = 2;  // of step_scalars

std::vector<bool> homes(const RankClass& rank_class) {
  std::vector<bool> result(rank_class.program.buffers.size(), false);
  for (const UnitHome& home : rank_class.homes)
    for (const BufferId id : home.buffers()) result[id] = true;
  return result;
}

}  // namespace

std::vector<BufferId> carried_buffers(const RankClass& rank_class) {
  const Program& p = rank_class.program;
  std::vector<std::optional<Access>> first(p.buffers.size());
  std::vector<bool> carried(p.buffers.size(), false);
  for (const Node& node : p.nodes) {
    const auto operands = p.operands(node);
    for (const View& v : operands)
      if (!first[v.buffer]) first[v.buffer] = v.access;
    const bool is_scalars = node.kind == OpKind::kKernel && node.kernel == KernelId::kStepScalars;
    if (is_scalars && operands.size() > kLossScaleOperand)
      carried[operands[kLossScaleOperand].buffer] = true;
  }
  const std::vector<bool> is_home = homes(rank_class);
  std::vector<BufferId> result;
  for (BufferId id = 0; id < p.buffers.size(); ++id) {
    const bool is_read_first = first[id] == Access::kRead && !is_home[id];
    if (p.buffers[id].persistent && (carried[id] || is_read_first)) result.push_back(id);
  }
  return result;
}

}  // namespace zplan
