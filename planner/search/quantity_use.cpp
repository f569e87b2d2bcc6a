#include "planner/search/quantity_use.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "planner/core/quantity.h"

namespace zplan {
namespace {

// Kinds of the links whose rate a quantity is (planner/cost/wiring.h).
struct LinkQuantity {
  std::string_view name;
  std::array<std::string_view, 2> kinds;
};
constexpr LinkQuantity kLinks[] = {
    {"nvme", {"NVMe", "NVMe drive"}},
    {"nvme.read", {"NVMe", "NVMe drive"}},
    {"nvme.write", {"NVMe", "NVMe drive"}},
    {"cpu.bandwidth", {"host memory", "DRAM"}},
    {"pcie", {"PCIe", "PCIe uplink"}},
    {"pcie.gpu", {"PCIe", ""}},
    {"pcie.uplink", {"PCIe uplink", ""}},
    {"peer", {kPeerLink, ""}},
    {"socket", {"socket link", ""}},
    {"network", {"NIC", "PCIe of NIC"}},
    {"network.oversubscription", {"leaf uplink", "leaf downlink"}},
};

std::string of_links(const LinkQuantity& quantity, const sim::SimResult& step) {
  std::optional<double> most;
  for (const sim::LinkReport& link : step.links)
    if (link.kind == quantity.kinds[0] || link.kind == quantity.kinds[1])
      most = std::max(most.value_or(0), link.utilisation);
  if (!most) return "nothing moves over it";
  return fmt::format("the busiest of its links works at {:.1f} % of its rate", 100 * *most);
}

std::string of_tier(Tier tier, const MemoryUse& use) {
  const TierUse& there = use[static_cast<std::size_t>(tier)];
  const auto [taken, available] = format_apart(there.peak, there.available());
  return fmt::format("{} of {} are taken", taken, available);
}

std::string of_part(std::string_view what, sim::TimePart part, const sim::SimResult& step) {
  const double share = step.split.parts[static_cast<std::size_t>(part)].value / step.period.value;
  return fmt::format("{} {:.1f} % of the step", what, 100 * share);
}

// Of the lane that spends most on it.
std::string of_starts(const sim::SimResult& step) {
  Seconds most{};
  for (const sim::LaneReport& lane : step.lanes) most = std::max(most, lane.latency);
  return fmt::format("starts of transfers take a lane {:.1f} % of the step at the most",
                     100 * most.value / step.period.value);
}

}  // namespace

std::string use_words(std::string_view quantity, const sim::SimResult& step, const MemoryUse& use) {
  using enum sim::TimePart;
  for (const LinkQuantity& link : kLinks)
    if (quantity == link.name) return of_links(link, step);
  if (quantity == "gpu.memory") return of_tier(Tier::kGpu, use);
  if (quantity == "cpu.memory") return of_tier(Tier::kCpu, use);
  if (quantity == "nvme.capacity") return of_tier(Tier::kNvme, use);
  if (quantity == "gpu.launch" || quantity == "gpu.graph_launch")
    return of_part("waits for launches take", kLaunch, step);
  if (quantity == "gpu.copy_latency" || quantity == "nvme.latency" ||
      quantity.starts_with("latency."))
    return of_starts(step);
  if (quantity == "cpu.cores" || quantity == "cpu.core_peak")
    return of_part("exposed CPU kernels take", kCpu, step);
  if (quantity.starts_with("gpu.")) return of_part("compute takes", kCompute, step);
  return "";
}

}  // namespace zplan
