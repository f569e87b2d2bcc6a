#include "hwprofiles/collective_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "hwprofiles/csv_table.h"
#include "planner/core/error.h"

namespace zplan {
namespace {

constexpr double kMicro = 1e-6, kGiga = 1e9;
// Families of devices that meet over PCIe alone.
constexpr std::string_view kPcieFamilies[] = {"l40s", "rtx_pro_6000_server"};
// [derived] the first of the PCIe families was measured on a server whose sockets exchange 1.4
// GB/s; others resemble the second.
constexpr std::string_view kUsualPcieFamily = "rtx_pro_6000_server";

bool is_pcie(std::string_view family) {
  return std::find(std::begin(kPcieFamilies), std::end(kPcieFamilies), family) !=
         std::end(kPcieFamilies);
}

// "nccl-2.29.2@2.27.3" -> 2, 29, 2, 0
std::vector<int> version_of(std::string_view source) {
  const std::size_t at = source.find('@');
  std::string_view text = source.substr(0, at);
  text.remove_prefix(std::min(text.size(), text.find('-') + 1));
  std::vector<int> version;
  while (!text.empty()) {
    int number = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (status != std::errc{}) break;
    version.push_back(number);
    text.remove_prefix(
        std::min(text.size(), static_cast<std::size_t>(end - text.data()) + std::size_t{1}));
  }
  version.resize(4);
  version.back() = at == source.npos ? 1 : 0;
  return version;
}

void read_curves(const CsvTable& table, CollectiveProfile& out) {
  const std::size_t op = table.column("op"), dtype = table.column("dtype"),
                    bytes = table.column("bytes"), gpus = table.column("gpus"),
                    time = table.column("time_us"), source = table.column("source");
  std::string_view newest;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::string_view text = table.text(row, source);
    if (newest.empty() || version_of(newest) < version_of(text)) newest = text;
  }
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const auto kind = find_measured_collective(table.text(row, op));
    if (!kind || table.text(row, dtype) != "fp16" || table.text(row, source) != newest) continue;
    out.curves[{*kind, static_cast<int>(table.number(row, gpus))}].add(
        table.number(row, bytes), {table.number(row, time) * kMicro});
  }
  for (auto& [key, curve] : out.curves) curve.settle();
  out.source = newest;
}

double distance(BytesPerSecond a, BytesPerSecond b) {
  return std::abs(std::log(a.value / b.value));
}

bool is_measured_link(const CollectiveConstants& family, BytesPerSecond link) {
  constexpr double kRounding = 0.05;  // [derived] 31 and 31.5 GB/s are the same PCIe 4.0 x16
  return distance(family.link, link) < kRounding;
}

// Whether what was measured under this name went over such links.
bool same_kind(std::string_view measured, const CollectiveLinks& links) {
  return is_pcie(measured) == (links.peer.value <= 0);
}

// Sorts families by how near their links are to this one. Of those of PCIe the usual one is
// nearest.
void sort_by_link(std::vector<CollectiveConstants>& families, BytesPerSecond link) {
  const auto off = [&](const CollectiveConstants& one) {
    return one.family == kUsualPcieFamily ? -1.0 : distance(one.link, link);
  };
  std::stable_sort(families.begin(), families.end(),
                   [&](const auto& a, const auto& b) { return off(a) < off(b); });
}

CollectiveConstants at_link(CollectiveConstants constants, BytesPerSecond link) {
  const double scale = link.value / constants.link.value;
  for (BytesPerSecond& rate : constants.rates) rate = rate * scale;
  for (BytesPerSecond& rate : constants.pair_rates) rate = rate * scale;
  constants.nvls = constants.nvls * scale;
  return constants;
}

// The geometric mean of each, and the mean where one of them is zero.
double between(double a, double b) { return a > 0 && b > 0 ? std::sqrt(a * b) : (a + b) / 2; }
template <typename T>
T between(T a, T b) {
  return {between(a.value, b.value)};
}
template <typename T, std::size_t N>
std::array<T, N> between(std::array<T, N> a, const std::array<T, N>& b) {
  for (std::size_t i = 0; i < N; ++i) a[i] = between(a[i], b[i]);
  return a;
}

// [derived] The starts of families differ by half with no order in their links: left out, each is
// nearer to the mean of two others than to the nearest one. Those of the low protocols are alike
// for two of three families and sooner for the third, so that the slower of two counts.
CollectiveConstants between(const CollectiveConstants& a, const CollectiveConstants& b) {
  CollectiveConstants mean = a.nvls.value > 0 ? a : b;  // of whose switches add up
  mean.family = a.family;
  if (a.nvls.value > 0 && b.nvls.value > 0) {
    mean.nvls_base = between(a.nvls_base, b.nvls_base);
    mean.nvls = between(a.nvls, b.nvls);
    mean.nvls_root = between(a.nvls_root, b.nvls_root);
  }
  for (const auto time : {&CollectiveConstants::low_base, &CollectiveConstants::low_hop,
                          &CollectiveConstants::pair_low_base})
    mean.*time = std::max(a.*time, b.*time);
  for (const auto time :
       {&CollectiveConstants::base, &CollectiveConstants::hop, &CollectiveConstants::pair_base})
    mean.*time = between(a.*time, b.*time);
  for (const auto share : {&CollectiveConstants::low_share, &CollectiveConstants::own,
                           &CollectiveConstants::own_all_reduce, &CollectiveConstants::root,
                           &CollectiveConstants::pair_low_share, &CollectiveConstants::pair_own,
                           &CollectiveConstants::pair_root})
    mean.*share = between(a.*share, b.*share);
  mean.rates = between(a.rates, b.rates);
  mean.pair_rates = between(a.pair_rates, b.pair_rates);
  return mean;
}

// [derived] What is sent is written and read: two transfers for one, each with its start. Of eight
// A40 the same copies go at 19 to 21 GB/s without peer access and at 40 to 50 with it, both ways
// together (nccl-tests, issue 74).
void stage_through_host(CollectiveConstants& constants) {
  constexpr double kTransfers = 2;
  constants.low_hop = constants.low_hop * kTransfers;
  constants.hop = constants.hop * kTransfers;
  constants.pair_low_base = constants.pair_low_base * kTransfers;
  constants.pair_base = constants.pair_base * kTransfers;
  for (BytesPerSecond& rate : constants.rates) rate = rate / kTransfers;
  for (BytesPerSecond& rate : constants.pair_rates) rate = rate / kTransfers;
}

}  // namespace

std::optional<MeasuredCollective> find_measured_collective(std::string_view name) {
  const auto* const at =
      std::find(std::begin(kMeasuredCollectives), std::end(kMeasuredCollectives), name);
  if (at == std::end(kMeasuredCollectives)) return std::nullopt;
  return static_cast<MeasuredCollective>(at - std::begin(kMeasuredCollectives));
}

const CollectiveCurve* CollectiveProfile::nearest(MeasuredGroup& group) const {
  const CollectiveCurve* best = nullptr;
  double least = 0;
  MeasuredGroup found = group;
  for (const auto& [key, curve] : curves) {
    if (key.kind != group.kind || (key.nodes > 1) != (group.nodes > 1)) continue;
    const bool alike =
        std::int64_t{key.ranks} * group.nodes == std::int64_t{group.ranks} * key.nodes;
    if (group.nodes > 1 && !alike) continue;
    const double off = std::abs(std::log(static_cast<double>(key.ranks) / group.ranks));
    if (best && off >= least) continue;
    best = &curve;
    least = off;
    found = key;
  }
  group = found;
  return best;
}

bool CollectiveProfile::reaches_over_nodes() const {
  return std::any_of(curves.begin(), curves.end(),
                     [](const auto& one) { return one.first.nodes > 1; });
}

std::vector<CollectiveConstants> collective_families() {
  const std::optional<CsvTable> table = find_table("collectives_constants");
  ZPLAN_ASSERT(table.has_value());
  std::vector<CollectiveConstants> all;
  for (std::size_t row = 0; row < table->rows(); ++row) {
    const auto number = [&](std::string_view name) {
      return table->number(row, table->column(name));
    };
    const auto time = [&](std::string_view name) { return Seconds{number(name) * kMicro}; };
    const auto rate = [&](std::string_view name) { return BytesPerSecond{number(name) * kGiga}; };
    all.push_back({.family = std::string(table->text(row, table->column("family"))),
                   .link = rate("link_gb_s"),
                   .low_base = time("low_base_us"),
                   .low_hop = time("low_hop_us"),
                   .low_share = number("low_share"),
                   .base = time("base_us"),
                   .hop = time("hop_us"),
                   .rates = {rate("rate_2_gb_s"), rate("rate_4_gb_s"), rate("rate_8_gb_s")},
                   .own = number("own"),
                   .own_all_reduce = number("own_all_reduce"),
                   .root = number("root"),
                   .nvls_base = time("nvls_base_us"),
                   .nvls = rate("nvls_gb_s"),
                   .nvls_root = number("nvls_root"),
                   .nvls_channels = static_cast<int>(number("nvls_channels")),
                   .pair_low_base = time("pair_low_base_us"),
                   .pair_base = time("pair_base_us"),
                   .pair_low_share = number("pair_low_share"),
                   .pair_own = number("pair_own"),
                   .pair_root = number("pair_root"),
                   .pair_rates = {rate("pair_rate_2_gb_s"), rate("pair_rate_4_gb_s"),
                                  rate("pair_rate_8_gb_s")}});
  }
  return all;
}

CollectiveConstants nearest_constants(const std::vector<CollectiveConstants>& families,
                                      std::string_view own, const CollectiveLinks& links) {
  const bool has_peer = links.peer.value > 0;
  const BytesPerSecond link = has_peer ? links.peer : links.pcie;
  std::vector<CollectiveConstants> near;
  for (const CollectiveConstants& one : families) {
    if (one.family == own) return is_measured_link(one, link) ? one : at_link(one, link);
    if (same_kind(one.family, links)) near.push_back(one);
  }
  ZPLAN_ASSERT(!near.empty());
  sort_by_link(near, link);
  const CollectiveConstants nearest = at_link(near[0], link);
  const bool alone = !has_peer || near.size() == 1 || is_measured_link(near[0], link);
  return alone ? nearest : between(nearest, at_link(near[1], link));
}

std::shared_ptr<const CollectiveProfile> collective_profile(std::string_view tables,
                                                            const CollectiveLinks& links) {
  auto profile = std::make_shared<CollectiveProfile>();
  profile->constants = nearest_constants(collective_families(), tables, links);
  const bool has_peer = links.peer.value > 0;
  const BytesPerSecond link = has_peer ? links.peer : links.pcie;
  profile->own_constants = has_peer || profile->constants.family == tables;
  if (links.staged) stage_through_host(profile->constants);
  if (!links.sums) profile->constants.nvls = {};
  const bool measured = !tables.empty() && same_kind(tables, links) &&
                        is_measured_link(profile->constants, link) && !links.staged;
  if (!measured) return profile;
  if (const auto table = find_table(fmt::format("collectives_{}", tables)))
    read_curves(*table, *profile);
  return profile;
}

}  // namespace zplan
