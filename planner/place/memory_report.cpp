#include "planner/place/memory_report.h"

#include <algorithm>

namespace zplan {
namespace {

constexpr std::size_t kLargestListed = 8;

TierMemory measure_tier(const Program& program, const std::vector<Lifetime>& lives, Tier tier,
                        const LivePeak& peak) {
  TierMemory memory;
  memory.live_peak = peak.bytes;
  if (peak.bytes.value == 0) return memory;
  memory.peak_node = peak.at;
  if (peak.at < program.nodes.size()) memory.peak_op = name(program.nodes[peak.at].role);
  std::vector<BufferId> alive;
  for (BufferId id = 0; id < program.buffers.size(); ++id) {
    const Buffer& buffer = program.buffers[id];
    if (buffer.tier != tier || !lives[id].overlaps({peak.at, peak.at})) continue;
    memory.by_category[static_cast<std::size_t>(buffer.category)] += buffer.size();
    alive.push_back(id);
  }
  std::stable_sort(alive.begin(), alive.end(), [&](BufferId a, BufferId b) {
    return program.buffers[a].size() > program.buffers[b].size();
  });
  alive.resize(std::min(alive.size(), kLargestListed));
  for (const BufferId id : alive) {
    const Buffer& buffer = program.buffers[id];
    memory.largest.push_back({buffer.name, buffer.category, buffer.size()});
  }
  return memory;
}

}  // namespace

MemoryReport measure(const Job& job) { return measure(job, lifetimes(job)); }

MemoryReport measure(const Job& job, const JobLifetimes& lives) {
  MemoryReport report;
  for (std::size_t i = 0; i < job.classes.size(); ++i) {
    const RankClass& rank_class = job.classes[i];
    const Program& program = rank_class.program;
    const auto peaks = live_peaks(program, lives[i]);
    ClassMemory memory;
    memory.stage = rank_class.stage;
    for (std::size_t tier = 0; tier < kTierCount; ++tier) {
      memory.tiers[tier] = measure_tier(program, lives[i], static_cast<Tier>(tier), peaks[tier]);
      if (job.placed) memory.tiers[tier].slab = rank_class.placement.slab[tier];
    }
    report.classes.push_back(std::move(memory));
  }
  return report;
}

}  // namespace zplan
