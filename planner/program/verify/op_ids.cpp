// check_op_ids of structure.h. [derived] Every loop variable is affine in the iterations of
// the loops that bind it, and no loop binds two; so the instances of a node are the product of one
// set of values per variable, and two nodes of one role collide iff each of their sets meet.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "planner/program/job/tree.h"
#include "planner/program/verify/structure.h"

namespace zplan {
namespace {

// The loop variables, and how many values of each op_id keeps.
struct Field {
  Var var;
  std::int64_t values;
};
constexpr std::array<Field, 3> kFields{{
    {Var::kMicro, 1 << 20},
    {Var::kLayer, 1 << 16},
    {Var::kTile, 1 << 8},
}};

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
        next.push_back(of_outer(loop, outer) + loop.first + loop.step * i);
    result.sorted = std::move(next);
  }
  std::sort(result.sorted.begin(), result.sorted.end());
  const auto twice = std::adjacent_find(result.sorted.begin(), result.sorted.end());
  result.repeats = result.repeats || twice != result.sorted.end();
  return result;
}

// A value of the first that one of the second is `ahead` more than.
const std::int64_t* first_common(const std::vector<std::int64_t>& a,
                                 const std::vector<std::int64_t>& b, std::int64_t ahead) {
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    if (*i + ahead == *j) return &*i;
    *i + ahead < *j ? ++i : ++j;
  }
  return nullptr;
}

using BlockValues = std::array<Values, kFields.size()>;  // of each variable

bool is_outside(const Values& values, std::int64_t limit) {
  return values.too_many || values.sorted.front() < 0 || values.sorted.back() >= limit;
}

// Values that op_id keeps, of what it makes of the variable of a loop.
std::int64_t limit_of(const Program& p, const Field& field) {
  return field.var == Var::kLayer ? field.values / p.unit_layers : field.values;
}

// The first id that two nodes of one role share. Members of one iteration differ in the layer; of
// several units they may be of one layer where the units are.
std::optional<OpId> common_id(const Program& p, const Node& x, const Node& y, const BlockValues& a,
                              const BlockValues& b) {
  const std::int64_t layers = x.member - y.member;
  if (layers % p.unit_layers != 0) return std::nullopt;
  Env env;
  for (std::size_t f = 0; f < kFields.size(); ++f) {
    const std::int64_t ahead = kFields[f].var == Var::kLayer ? layers / p.unit_layers : 0;
    const std::int64_t* value = first_common(a[f].sorted, b[f].sorted, ahead);
    if (value == nullptr) return std::nullopt;
    *value_of(env, kFields[f].var) = *value;
  }
  return op_id(p, x, env);
}

}  // namespace

void check_op_ids(const Program& program, ClassFindings& findings) {
  std::vector<BlockValues> values(program.blocks.size());
  for (BlockIndex b = 0; b < program.blocks.size(); ++b)
    for (std::size_t f = 0; f < kFields.size(); ++f)
      values[b][f] = values_of(program, b, kFields[f].var, kFields[f].values);
  std::map<Role, std::vector<NodeIndex>> by_role;
  for (NodeIndex n = 0; n < program.nodes.size(); ++n) {
    const BlockValues& own = values[program.nodes[n].block];
    by_role[program.nodes[n].role].push_back(n);
    bool outside = false, repeats = false;
    for (std::size_t f = 0; f < kFields.size(); ++f) {
      outside = outside || is_outside(own[f], limit_of(program, kFields[f]));
      repeats = repeats || own[f].repeats;
    }
    if (outside) findings.add(node_name(program, n) + ": loop values outside what an id can hold");
    if (repeats) findings.add(node_name(program, n) + ": its loops give two instances the same id");
  }
  for (const auto& [role, nodes] : by_role)
    for (std::size_t i = 0; i < nodes.size(); ++i)
      for (std::size_t j = i + 1; j < nodes.size(); ++j)
        if (const auto id = common_id(program, program.nodes[nodes[i]], program.nodes[nodes[j]],
                                      values[program.nodes[nodes[i]].block],
                                      values[program.nodes[nodes[j]].block]))
          findings.add(
              fmt::format("nodes {} and {} both have the id {}", nodes[i], nodes[j], op_name(*id)));
}

}  // namespace zplan
