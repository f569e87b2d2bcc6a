#include "planner/place/pack.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

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

  // A place for a tenant, and the distance to the nearest of those that had bytes of it; kFar
  // where nobody had.
  struct Choice {
    std::int64_t at = -1, score = -1;
  };
  // One that is never alive with the tenant to be placed, and how far away it is of it.
  struct Neighbour {
    std::int64_t begin, end, distance;
  };
  static bool farther(const Neighbour& a, const Neighbour& b) { return a.distance > b.distance; }

  std::int64_t choose(const Tenant& tenant, std::int64_t budget) {
    const std::int64_t size = tenant.size.value;
    std::int64_t gap = 0;  // start of the current gap between tenants alive at the same time
    Choice best;
    neighbours_.clear();
    const auto use_gap = [&](std::int64_t end) {
      if (end - gap < size || best.score == kFar) return;
      const Choice found = choose_within(tenant, gap, end);
      if (found.score > best.score) best = found;
    };
    for (const Placed& other : placed_) {
      if (!other.life.overlaps(tenant.life)) {
        if (budget > 0) add_neighbour(other, tenant);
        continue;
      }
      if (budget == 0 && other.begin - gap >= size) return gap;
      if (budget > 0) use_gap(std::min(other.begin, budget));
      gap = std::max(gap, other.end);
    }
    if (budget > 0) use_gap(budget);
    return best.at >= 0 ? best.at : gap;
  }

  // The best of the begin of the gap, the ends of those that lie in it, and its end; of equals the
  // first in this order. All are gone through from the lowest, with those that it covers in a heap.
  Choice choose_within(const Tenant& tenant, std::int64_t gap, std::int64_t end) {
    const std::int64_t size = tenant.size.value;
    std::erase_if(neighbours_, [&](const Neighbour& other) { return other.end <= gap; });
    if (neighbours_.empty() || neighbours_.front().begin >= end) return {gap, kFar};
    offers_.assign(1, {gap, 0});
    for (const Neighbour& other : neighbours_)
      if (other.begin < end && other.end + size <= end)
        offers_.emplace_back(other.end, offers_.size());
    offers_.emplace_back(end - size, offers_.size());
    std::sort(offers_.begin(), offers_.end());
    covered_.clear();
    std::size_t next = 0, order = 0;
    Choice best;
    for (const auto& [at, own_order] : offers_) {
      for (; next < neighbours_.size() && neighbours_[next].begin < at + size; ++next) {
        covered_.push_back(neighbours_[next]);
        std::push_heap(covered_.begin(), covered_.end(), farther);
      }
      while (!covered_.empty() && covered_.front().end <= at) {
        std::pop_heap(covered_.begin(), covered_.end(), farther);
        covered_.pop_back();
      }
      const std::int64_t score = covered_.empty() ? kFar : covered_.front().distance;
      if (score < best.score || (score == best.score && own_order > order)) continue;
      best = {at, score};
      order = own_order;
    }
    return best;
  }

  void add_neighbour(const Placed& other, const Tenant& tenant) {
    neighbours_.push_back({other.begin, other.end, distance(tenant.life, other.life, positions_)});
  }

  std::span<const Tenant> tenants_;
  NodeIndex positions_;
  std::vector<Placed> placed_;  // by begin
  // Scratch of one choice.
  std::vector<Neighbour> neighbours_;                         // of the gap and above it, by begin
  std::vector<Neighbour> covered_;                            // a heap
  std::vector<std::pair<std::int64_t, std::size_t>> offers_;  // place, order
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
