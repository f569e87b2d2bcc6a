#include "hwprofiles/measured_curves.h"

#include <fmt/format.h>

#include <set>

#include "planner/core/quantity.h"

namespace zplan {
namespace {

constexpr int kMostRanks = 10'000'000;

MeasuredGroup read_group(JsonObject& entry, const HwProfile& profile) {
  const std::vector<std::string> ops(std::begin(kMeasuredCollectives),
                                     std::end(kMeasuredCollectives));
  MeasuredGroup group;
  group.kind = *find_measured_collective(entry.member("op").one_of(ops));
  group.nodes = static_cast<int>(entry.member("nodes").integer(1, kMaxNodes));
  const JsonNode ranks = entry.member("ranks");
  group.ranks = static_cast<int>(ranks.integer(2, kMostRanks));
  const int most = profile.topology.gpus();
  if (group.ranks % group.nodes != 0 || group.ranks / group.nodes > most) {
    ranks.fail(fmt::format("expected as many ranks in each of {} nodes, at most {}, got {} in all",
                           group.nodes, most, group.ranks));
  }
  return group;
}

CollectiveCurve read_curve(const JsonNode& times) {
  CollectiveCurve curve;
  Bytes before{0};
  for (const JsonNode& point : times.items()) {
    const std::vector<JsonNode> pair = point.items();
    if (pair.size() != 2) point.fail_expected("a size and a time");
    const Bytes size = pair[0].bytes();
    const Seconds time = pair[1].seconds();
    if (size <= before) pair[0].fail_expected("a size above the one before");
    if (time.value <= 0) pair[1].fail_expected("a time above zero");
    curve.add(static_cast<double>(size.value), time);
    before = size;
  }
  if (curve.size() == 0) times.fail("expected at least one size with its time, got none");
  curve.settle();
  return curve;
}

std::string sizes_of(const JsonNode& times) {
  const std::vector<JsonNode> points = times.items();
  return fmt::format("{} sizes, {} to {}", points.size(),
                     format_bytes(points.front().items()[0].bytes()),
                     format_bytes(points.back().items()[0].bytes()));
}

}  // namespace

std::shared_ptr<const CollectiveProfile> with_measured_curves(const HwProfile& profile,
                                                              const JsonNode& node,
                                                              std::vector<ValueSource>& sources) {
  if (profile.device.collectives == nullptr) {
    node.fail(
        fmt::format("expected no collectives of devices that meet in host memory, {}, got some",
                    profile.device.kernel_set));
  }
  auto found = std::make_shared<CollectiveProfile>(*profile.device.collectives);
  std::set<MeasuredGroup> groups;
  for (const JsonNode& item : node.items()) {
    JsonObject entry = item.object();
    const MeasuredGroup group = read_group(entry, profile);
    if (!groups.insert(group).second) {
      item.fail(fmt::format("expected one entry of {} of {} ranks on {} nodes, got two",
                            name(group.kind), group.ranks, group.nodes));
    }
    const JsonNode times = entry.member("times");
    const SourcedNode sourced = read_sourced(times);
    entry.finish();
    found->curves[group] = read_curve(sourced.value);
    sources.push_back({times.pointer(), sizes_of(sourced.value), sourced.source, sourced.ref});
  }
  return found;
}

}  // namespace zplan
