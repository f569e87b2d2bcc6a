#include "planner/search/memory_use.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "hwprofiles/memory_quantity.h"
#include "planner/search/stack_memory_use.h"

namespace zplan {
namespace {

constexpr std::size_t kLargestListed = 5;
// [assumed] share of a node's memory that its processes can page-lock together: the system and the
// page cache need the rest. No run has measured it.
constexpr double kPinnable = 0.9;

Bytes of_node(const std::vector<TierBytes>& per_rank, const NodeFill& fill, Tier tier) {
  Bytes sum{0};
  for (const auto& [stage, ranks] : fill) {
    const Bytes one = per_rank[static_cast<std::size_t>(stage)][index(tier)];
    if (one > (kMostBytes - sum) / ranks) return kMostBytes;
    sum += one * ranks;
  }
  return sum;
}

// Slabs; live peaks before placement.
std::vector<TierBytes> bytes_of(const Job& job, const JobLifetimes& lives) {
  std::vector<TierBytes> bytes;
  for (std::size_t i = 0; i < job.classes.size(); ++i) {
    TierBytes& own = bytes.emplace_back(job.classes[i].placement.slab);
    if (job.placed) continue;
    const auto peaks = live_peaks(job.classes[i].program, lives[i]);
    for (std::size_t t = 0; t < kTierCount; ++t) own[t] = peaks[t].bytes;
  }
  return bytes;
}

// Ranks of each stage whose memory counts together in a tier: one of the worst class, or a node.
NodeFill counted(const std::vector<TierBytes>& bytes, const std::vector<NodeFill>& fills,
                 Tier tier) {
  if (tier != Tier::kGpu) return fills[worst_fill(bytes, fills, tier)];
  return {{static_cast<std::int32_t>(worst_class(bytes)), 1}};
}

std::vector<NodeFill> fills_of(const Job& job, const Cluster& cluster) {
  return node_fills(job.mesh, cluster);
}

// Names the peak: the operation of the class with most bytes in it, and what is largest.
void describe_peak(const MemoryReport& report, const NodeFill& fill, Infeasible& why) {
  std::map<std::string, LiveBuffer> buffers;
  Bytes most{0};
  for (const auto& [stage, ranks] : fill) {
    const ClassMemory& own = report.classes[static_cast<std::size_t>(stage)];
    const TierMemory& memory = own.tiers[index(why.tier)];
    const Bytes share = memory.live_peak * ranks;
    if (share > most) {
      most = share;
      why.peak_op = memory.peak_op;
    }
    for (const LiveBuffer& buffer : memory.largest) {
      LiveBuffer& sum =
          buffers.try_emplace(buffer.name, LiveBuffer{buffer.name, buffer.category, Bytes{0}})
              .first->second;
      sum.size += buffer.size * ranks;
    }
  }
  for (auto& [key, buffer] : buffers) why.largest.push_back(std::move(buffer));
  std::stable_sort(why.largest.begin(), why.largest.end(),
                   [](const LiveBuffer& a, const LiveBuffer& b) { return a.size > b.size; });
  why.largest.resize(std::min(why.largest.size(), kLargestListed));
}

// What was asked to be left free, and no less than the reserve may be larger than stated.
Bytes gpu_headroom(const Cluster& cluster) {
  const DeviceProfile& device = cluster.node.device;
  const double asked = cluster.headroom * static_cast<double>(device.memory.value);
  return std::max(Bytes{std::llround(asked)}, reserve_margin(device));
}

// What software takes of a host beside what lives there, as a share of what a plan may have.
Bytes host_buffers(const Cluster& cluster) {
  const double each = cluster.memory.at(MemoryQuantity::kHostBuffers, 0);
  const auto usable = static_cast<double>(cluster.node.host.usable().value);
  return each > 1 ? Bytes{std::llround(usable * (1 - 1 / each))} : Bytes{0};
}

// Our own software page-locks what lives in the memory of a host with GPUs, others as they say.
Bytes host_headroom(const Cluster& cluster) {
  const HostProfile& host = cluster.node.host;
  const bool pins = cluster.memory.given ? cluster.memory.says(MemoryQuantity::kPinnedHost)
                                         : !cluster.node.device.kernel_set.starts_with("cpu.");
  const Bytes pinnable{std::llround(kPinnable * static_cast<double>(host.memory.value))};
  const Bytes locked = pins ? host.usable() - pinnable : Bytes{0};
  return std::max({Bytes{0}, locked, host_buffers(cluster)});
}

}  // namespace

double Infeasible::overload() const {
  if (available.value <= 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(needed.value) / static_cast<double>(available.value);
}

std::size_t worst_class(const std::vector<TierBytes>& per_rank) {
  const auto less = [](const TierBytes& a, const TierBytes& b) { return a[0] < b[0]; };
  static_assert(static_cast<int>(Tier::kGpu) == 0);
  return static_cast<std::size_t>(std::max_element(per_rank.begin(), per_rank.end(), less) -
                                  per_rank.begin());
}

std::size_t worst_fill(const std::vector<TierBytes>& per_rank, const std::vector<NodeFill>& fills,
                       Tier tier) {
  const auto less = [&](const NodeFill& a, const NodeFill& b) {
    return of_node(per_rank, a, tier) < of_node(per_rank, b, tier);
  };
  return static_cast<std::size_t>(std::max_element(fills.begin(), fills.end(), less) -
                                  fills.begin());
}

MemoryUse memory_use(const std::vector<TierBytes>& per_rank, const std::vector<NodeFill>& fills,
                     const Cluster& cluster) {
  const HwProfile& node = cluster.node;
  MemoryUse use;
  use[index(Tier::kGpu)] = {per_rank[worst_class(per_rank)][index(Tier::kGpu)],
                            node.device.memory,
                            node.device.reserve() + measured_reserve(cluster.memory),
                            gpu_headroom(cluster),
                            {}};
  use[index(Tier::kCpu)] = {
      Bytes{0}, node.host.memory, node.host.reserve, host_headroom(cluster), {}};
  use[index(Tier::kNvme)] = {Bytes{0}, node.nvme.capacity, Bytes{0}, Bytes{0}, {}};
  for (const Tier tier : {Tier::kCpu, Tier::kNvme})
    use[index(tier)].peak = of_node(per_rank, fills[worst_fill(per_rank, fills, tier)], tier);
  return use;
}

std::optional<Infeasible> worst_tier(const MemoryUse& use) {
  std::optional<Infeasible> worst;
  for (std::size_t t = 0; t < kTierCount; ++t) {
    if (use[t].fits()) continue;
    Infeasible why;
    why.tier = static_cast<Tier>(t);
    why.needed = use[t].peak;
    why.available = use[t].available();
    if (!worst || why.overload() > worst->overload()) worst = std::move(why);
  }
  return worst;
}

MemoryUse memory_use(const Job& job, const Cluster& cluster) {
  const JobLifetimes lives = lifetimes(job);
  const MemoryReport report = measure(job, lives);
  const std::vector<TierBytes> bytes = bytes_of(job, lives);
  const std::vector<NodeFill> fills = fills_of(job, cluster);
  MemoryUse use = memory_use(bytes, fills, cluster);
  for (std::size_t t = 0; t < kTierCount; ++t) {
    for (const auto& [stage, ranks] : counted(bytes, fills, static_cast<Tier>(t))) {
      const ClassMemory& own = report.classes[static_cast<std::size_t>(stage)];
      for (std::size_t c = 0; c < kCategoryCount; ++c)
        use[t].by_category[c] += own.tiers[t].by_category[c] * ranks;
    }
  }
  return use;
}

std::optional<Infeasible> check_fit(const Job& job, const Cluster& cluster) {
  return check_fit(job, lifetimes(job), cluster);
}

std::optional<Infeasible> check_fit(const Job& job, const JobLifetimes& lives,
                                    const Cluster& cluster) {
  const std::vector<TierBytes> bytes = bytes_of(job, lives);
  const std::vector<NodeFill> fills = fills_of(job, cluster);
  std::optional<Infeasible> why = worst_tier(memory_use(bytes, fills, cluster));
  if (why) describe_peak(measure(job, lives), counted(bytes, fills, why->tier), *why);
  return why;
}

}  // namespace zplan
