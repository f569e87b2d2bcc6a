// check_op_ids of verify_structure.h. [derived] Both loop variables are affine in the iterations of
// the loops that bind them, and no loop binds both; so the instances of a node are the product of
// two sets of values, and two nodes of one role collide iff both their sets meet.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "planner/program/verify_structure.h"

namespace zplan {
namespace {

// Bits that op_id keeps of each variable.
constexpr std::int64_t kLayerValues = 1 << 16;
constexpr std::int64_t kMicroValues = 1 << 24;

struct Values {
  std::vector<std::int64_t> sorted;
  bool repeats = false;   // some value comes twice
  bool too_many = false;  // more than fit an id; `sorted` is then incomplete
};

Values values_of(const Program& p, BlockIndex block, Var var, std::int64_t limit) {
  std::vector<BlockIndex> path;
  for (BlockIndex b = block; b != 0; b = p.blocks[b].parent) path.push_back(b);
  Values result{{0}};
  for (auto b = path.rbegin(); b != path.rend(); ++b) {
    const Block& loop = p.blocks[*b];
    if (loop.var == Var::kNone && loop.count > 1) result.repeats = true;
    if (loop.var != var) continue;
    if (static_cast<std::int64_t>(result.sorted.size()) * loop.count > limit) {
      result.too_many = true;
      return result;
    }
    std::vector<std::int64_t> next;
    for (const std::int64_t outer : result.sorted)
      for (std::int64_t i = 0; i < loop.count; ++i)
        next.push_back((loop.relative ? outer : 0) + loop.first + loop.step * i);
    result.sorted = std::move(next);
  }
  std::sort(result.sorted.begin(), result.sorted.end());
  const auto twice = std::adjacent_find(result.sorted.begin(), result.sorted.end());
  result.repeats = result.repeats || twice != result.sorted.end();
  return result;
}

const std::int64_t* first_common(const std::vector<std::int64_t>& a,
                                 const std::vector<std::int64_t>& b) {
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    if (*i == *j) return &*i;
    *i < *j ? ++i : ++j;
  }
  return nullptr;
}

struct BlockValues {
  Values micro, layer;
};

}  // namespace

void check_op_ids(const Program& program, ClassFindings& findings) {
  std::vector<BlockValues> values(program.blocks.size());
  for (BlockIndex b = 0; b < program.blocks.size(); ++b)
    values[b] = {values_of(program, b, Var::kMicro, kMicroValues),
                 values_of(program, b, Var::kLayer, kLayerValues)};
  std::map<Role, std::vector<NodeIndex>> by_role;
  for (NodeIndex n = 0; n < program.nodes.size(); ++n) {
    const auto& [micro, layer] = values[program.nodes[n].block];
    by_role[program.nodes[n].role].push_back(n);
    const bool outside = micro.too_many || layer.too_many || micro.sorted.front() < 0 ||
                         layer.sorted.front() < 0 || micro.sorted.back() >= kMicroValues ||
                         layer.sorted.back() >= kLayerValues;
    if (outside) findings.add(node_name(program, n) + ": loop values outside what an id can hold");
    if (micro.repeats || layer.repeats)
      findings.add(node_name(program, n) + ": its loops give two instances the same id");
  }
  for (const auto& [role, nodes] : by_role) {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      for (std::size_t j = i + 1; j < nodes.size(); ++j) {
        const BlockValues& a = values[program.nodes[nodes[i]].block];
        const BlockValues& b = values[program.nodes[nodes[j]].block];
        const std::int64_t* micro = first_common(a.micro.sorted, b.micro.sorted);
        const std::int64_t* layer = first_common(a.layer.sorted, b.layer.sorted);
        if (micro != nullptr && layer != nullptr)
          findings.add(fmt::format("nodes {} and {} both have the id {}", nodes[i], nodes[j],
                                   op_name(op_id(role, Env{*micro, *layer}))));
      }
    }
  }
}

}  // namespace zplan
