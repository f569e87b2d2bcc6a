#include "planner/cost/reliance.h"

#include <algorithm>

#include "planner/core/error.h"

namespace zplan {
namespace {

constexpr std::array<std::string_view, kHardwareTimeCount> kHardwareNames{
    "products",      "attention",   "device_memory", "launch",     "peer_links",
    "network_links", "host_memory", "host_links",    "drive_rates"};
constexpr std::array<std::string_view, kHardwareTimeCount> kHardwareMeanings{
    "matrix products of the device",
    "fused attention of the device",
    "memory of the device",
    "launches",
    "links within a node",
    "network",
    "host memory",
    "links between host and device",
    "drives"};

}  // namespace

std::string_view name(HardwareTime kind) {
  return kHardwareMeanings[static_cast<std::size_t>(kind)];
}

std::size_t constant_count() {
  const std::size_t count = stack_rates().size() + kHardwareTimeCount;
  ZPLAN_ASSERT(count <= kMostConstants);
  return count;
}

Constant constant_of(double StackRates::*rate) {
  const auto rows = stack_rates();
  const auto at = std::find_if(rows.begin(), rows.end(),
                               [&](const StackRate& row) { return row.member == rate; });
  ZPLAN_ASSERT(at != rows.end());
  return static_cast<Constant>(at - rows.begin());
}

Constant constant_of(HardwareTime kind) {
  return static_cast<Constant>(stack_rates().size() + static_cast<std::size_t>(kind));
}

std::string_view constant_name(Constant constant) {
  const auto rows = stack_rates();
  return constant < rows.size() ? rows[constant].name : kHardwareNames[constant - rows.size()];
}

Reliances::Reliances(std::initializer_list<Reliance> rows) {
  for (const Reliance& row : rows) add(row.constant, row.elasticity);
}

void Reliances::add(Constant constant, double elasticity) {
  if (elasticity == 0) return;
  for (std::size_t i = 0; i < count_; ++i) {
    if (rows_[i].constant != constant) continue;
    rows_[i].elasticity += static_cast<float>(elasticity);
    return;
  }
  ZPLAN_ASSERT(count_ < kMost);
  rows_[count_++] = {constant, static_cast<float>(elasticity)};
}

void Reliances::scale(double share) {
  for (std::size_t i = 0; i < count_; ++i) rows_[i].elasticity *= static_cast<float>(share);
}

RestingTime RestingTime::after(Seconds fixed) const {
  RestingTime later{time + fixed, rests};
  if (fixed.value > 0) later.rests.scale(time.value / later.time.value);
  return later;
}

RestingTime RestingTime::times(double factor, Constant constant) const {
  RestingTime longer{time * factor, rests};
  longer.rests.add(constant, 1);
  return longer;
}

RestingTime slower(const RestingTime& a, const RestingTime& b) { return a.time < b.time ? b : a; }

RestingTime both(const RestingTime& a, const RestingTime& b) {
  RestingTime sum{a.time + b.time, a.rests};
  if (sum.time.value == 0) return sum;
  sum.rests.scale(a.time.value / sum.time.value);
  for (const Reliance& row : b.rests.rows())
    sum.rests.add(row.constant, row.elasticity * (b.time.value / sum.time.value));
  return sum;
}

}  // namespace zplan
