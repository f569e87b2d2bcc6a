#include "planner/program/instances/validation.h"

#include <algorithm>

#include "planner/program/instances/carried.h"

namespace zplan {
namespace {

bool is_of_loss(const Role& role) {
  if (role.phase == Phase::kForward || role.phase == Phase::kEnd) return true;
  const bool is_summed = role.part == Part::kLoss || role.part == Part::kCombine;
  return role.phase == Phase::kBegin && role.action == Action::kZero && is_summed;
}

std::vector<bool> written_by(const Program& program, const std::vector<bool>& nodes) {
  std::vector<bool> written(program.buffers.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (!nodes[n] || program.nodes[n].kind == OpKind::kMark) continue;
    for (const View& view : program.operands(program.nodes[n]))
      if (writes(view.access)) written[view.buffer] = true;
  }
  return written;
}

// Those that the nodes read although none of them writes there, and nothing is kept there.
std::vector<bool> missing_of(const Program& program, const std::vector<bool>& nodes) {
  const std::vector<bool> written = written_by(program, nodes);
  std::vector<bool> missing(program.buffers.size());
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    if (!nodes[n] || program.nodes[n].kind == OpKind::kMark) continue;
    for (const View& view : program.operands(program.nodes[n]))
      if (reads(view.access) && !program.buffers[view.buffer].persistent)
        missing[view.buffer] = !written[view.buffer];
  }
  return missing;
}

// An operation beside the forward pass in which other stages take part, which may not know of it.
const Node* foreign_meeting(const Job& job, const Program& program,
                            const std::vector<bool>& nodes) {
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    const Node& node = program.nodes[n];
    const bool crosses = is_transfer(node.kind) || (node.kind == OpKind::kCollective &&
                                                    node.group.axes.has(job.mesh.pipeline()));
    if (nodes[n] && crosses && !is_of_loss(node.role)) return &node;
  }
  return nullptr;
}

}  // namespace

std::vector<bool> loss_nodes(const Program& program) {
  std::vector<bool> nodes;
  for (const Node& node : program.nodes) nodes.push_back(is_of_loss(node.role));
  for (bool grows = true; grows;) {
    grows = false;
    const std::vector<bool> missing = missing_of(program, nodes);
    for (std::size_t n = 0; n < nodes.size(); ++n) {
      const auto views = program.operands(program.nodes[n]);
      const bool brings = std::any_of(views.begin(), views.end(), [&](const View& view) {
        return writes(view.access) && missing[view.buffer];
      });
      if (!brings || nodes[n]) continue;
      nodes[n] = grows = true;
    }
  }
  return nodes;
}

std::optional<std::string> no_validation(const Job& job) {
  for (const RankClass& c : job.classes) {
    const std::vector<bool> nodes = loss_nodes(c.program);
    if (const Node* meeting = foreign_meeting(job, c.program, nodes))
      return name(meeting->role) +
             ", which brings parameters to the loss, is done with other stages";
    const std::vector<bool> written = written_by(c.program, nodes);
    for (const BufferId buffer : carried_buffers(c))
      if (written[buffer])
        return "its steps run into each other: " + c.program.buffers[buffer].name +
               " of one is still needed in the next";
  }
  return std::nullopt;
}

}  // namespace zplan
