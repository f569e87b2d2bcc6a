#include "hwprofiles/measured_rates.h"

#include <cmath>
#include <memory>
#include <string_view>

#include "hwprofiles/kernel_tables.h"

namespace zplan {
namespace {

constexpr std::string_view kChanged = " (changed)";

CollectiveCurve changed_curve(const CollectiveCurve& curve, const CollectiveChange& change) {
  const Seconds start = curve.at(curve.least());
  const auto time = [&](double bytes) {
    return start * change.start + (curve.at(bytes) - start) / change.moving;
  };
  CollectiveCurve result;
  for (double bytes = curve.least(); bytes < curve.most(); bytes *= std::sqrt(2.0))
    result.add(bytes, time(bytes));
  result.add(curve.most(), time(curve.most()));
  result.settle();
  return result;
}

}  // namespace

void settle_tables(const DeviceProfile& device) {
  if (!device.tables) return;
  for (const auto& [format, peak] : device.peaks)
    device.tables->product({1, 1, 1}, format, ProductPhase::kForward, device);
  device.tables->settled({1, 1, 1}, ProductPhase::kForward, device);
  if (device.supports("bf16"))
    device.tables->attention({.batch = 1, .heads = 1, .sequence = 1, .head_size = 1}, device);
}

void mark_changed(DeviceProfile& device) {
  if (!device.name.ends_with(kChanged)) device.name += kChanged;
}

void scale_collectives(DeviceProfile& device, const CollectiveChange& change) {
  if (!device.collectives) return;
  auto profile = std::make_shared<CollectiveProfile>(*device.collectives);
  CollectiveConstants& constants = profile->constants;
  for (BytesPerSecond* const rate : {&constants.link, &constants.nvls})
    *rate = *rate * change.moving;
  for (BytesPerSecond& rate : constants.rates) rate = rate * change.moving;
  for (BytesPerSecond& rate : constants.pair_rates) rate = rate * change.moving;
  for (Seconds* const start :
       {&constants.low_base, &constants.low_hop, &constants.base, &constants.hop,
        &constants.nvls_base, &constants.pair_low_base, &constants.pair_base})
    *start = *start * change.start;
  for (auto& [group, curve] : profile->curves)
    if (group.nodes == 1) curve = changed_curve(curve, change);
  device.collectives = std::move(profile);
}

void scale_collectives_over_nodes(DeviceProfile& device, double moving) {
  if (!device.collectives || !device.collectives->reaches_over_nodes()) return;
  auto profile = std::make_shared<CollectiveProfile>(*device.collectives);
  for (auto& [group, curve] : profile->curves)
    if (group.nodes > 1) curve = changed_curve(curve, {.moving = moving});
  device.collectives = std::move(profile);
}

}  // namespace zplan
