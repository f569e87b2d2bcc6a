// Faults in how large a rank's shard is and where kernels take it to begin.
#include <algorithm>
#include <limits>

#include "tests/crosscheck/faults/seeded_faults.h"

namespace zplan::seeded {
namespace {

constexpr std::int64_t kBlock = 64;  // elements: shards are multiples of 256 bytes
// Whole buffers smaller than twice this, and shards smaller than half of it, are of norms, which
// are mostly padding.
constexpr std::int64_t kAllReal = 1024;

bool is_cut(const Job& job, std::uint32_t u) {
  for (const RankClass& c : job.classes)
    for (const UnitHome& home : c.homes)
      for (const StateHome* s : home.states())
        if (home.unit == u && s->shards == job.units[u].shards) return true;
  return false;
}

// The shards of a unit by some elements larger, in the Job's table of units alone. What lies in
// them moves: there are several, and the first is full.
Places of_units(std::int64_t more) {
  return [more](const Job& job) {
    Changes result;
    for (std::uint32_t u = 0; u < job.units.size(); ++u) {
      const Unit& unit = job.units[u];
      const std::int32_t shards = job.mesh.size(unit.shards);
      if (shards == 1 || !is_cut(job, u) || unit.elements <= unit.shard_elements - kBlock ||
          (more > 0 && unit.elements <= unit.shard_elements))
        continue;
      result.push_back([=](Job& j) {
        j.units[u].shard_elements += more;
        j.units[u].flat_elements += more * shards;
      });
    }
    return result;
  };
}

// The place of a tensor within its unit, and the rows of its pieces.
Places of_tensors(const std::function<bool(const Tensor&)>& applies,
                  const std::function<void(Tensor&)>& change) {
  return [=](const Job& job) {
    Changes result;
    for (std::size_t u = 0; u < job.units.size(); ++u)
      for (std::size_t t = 0; t < job.units[u].tensors.size(); ++t)
        if (applies(job.units[u].tensors[t]))
          result.push_back([=](Job& j) { change(j.units[u].tensors[t]); });
    return result;
  };
}

using Counts = std::function<bool(const AttributeValues&, std::int64_t element)>;
using AttributeChange = std::function<void(Attributes&, std::int64_t elements)>;

// Whether on some rank of the class other elements before `end` of the flat unit count than before.
bool matters(const Job& job, const RankClass& c, const Attributes& before, const Attributes& after,
             std::int64_t elements, std::int64_t end, const Counts& counts) {
  for (std::int32_t rank = 0; rank < job.world(); ++rank) {
    if (job.stage_of(rank) != c.stage) continue;
    const AttributeValues was = resolve(before, job.mesh.point(rank));
    const AttributeValues is = resolve(after, job.mesh.point(rank));
    for (std::int64_t i = 0; i < elements && was[0] + i < end; ++i)
      if (counts(was, i) != counts(is, i)) return true;
  }
  return false;
}

// Elements of the unit whose states an update works on; 0: it works on a copy of them, or on the
// layer of an owner, which ends in padding of its own.
std::int64_t elements_updated(const Job& job, const RankClass& c, const Node& n) {
  for (const UnitHome& home : c.homes)
    if (home.master.buffer == c.program.operands(n)[0].buffer && c.program.unit_layers == 1)
      return job.units[home.unit].elements;
  return 0;
}
// So many are no padding of any unit that shares the same elements over tensor parallel ranks.
std::int64_t elements_squared(const Job& job, const RankClass& c, const Node& n) {
  const std::int64_t shared_from = c.program.attributes_of(n)[1].base;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const Unit& unit : job.units)
    if (shared_from < 0 || unit.shared_from == shared_from) least = std::min(least, unit.elements);
  return least;
}

bool decays(const AttributeValues& v, std::int64_t i) { return v[0] + i < v[1]; }
bool is_counted(const AttributeValues& v, std::int64_t i) {
  const bool is_shared = v[1] >= 0 && v[0] + i >= v[1];
  return v[3] == 0 && (!is_shared || v[2] == 0);
}

using Elements = std::int64_t (*)(const Job&, const RankClass&, const Node&);

// Attributes of a kernel that works on a shard, where elements that are no padding are then treated
// otherwise.
Places of_attributes(KernelId kernel, Elements real, const Counts& counts,
                     const AttributeChange& change) {
  return [=](const Job& job) {
    Changes result;
    for (std::size_t c = 0; c < job.classes.size(); ++c) {
      const Program& p = job.classes[c].program;
      for (NodeIndex n = 0; n < p.nodes.size(); ++n) {
        const Node& node = p.nodes[n];
        if (node.kind != OpKind::kKernel || node.kernel != kernel) continue;
        const std::int64_t elements = p.operands(node)[0].shape.elements();
        Attributes changed = p.attributes_of(node);
        change(changed, elements);
        if (!matters(job, job.classes[c], p.attributes_of(node), changed, elements,
                     real(job, job.classes[c], node), counts))
          continue;
        result.push_back([=](Job& j) {
          Program& q = j.classes[c].program;
          q.nodes[n].attributes = static_cast<std::uint32_t>(q.attributes.size());
          q.attributes.push_back(changed);
        });
      }
    }
    return result;
  };
}

// An update that leaves out the last block of a shard that is full on the first rank.
Changes shorter_updates(const Job& job) {
  Changes result;
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    const Program& p = job.classes[c].program;
    for (NodeIndex n = 0; n < p.nodes.size(); ++n) {
      const Node& node = p.nodes[n];
      if (node.kind != OpKind::kKernel || node.kernel != KernelId::kAdamW) continue;
      const std::int64_t elements = p.operands(node)[0].shape.elements();
      if (elements_updated(job, job.classes[c], node) < elements || elements <= kBlock) continue;
      result.push_back([=](Job& j) {
        Program& q = j.classes[c].program;
        for (std::uint32_t v = q.nodes[n].operands_begin; v < q.nodes[n].operands_end; ++v)
          if (q.views[v].shape.elements() == elements) q.views[v].shape = {elements - kBlock};
      });
    }
  }
  return result;
}

bool moves_shards(const Job& job, const Program& p, const Node& n) {
  return n.kind == OpKind::kCollective && n.lane != Lane::kCommTensor &&
         (n.collective == CollectiveKind::kAllGather ||
          n.collective == CollectiveKind::kReduceScatter) &&
         job.mesh.size(n.group) > 1 &&
         std::min(p.operands(n)[0].shape.elements(), p.operands(n)[1].shape.elements()) >=
             kAllReal / 2;
}

// The shards of a collective a block shorter: all but the first then lie elsewhere.
void shorten(const Job& job, Program& p, Node& n) {
  const bool gathers = n.collective == CollectiveKind::kAllGather;
  View& in = p.views[n.operands_begin];
  View& out = p.views[n.operands_begin + 1];
  View &shard = gathers ? in : out, &whole = gathers ? out : in;
  shard.shape = {shard.shape.elements() - kBlock};
  whole.shape = {whole.shape.elements() - kBlock * job.mesh.size(n.group)};
}

bool zeroes(const Job&, const Program&, const Node& n, const View& v) {
  return n.kind == OpKind::kKernel && n.kernel == KernelId::kFillZero &&
         v.shape.elements() >= kAllReal;
}

}  // namespace

std::vector<Kind> size_kinds() {
  const auto kind = [](std::string_view name, int seeds, const Places& places) {
    return Kind{Class::kSize, name, seeds, Form::kFolded, places};
  };
  const auto updates = [](const AttributeChange& change) {
    return of_attributes(KernelId::kAdamW, elements_updated, decays, change);
  };
  const auto squares = [](const AttributeChange& change) {
    return of_attributes(KernelId::kSumSquares, elements_squared, is_counted, change);
  };
  return {
      kind("unit with shards a block smaller", 3, of_units(-kBlock)),
      kind("unit with shards a block larger", 2, of_units(kBlock)),
      kind("tensor a block further in its unit", 2,
           of_tensors([](const Tensor&) { return true; }, [](Tensor& t) { t.offset += kBlock; })),
      kind("piece of the vocabulary a row smaller", 1,
           of_tensors([](const Tensor& t) { return t.piece_rows > 0; },
                      [](Tensor& t) { --t.piece_rows; })),
      kind("update that begins a shard further", 3,
           updates([](Attributes& a, std::int64_t n) { a[0].base += n; })),
      kind("update that begins alike on all ranks", 2,
           updates([](Attributes& a, std::int64_t) { a[0].steps = {}; })),
      kind("decay that ends a shard earlier", 2,
           updates([](Attributes& a, std::int64_t n) { a[1].base -= n; })),
      kind("squares that begin a shard further", 2,
           squares([](Attributes& a, std::int64_t n) { a[0].base += n; })),
      kind("squares of what all tensor ranks share", 2,
           squares([](Attributes& a, std::int64_t) { a[2].steps = {}; })),
      kind("squares of all copies", 2,
           squares([](Attributes& a, std::int64_t) { a[3].steps = {}; })),
      kind("update a block shorter", 2, shorter_updates),
      kind("collective of shards a block shorter", 2, at_roles(moves_shards, shorten)),
      kind("half of a shard zeroed", 2,
           at_operands(zeroes, [](const Job&, View& v) { mutation::halve(v); })),
  };
}

}  // namespace zplan::seeded
