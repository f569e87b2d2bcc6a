#include <map>
#include <set>
#include <utility>

#include "planner/program/job/tree.h"
#include "tests/crosscheck/faults/seeded_faults.h"

namespace zplan::seeded {

Places at_operands(const OperandTest& applies, const OperandChange& change) {
  return [=](const Job& job) {
    Changes result;
    for (std::size_t c = 0; c < job.classes.size(); ++c) {
      const Program& p = job.classes[c].program;
      for (const Node& node : p.nodes)
        for (std::uint32_t v = node.operands_begin; v < node.operands_end; ++v)
          if (applies(job, p, node, p.views[v]))
            result.push_back([=](Job& j) { change(j, j.classes[c].program.views[v]); });
    }
    return result;
  };
}

Places at_roles(const NodeTest& applies, const NodeChange& change) {
  return [=](const Job& job) {
    std::set<Role> roles;
    for (const RankClass& c : job.classes)
      for (const Node& node : c.program.nodes)
        if (applies(job, c.program, node)) roles.insert(node.role);
    Changes result;
    for (const Role role : roles)
      result.push_back([=](Job& j) {
        for (RankClass& c : j.classes)
          for (Node& node : c.program.nodes)
            if (node.role == role && applies(j, c.program, node)) change(j, c.program, node);
      });
    return result;
  };
}

Places at_groups(const NodeTest& applies, const Others& others) {
  return [=](const Job& job) {
    std::set<std::pair<Role, Group>> found;
    for (const RankClass& c : job.classes)
      for (const Node& node : c.program.nodes)
        if (node.kind == OpKind::kCollective && applies(job, c.program, node))
          found.emplace(node.role, node.group);
    Changes result;
    for (const auto& [role, group] : found)
      for (const Group& other : others(job.mesh, group))
        result.push_back([role = role, group = group, other](Job& j) {
          for (RankClass& c : j.classes)
            for (Node& node : c.program.nodes)
              if (node.role == role && node.group == group && node.kind == OpKind::kCollective)
                node.group = other;
        });
    return result;
  };
}

View& own_operand(Program& p, NodeIndex n, std::uint32_t i) {
  Node& node = p.nodes[n];
  const std::vector<View> own(p.operands(node).begin(), p.operands(node).end());
  node.operands_begin = static_cast<std::uint32_t>(p.views.size());
  p.views.insert(p.views.end(), own.begin(), own.end());
  node.operands_end = static_cast<std::uint32_t>(p.views.size());
  return p.views[node.operands_begin + i];
}

Env env_at(const Program& p, const Node& node) {
  Env env;
  for (std::int32_t depth = 0; depth <= p.blocks[node.block].depth; ++depth)
    env = bind(p.blocks[ancestor(p, node.block, depth)], env, 0);
  return env;
}

std::vector<NodeIndex> nodes_within(const Program& p, BlockIndex block) {
  std::vector<NodeIndex> nodes;
  for (const Block::Item& item : p.blocks[block].items) {
    if (!item.is_block) {
      nodes.push_back(item.index);
      continue;
    }
    const std::vector<NodeIndex> inner = nodes_within(p, item.index);
    nodes.insert(nodes.end(), inner.begin(), inner.end());
  }
  return nodes;
}

}  // namespace zplan::seeded
