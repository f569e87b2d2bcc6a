#include "planner/cli/bandwidth/verdict.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/cli/frame/words.h"
#include "planner/core/quantity.h"

namespace zplan {
namespace {

// Shares of a step, by what waits or works.
struct Shares {
  double compute = 0;
  Hop hop{};  // that costs most of all tiers
  double tiers = 0;
  sim::TimePart other{};  // of the rest the greatest
  double rest = 0;
};

Shares shares_of(const Bandwidth& found) {
  using enum sim::TimePart;
  const double period = found.sim.period.value;
  const auto part = [&](sim::TimePart which) {
    return found.sim.split.parts[static_cast<std::size_t>(which)].value / period;
  };
  Shares shares{.compute = part(kCompute), .other = kTensor};
  for (const TierTraffic& one : found.traffic) {
    const double exposed = exposed_of(found.sim.split, one.hop).value / period;
    if (shares.tiers == 0 || exposed > shares.tiers) shares.hop = one.hop, shares.tiers = exposed;
  }
  for (const sim::TimePart which : {kPipeline, kWait, kLaunch})
    if (part(which) > part(shares.other)) shares.other = which;
  shares.rest = part(shares.other);
  return shares;
}

// "3.00 GB/s a GPU; 90 % takes 15.5 GB/s", of the state that takes the hop longest.
std::string rates_words(const Bandwidth& found, Hop hop) {
  const TierTraffic& most = *longest(found.traffic, hop);
  const BytesPerSecond needed = bandwidth_for(0.9, most.intensity(), most.compute_rate());
  return fmt::format("{} a GPU; 90 % takes {}", format_rate(most.rate()), format_rate(needed));
}

}  // namespace

Verdict verdict_of(const Bandwidth& found) {
  const Shares shares = shares_of(found);
  const std::string step = format_seconds(found.sim.period);
  const std::string hop(name(shares.hop)), other(name(shares.other));
  const std::string compute = percent(shares.compute), tiers = percent(shares.tiers);
  if (shares.tiers > std::max(shares.compute, shares.rest))
    return {hop, fmt::format("{} limits: {} of a {} step waits for it ({}); compute {}",
                             shares.hop == Hop::kGpus ? "Traffic between GPUs" : hop, tiers, step,
                             rates_words(found, shares.hop), compute)};
  if (shares.rest > shares.compute)
    return {other, fmt::format("No tier limits: {} {} of a {} step, compute {}, {} {}", other,
                               percent(shares.rest), step, compute, hop, tiers)};
  const std::string first = fmt::format("Compute limits: {} of a {} step", compute, step);
  if (found.traffic.empty()) return {"compute", first + "; no states move between tiers or GPUs"};
  if (shares.rest > shares.tiers)
    return {"compute",
            fmt::format("{}; {} {}, {} {}", first, other, percent(shares.rest), hop, tiers)};
  return {"compute",
          fmt::format("{}; {} costs {} ({})", first, hop, tiers, rates_words(found, shares.hop))};
}

}  // namespace zplan
