#include "planner/place/place.h"

#include <algorithm>

#include "planner/core/error.h"
#include "planner/place/lifetime.h"
#include "planner/place/pack.h"
#include "planner/program/instances/edges.h"
#include "planner/program/verify/progress.h"

namespace zplan {
namespace {

// The largest multiple of the tier's alignment within live peak x (1 + slack).
Bytes budget_of(Bytes live_peak, double slack, Tier tier) {
  const Bytes unit = alignment(tier);
  const double limit = static_cast<double>(live_peak.value) * (1.0 + slack);
  const auto units = static_cast<std::int64_t>(limit / static_cast<double>(unit.value));
  return std::max(live_peak, unit * units);
}

// Stacks the persistent buffers of a tier from offset 0; the bytes they take.
Bytes stack_persistent(const Program& program, Tier tier, std::vector<Bytes>& offset) {
  Bytes top{0};
  for (BufferId id = 0; id < program.buffers.size(); ++id) {
    const Buffer& buffer = program.buffers[id];
    if (buffer.tier != tier || !buffer.persistent) continue;
    offset[id] = top;
    top += buffer.size();
  }
  return top;
}

void place_tier(const Program& program, const std::vector<Lifetime>& lives, Tier tier, double slack,
                Placement& placement) {
  const auto index = static_cast<std::size_t>(tier);
  const Bytes base = stack_persistent(program, tier, placement.offset);
  std::vector<BufferId> ids;
  std::vector<Tenant> tenants;
  for (BufferId id = 0; id < program.buffers.size(); ++id) {
    const Buffer& buffer = program.buffers[id];
    if (buffer.tier != tier || buffer.persistent || !lives[id].used()) continue;
    ids.push_back(id);
    tenants.push_back({buffer.size(), lives[id]});
  }
  const Bytes budget = budget_of(placement.live_peak[index], slack, tier) - base;
  const Packing packing = pack(tenants, static_cast<NodeIndex>(program.nodes.size()), budget);
  for (std::size_t i = 0; i < ids.size(); ++i) placement.offset[ids[i]] = base + packing.offset[i];
  placement.slab[index] = base + packing.slab;
}

// Pairs of buffers with common addresses, the one that lives first in front.
std::vector<SharedBytes> shared_bytes(const Program& program, const std::vector<Lifetime>& lives,
                                      const Placement& placement) {
  std::vector<BufferId> ids;
  for (BufferId id = 0; id < program.buffers.size(); ++id)
    if (lives[id].used() && !program.buffers[id].persistent) ids.push_back(id);
  std::stable_sort(ids.begin(), ids.end(), [&](BufferId a, BufferId b) {
    return placement.offset[a] < placement.offset[b];
  });
  std::vector<SharedBytes> pairs;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const BufferId a = ids[i];
    const Bytes end = placement.offset[a] + program.buffers[a].size();
    for (std::size_t j = i + 1; j < ids.size() && placement.offset[ids[j]] < end; ++j) {
      const BufferId b = ids[j];
      if (program.buffers[a].tier != program.buffers[b].tier) continue;
      ZPLAN_ASSERT(!lives[a].overlaps(lives[b]));
      pairs.push_back(lives[a].first < lives[b].first ? SharedBytes{a, b} : SharedBytes{b, a});
    }
  }
  return pairs;
}

void place_class(RankClass& rank_class, const std::vector<Lifetime>& lives, double slack) {
  const Program& program = rank_class.program;
  Placement& placement = rank_class.placement;
  const auto peaks = live_peaks(program, lives);
  placement = {};
  placement.offset.assign(program.buffers.size(), Bytes{0});
  for (std::size_t tier = 0; tier < kTierCount; ++tier) {
    placement.live_peak[tier] = peaks[tier].bytes;
    place_tier(program, lives, static_cast<Tier>(tier), slack, placement);
  }
}

using SharedOfClasses = std::vector<std::vector<SharedBytes>>;

SharedOfClasses shared_of(const Job& job, const JobLifetimes& lives) {
  SharedOfClasses shared;
  for (std::size_t i = 0; i < job.classes.size(); ++i)
    shared.push_back(shared_bytes(job.classes[i].program, lives[i], job.classes[i].placement));
  return shared;
}

void order_users(Job& job, const SharedOfClasses& shared) {
  for (std::size_t i = 0; i < job.classes.size(); ++i)
    add_reuse_edges(job.classes[i].program, shared[i]);
}

// Of each buffer: whether it is sent to another stage or received from one.
std::vector<bool> is_transferred(const Program& program) {
  std::vector<bool> result(program.buffers.size());
  for (const Node& node : program.nodes)
    if (is_transfer(node.kind))
      for (const View& view : program.operands(node)) result[view.buffer] = true;
  return result;
}

// Only then can what reuse adds to the waits of a stage depend on another one.
bool shares_bytes_of_transfers(const Job& job, const SharedOfClasses& shared) {
  for (std::size_t i = 0; i < job.classes.size(); ++i) {
    const std::vector<bool> transferred = is_transferred(job.classes[i].program);
    for (const SharedBytes& pair : shared[i])
      if (transferred[pair.first] && transferred[pair.second]) return true;
  }
  return false;
}

// A receive that waits for bytes until a send is through waits for the stage that is sent to. Where
// two stages do so for each other, what is transferred has bytes of its own for the whole step.
void keep_transfers_apart(const Job& job, JobLifetimes& lives) {
  for (std::size_t i = 0; i < job.classes.size(); ++i) {
    const Program& program = job.classes[i].program;
    const std::vector<bool> transferred = is_transferred(program);
    for (BufferId id = 0; id < program.buffers.size(); ++id)
      if (transferred[id] && lives[i][id].used())
        lives[i][id] = {0, static_cast<NodeIndex>(program.nodes.size() - 1)};
  }
}

}  // namespace

void assign_offsets(Job& job, const JobLifetimes& lives, double slack) {
  for (std::size_t i = 0; i < job.classes.size(); ++i) place_class(job.classes[i], lives[i], slack);
  job.placed = true;
}

void place(Job& job, const PlaceOptions& options) {
  ZPLAN_ASSERT(!job.placed);
  JobLifetimes lives = lifetimes(job);
  assign_offsets(job, lives, options.slack);
  const SharedOfClasses shared = shared_of(job, lives);
  if (!shares_bytes_of_transfers(job, shared)) return order_users(job, shared);
  Job ordered = job;
  order_users(ordered, shared);
  std::vector<std::string> circles;
  check_progress(ordered, circles);
  if (circles.empty()) {
    job = std::move(ordered);
    return;
  }
  keep_transfers_apart(job, lives);
  assign_offsets(job, lives, options.slack);
  order_users(job, shared_of(job, lives));
}

}  // namespace zplan
