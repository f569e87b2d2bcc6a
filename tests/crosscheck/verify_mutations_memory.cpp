// Faults in views, buffers and placement.
#include <algorithm>
#include <set>

#include "planner/place/lifetime.h"
#include "tests/crosscheck/verify_mutations.h"

namespace zplan::mutation {
namespace {

const std::vector<std::string> kHazard{"without waiting for", "before it is written",
                                       "which shares its bytes"};

bool used(const Program& p, BufferId id) {
  return std::any_of(p.views.begin(), p.views.end(), [&](const View& v) { return v.buffer == id; });
}

std::set<BufferId> homes(const RankClass& c) {
  std::set<BufferId> result;
  for (const UnitHome& h : c.homes)
    for (const BufferId id : h.buffers()) result.insert(id);
  return result;
}

// Pairs of buffers alive at the same time in one tier.
Changes share_offsets(const Job& job) {
  Changes result;
  for (std::size_t c = 0; c < job.classes.size(); ++c) {
    const Program& p = job.classes[c].program;
    const auto lives = lifetimes(p, job.mesh);
    for (BufferId a = 0; a < p.buffers.size(); ++a)
      for (BufferId b = 0; b < a; ++b)
        if (!p.buffers[a].persistent && !p.buffers[b].persistent && lives[a].overlaps(lives[b]) &&
            p.buffers[a].tier == p.buffers[b].tier)
          result.push_back([=](Job& j) {
            auto& offset = j.classes[c].placement.offset;
            (j.classes[c].program.buffers[a].size() > j.classes[c].program.buffers[b].size()
                 ? offset[b]
                 : offset[a]) = p.buffers[a].size() > p.buffers[b].size() ? offset[a] : offset[b];
          });
  }
  return result;
}

// Views whose stride along an axis leads the last rank out of the slot.
std::function<Changes(const Job&)> stretched(std::string_view axis) {
  return [axis](const Job& job) {
    Changes result;
    for (std::size_t a = 0; a < job.mesh.axes.size(); ++a) {
      if (!job.mesh.named(axis).has(a) || job.mesh.axes[a].size == 1) continue;
      for (std::size_t c = 0; c < job.classes.size(); ++c)
        for (std::size_t v = 0; v < job.classes[c].program.views.size(); ++v)
          result.push_back([=](Job& j) {
            Program& p = j.classes[c].program;
            p.views[v].strides[a] += p.buffers[p.views[v].buffer].slot_size.value;
          });
    }
    return result;
  };
}

}  // namespace

std::vector<Mutation> memory_mutations() {
  const auto any_view = [](const Program&, const View&) { return true; };
  const auto any_buffer = [](const RankClass&, BufferId) { return true; };
  const auto is_home = [](const RankClass& c, BufferId b) { return homes(c).count(b) > 0; };
  const auto placed_alone = [](const RankClass& c, BufferId b) {
    return !c.program.buffers[b].persistent && used(c.program, b);
  };
  return {
      {kind("view beyond its slot"),
       {"reaches from"},
       at_views(any_view, [](Program& p, View& v) { v.offset += p.buffers[v.buffer].slot_size; })},
      {kind("shard of the last rank beyond its slot"), {"reaches from"}, stretched(kDataAxis)},
      {kind("part of the last tensor rank beyond its slot"),
       {"reaches from"},
       stretched(kTensorAxis)},
      {kind("view off its alignment"),
       {"not aligned"},
       at_views(any_view, [](Program&, View& v) { v.offset += Bytes{1}; })},
      {kind("view of another type"),
       {"the buffer holds"},
       at_views(any_view, [](Program&, View& v) { v.dtype = DType::kF16; })},
      {kind("wrong slot expression"), kHazard,
       at_views([](const Program& p, const View& v) { return p.buffers[v.buffer].slots > 1; },
                [](Program&, View& v) { ++v.slot.base; })},
      {kind("slot that forgets the layer"), kHazard,
       at_views([](const Program&, const View& v) { return v.slot.per_layer != 0; },
                [](Program&, View& v) { v.slot.per_layer = 0; })},
      {kind("ring with one slot less"), kHazard,
       at_buffers(
           [](const RankClass& c, BufferId b) {
             return c.program.buffers[b].slots > 1 && !c.program.buffers[b].persistent;
           },
           [](RankClass& c, BufferId b) { --c.program.buffers[b].slots; })},
      {kind("two live buffers at one offset"),
       {"which shares its bytes", "on the same bytes"},
       share_offsets},
      {kind("on the bytes of a persistent buffer"),
       {"bytes of the persistent buffer"},
       at_buffers(
           [=](const RankClass& c, BufferId b) {
             return placed_alone(c, b) && c.program.buffers[b].tier == Tier::kGpu;
           },
           [](RankClass& c, BufferId b) { c.placement.offset[b] = {0}; })},
      {kind("offset beyond the slab"),
       {"reaches to"},
       at_buffers(any_buffer,
                  [](RankClass& c, BufferId b) {
                    const auto tier = static_cast<std::size_t>(c.program.buffers[b].tier);
                    c.placement.offset[b] = c.placement.slab[tier];
                  })},
      {kind("offset off its alignment"),
       {"not a multiple of "},
       at_buffers(any_buffer,
                  [](RankClass& c, BufferId b) { c.placement.offset[b] += Bytes{128}; })},
      {kind("host offset off the blocks of a drive"),
       {"not a multiple of 4096"},
       at_buffers(
           [](const RankClass& c, BufferId b) { return c.program.buffers[b].tier != Tier::kGpu; },
           [](RankClass& c, BufferId b) { c.placement.offset[b] += kBufferAlignment; })},
      {kind("model state not persistent"),
       {"which is not persistent"},
       at_buffers(is_home,
                  [](RankClass& c, BufferId b) { c.program.buffers[b].persistent = false; })},
      {kind("model state with a slot more"),
       {"slots for"},
       at_buffers(is_home, [](RankClass& c, BufferId b) { ++c.program.buffers[b].slots; })},
      {kind("two buffers of one name"),
       {"two buffers are named"},
       at_buffers([](const RankClass&, BufferId b) { return b > 0; },
                  [](RankClass& c, BufferId b) {
                    c.program.buffers[b].name = c.program.buffers[0].name;
                  })},
  };
}

}  // namespace zplan::mutation
