#include <array>
#include <nlohmann/json.hpp>

#include "planner/cli/predict/prediction_output.h"

namespace zplan {
namespace {

using Json = nlohmann::ordered_json;

Json by_category(const std::array<Bytes, kCategoryCount>& bytes) {
  Json out = Json::object();
  for (int i = 0; i < kCategoryCount; ++i) {
    out[std::string(name(static_cast<Category>(i)))] = bytes[static_cast<std::size_t>(i)].value;
  }
  return out;
}

Json largest(const std::vector<LiveBuffer>& buffers) {
  Json out = Json::array();
  for (const LiveBuffer& buffer : buffers) {
    out.push_back(
        {{"name", buffer.name}, {"category", name(buffer.category)}, {"bytes", buffer.size.value}});
  }
  return out;
}

Json tier_use(const TierUse& use) {
  return {{"peak_bytes", use.peak.value},
          {"capacity_bytes", use.capacity.value},
          {"reserve_bytes", use.reserve.value},
          {"headroom_bytes", use.headroom.value},
          {"fits", use.fits()},
          {"over_bytes", use.over().value},
          {"by_category", by_category(use.by_category)},
          {"gaps_bytes", use.gaps().value}};
}

Json tier_memory(const TierMemory& tier) {
  return {{"slab_bytes", tier.slab.value},
          {"live_peak_bytes", tier.live_peak.value},
          {"slab_over_live_peak", tier.slab_over_live_peak()},
          {"peak_op", tier.peak_op},
          {"by_category", by_category(tier.by_category)},
          {"largest", largest(tier.largest)}};
}

Json classes(const MemoryReport& report) {
  Json out = Json::array();
  for (const ClassMemory& c : report.classes) {
    Json entry = {{"stage", c.stage}};
    for (int t = 0; t < kTierCount; ++t) {
      entry[std::string(name(static_cast<Tier>(t)))] =
          tier_memory(c.tiers[static_cast<std::size_t>(t)]);
    }
    out.push_back(std::move(entry));
  }
  return out;
}

}  // namespace

std::string memory_json(const MemoryPrediction& memory) {
  Json out = Json::object();
  for (int t = 0; t < kTierCount; ++t) {
    out[std::string(name(static_cast<Tier>(t)))] =
        tier_use(memory.use[static_cast<std::size_t>(t)]);
  }
  out["allocator"] = Json::parse(stack_memory_json(memory.stack));
  out["classes"] = classes(memory.report);
  return out.dump();
}

std::string infeasible_json(const Infeasible& why) {
  const Json out = {{"tier", name(why.tier)},
                    {"needed_bytes", why.needed.value},
                    {"available_bytes", why.available.value},
                    {"peak_op", why.peak_op},
                    {"largest", largest(why.largest)},
                    {"smallest_change", why.smallest_change}};
  return out.dump();
}

}  // namespace zplan
