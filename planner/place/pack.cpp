#include "planner/place/pack.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace zplan {
namespace {

constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();

enum class Order { kSize, kArea, kDuration };
constexpr Order kOrders[] = {Order::kSize, Order::kArea, Order::kDuration};
constexpr int kRepairs = 8;  // per order; few instances gain from more

std::int64_t weight(const Tenant& tenant, Order order) {
  const std::int64_t length = tenant.life.length();
  if (order == Order::kDuration) return length;
  return order == Order::kSize ? tenant.size.value : tenant.size.value * length;
}

using Sequence = std::vector<std::uint32_t>;  // tenants in the order they are placed

Sequence sorted(std::span<const Tenant> tenants, Order order) {
  std::vector<std::int64_t> weights(tenants.size());
  for (std::size_t i = 0; i < tenants.size(); ++i) weights[i] = weight(tenants[i], order);
  Sequence result(tenants.size());
  std::iota(result.begin(), result.end(), 0u);
  std::stable_sort(result.begin(), result.end(), [&](std::uint32_t a, std::uint32_t b) {
    if (weights[a] != weights[b]) return weights[a] > weights[b];
    return tenants[a].size > tenants[b].size;
  });
  return result;
}

// Nodes between the earlier of two tenants and the later one, whichever way round the step.
std::int64_t distance(const Lifetime& a, const Lifetime& b, NodeIndex positions) {
  const Lifetime& early = a.first < b.first ? a : b;
  const Lifetime& late = a.first < b.first ? b : a;
  const std::int64_t within = std::int64_t{late.first} - early.last;
  const std::int64_t around = std::int64_t{positions} - late.last + early.first;
  return std::min(within, around);
}

class Packer {
 public:
  Packer(std::span<const Tenant> tenants, NodeIndex positions)
      : tenants_(tenants), positions_(positions) {}

  // Zero budget: lowest range that fits.
  Packing run(const Sequence& sequence, Bytes budget) {
    Packing packing{std::vector<Bytes>(tenants_.size(), Bytes{0}), Bytes{0}};
    placed_.clear();
    for (const std::uint32_t id : sequence) {
      const Tenant& tenant = tenants_[id];
      if (!tenant.life.used()) continue;
      const std::int64_t at = choose(tenant, budget.value);
      packing.offset[id] = {at};
      packing.slab = std::max(packing.slab, Bytes{at} + tenant.size);
      const Placed placed{at, at + tenant.size.value, tenant.life};
      placed_.insert(std::upper_bound(placed_.begin(), placed_.end(), placed, by_begin), placed);
    }
    return packing;
  }

 private:
  struct Placed {
    std::int64_t begin, end;
    Lifetime life;
  };
  static bool by_begin(const Placed& a, const Placed& b) { return a.begin < b.begin; }

  std::int64_t choose(const Tenant& tenant, std::int64_t budget) {
    const std::int64_t size = tenant.size.value;
    std::int64_t gap = 0;  // start of the current gap between tenants alive at the same time
    std::int64_t best = -1, best_score = -1;
    const auto offer = [&](std::int64_t at) {
      const std::int64_t score = nearest(at, at + size, tenant.life, best_score);
      if (score > best_score) best = at, best_score = score;
    };
    const auto use_gap = [&](std::int64_t end) {
      if (end - gap < size) return;
      offer(gap);
      for (const Placed& other : placed_) {
        if (other.end <= gap) continue;
        if (other.begin >= end) break;
        if (other.end + size <= end) offer(other.end);
      }
      if (best_score != kFar && end - size > gap) offer(end - size);
    };
    for (const Placed& other : placed_) {
      if (!other.life.overlaps(tenant.life)) continue;
      if (budget == 0 && other.begin - gap >= size) return gap;
      if (budget > 0 && best_score != kFar) use_gap(std::min(other.begin, budget));
      gap = std::max(gap, other.end);
    }
    if (budget > 0 && best_score != kFar) use_gap(budget);
    return best >= 0 ? best : gap;
  }

  // Distance to the nearest tenant in a range; kFar when it has none. Where it is `enough` or less,
  // some distance that is.
  std::int64_t nearest(std::int64_t begin, std::int64_t end, const Lifetime& life,
                       std::int64_t enough) const {
    std::int64_t least = kFar;
    for (const Placed& other : placed_) {
      if (other.begin >= end || least <= enough) break;
      if (other.end > begin) least = std::min(least, distance(life, other.life, positions_));
    }
    return least;
  }

  std::span<const Tenant> tenants_;
  NodeIndex positions_;
  std::vector<Placed> placed_;  // by begin
};

// Places whoever sticks out at the top first and tries again, while that may help.
Packing tightest(Packer& packer, std::span<const Tenant> tenants, Sequence sequence, Bytes goal) {
  Packing best = packer.run(sequence, Bytes{0});
  Packing last = best;
  for (int i = 0; i < kRepairs && best.slab > goal; ++i) {
    std::stable_partition(sequence.begin(), sequence.end(), [&](std::uint32_t id) {
      return tenants[id].life.used() && last.offset[id] + tenants[id].size == last.slab;
    });
    last = packer.run(sequence, Bytes{0});
    if (last.slab < best.slab) best = last;
  }
  return best;
}

}  // namespace

Packing pack(std::span<const Tenant> tenants, NodeIndex positions, Bytes budget) {
  Packer packer(tenants, positions);
  if (budget.value > 0) {
    for (const Order order : kOrders) {
      Packing spread = packer.run(sorted(tenants, order), budget);
      if (spread.slab <= budget) return spread;
    }
  }
  Packing best;
  for (const Order order : kOrders) {
    Packing tight = tightest(packer, tenants, sorted(tenants, order), budget);
    if (best.offset.empty() || tight.slab < best.slab) best = std::move(tight);
    if (best.slab <= budget) break;
  }
  return best;
}

}  // namespace zplan
