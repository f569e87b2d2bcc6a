// Faults in who takes part; the same on all ranks, so that both sides of each meeting agree.
#include "planner/program/job/collectives.h"
#include "planner/program/job/meetings.h"
#include "tests/crosscheck/faults/seeded_faults.h"

namespace zplan::seeded {
namespace {

AxisSet only(std::size_t axis) {
  AxisSet set;
  set.add(axis);
  return set;
}

// An axis of one place changes no group.
std::vector<Group> one_more(const Mesh& mesh, const Group& group) {
  std::vector<Group> result;
  for (std::size_t a = 0; a < mesh.axes.size(); ++a)
    if (!group.axes.has(a) && mesh.axes[a].size > 1) result.push_back({group.axes | only(a)});
  return result;
}
std::vector<Group> one_less(const Mesh& mesh, const Group& group) {
  std::vector<Group> result;
  for (std::size_t a = 0; a < mesh.axes.size(); ++a)
    if (group.axes.has(a) && mesh.axes[a].size > 1 && group.axes != only(a))
      result.push_back({group.axes - only(a)});
  return result;
}
// One of the same size, so that all operands keep their shapes.
std::vector<Group> another(const Mesh& mesh, const Group& group) {
  std::vector<Group> result;
  for (std::size_t a = 0; a < mesh.axes.size(); ++a)
    for (std::size_t b = 0; b < mesh.axes.size(); ++b)
      if (group.axes.has(a) && !group.axes.has(b) && mesh.axes[a].size > 1 &&
          mesh.axes[a].size == mesh.axes[b].size)
        result.push_back({(group.axes - only(a)) | only(b)});
  return result;
}
// Where there are others between the ends.
std::vector<Group> not_only_ends(const Mesh& mesh, const Group& group) {
  if (!group.ends || mesh.size(group) == mesh.size(group.axes)) return {};
  return {{group.axes}};
}

bool sums(const Job&, const Program&, const Node& n) {
  return n.collective == CollectiveKind::kAllReduce;
}
bool any(const Job&, const Program&, const Node&) { return true; }

void next_member(const Job& job, Program&, Node& n) {
  n.member = static_cast<std::uint16_t>((n.member + 1) % job.mesh.size(n.group));
}

// The states of a unit cut over other axes, wherever they are cut; the parameters among them, which
// do not start from zero everywhere.
Changes other_shards(const Job& job) {
  Changes result;
  for (std::uint32_t u = 0; u < job.units.size(); ++u) {
    bool cuts_parameters = false;
    for (const RankClass& c : job.classes)
      for (const UnitHome& home : c.homes)
        cuts_parameters |= home.unit == u && home.param.shards == job.units[u].shards;
    if (!cuts_parameters) continue;
    for (const Group& other : another(job.mesh, {job.units[u].shards}))
      result.push_back([=](Job& j) {
        const AxisSet before = j.units[u].shards;
        j.units[u].shards = other.axes;
        for (RankClass& c : j.classes)
          for (UnitHome& home : c.homes)
            if (home.unit == u) {
              for (StateHome* s : {&home.param, &home.master})
                if (s->shards == before) s->shards = other.axes;
              for (StateHome& s : home.moments)
                if (s.shards == before) s.shards = other.axes;
            }
      });
  }
  return result;
}

}  // namespace

std::vector<Kind> group_kinds() {
  const auto kind = [](std::string_view name, int seeds, const Places& places) {
    return Kind{Class::kGroup, name, seeds, Form::kFolded, places};
  };
  return {
      kind("sum over an axis more", 4, at_groups(sums, one_more)),
      kind("sum over an axis less", 4, at_groups(sums, one_less)),
      kind("collective over another axis", 5, at_groups(any, another)),
      kind("all of an axis instead of its ends", 1, at_groups(any, not_only_ends)),
      kind("done by another owner", 1,
           at_roles(
               [](const Job& job, const Program&, const Node& n) {
                 return n.kind != OpKind::kCollective && job.mesh.size(n.group) > 1;
               },
               next_member)),
      kind("another root", 2,
           at_roles(
               [](const Job&, const Program&, const Node& n) {
                 return n.kind == OpKind::kCollective && has_root(n.collective);
               },
               next_member)),
      kind("states cut over another axis", 2, other_shards),
      kind("a peer one further", 2,
           at_roles([](const Job& job, const Program&,
                       const Node& n) { return is_transfer(n.kind) && job.stages() > 2; },
                    [](const Job&, Program&, Node& n) {
                      n.peer.step =
                          static_cast<std::int8_t>(n.peer.step + (n.peer.step > 0 ? 1 : -1));
                    })),
  };
}

}  // namespace zplan::seeded
