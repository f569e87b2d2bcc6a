#include "planner/search/siblings.h"

#include <algorithm>
#include <map>

namespace zplan {
namespace {

constexpr std::uint32_t kBits = 4;  // of each coordinate in a code

// How far away each state is, 0 or more, a coordinate each.
std::uint32_t code_of(const Plan& plan) {
  const StatePlacement& at = plan.placement;
  std::uint32_t code = plan.partition_activations ? 1 : 0;
  for (const Tier tier : {at.params, at.grads, at.optimizer, at.activations})
    code = code << kBits | static_cast<std::uint32_t>(tier);
  return code;
}

bool closer(std::uint32_t a, std::uint32_t b) {
  if (a == b) return false;
  for (; b != 0 || a != 0; a >>= kBits, b >>= kBits)
    if ((a & 0xf) > (b & 0xf)) return false;
  return true;
}

bool same_group(const Plan& a, const Plan& b) {
  return a.batch == b.batch && a.parallel == b.parallel && a.zero_stage == b.zero_stage &&
         a.gather == b.gather && a.recompute == b.recompute && a.precision == b.precision &&
         a.kernel_set == b.kernel_set;
}

// [derived] a state that is off the GPU is brought there through the same buffers wherever it lies.
bool same_on_gpu(const Plan& a, const Plan& b) {
  const StatePlacement &x = a.placement, &y = b.placement;
  const auto alike = [](Tier s, Tier t) { return (s == Tier::kGpu) == (t == Tier::kGpu); };
  for (const ModelState state : kModelStates) {
    const bool some_near = x.near(state) == Tier::kGpu || y.near(state) == Tier::kGpu;
    if (!alike(x.of(state), y.of(state)) || (some_near && x.of(state) != y.of(state))) return false;
  }
  return a.partition_activations == b.partition_activations && alike(x.activations, y.activations);
}

}  // namespace

Siblings::Siblings(const std::vector<Leaf>& leaves)
    : order_(leaves.size()), place_(leaves.size()), pending_(leaves.size()) {
  std::map<std::vector<std::uint32_t>, std::uint32_t> known;
  for (std::size_t begin = 0; begin < leaves.size();) {
    std::vector<std::uint32_t> codes;
    std::size_t end = begin;
    const Plan& first = leaves[begin].candidate.plan;
    while (end < leaves.size() && same_group(first, leaves[end].candidate.plan))
      codes.push_back(code_of(leaves[end++].candidate.plan));
    const auto [at, is_new] = known.emplace(codes, static_cast<std::uint32_t>(orders_.size()));
    if (is_new) orders_.push_back(make_order(codes));
    for (std::size_t i = begin; i < end; ++i) {
      order_[i] = at->second;
      place_[i] = static_cast<std::uint32_t>(i - begin);
      pending_[i] = orders_[at->second].before[i - begin];
    }
    begin = end;
  }
}

Siblings::Order Siblings::make_order(const std::vector<std::uint32_t>& codes) {
  const auto n = static_cast<std::uint32_t>(codes.size());
  Order order{std::vector<std::vector<std::uint32_t>>(n), std::vector<std::uint32_t>(n)};
  for (std::uint32_t a = 0; a < n; ++a)
    for (std::uint32_t b = 0; b < n; ++b) {
      const bool between = std::any_of(codes.begin(), codes.end(), [&](std::uint32_t c) {
        return closer(codes[a], c) && closer(c, codes[b]);
      });
      if (!closer(codes[a], codes[b]) || between) continue;
      order.next[a].push_back(b);
      ++order.before[b];
    }
  return order;
}

std::vector<std::size_t> Siblings::next(std::size_t index) const {
  std::vector<std::size_t> result;
  for (const std::uint32_t place : order_of(index).next[place_[index]])
    result.push_back(index - place_[index] + place);
  return result;
}

std::vector<std::size_t> Siblings::closest() const {
  std::vector<std::size_t> result;
  for (std::size_t i = 0; i < order_.size(); ++i)
    if (order_of(i).before[place_[i]] == 0) result.push_back(i);
  return result;
}

std::vector<std::size_t> Siblings::after_misfit(std::vector<Leaf>& leaves, std::size_t index) {
  std::vector<std::size_t> result;
  const Candidate& misfit = leaves[index].candidate;
  for (const std::size_t i : next(index)) {
    Leaf& leaf = leaves[i];
    if (misfit.infeasible->tier == Tier::kGpu && !leaf.out() &&
        same_on_gpu(misfit.plan, leaf.candidate.plan)) {
      leaf.candidate.infeasible = misfit.infeasible;
      leaf.rung = leaves[index].rung;
    }
    if (--pending_[i] > 0 || leaf.set_aside) continue;
    if (!leaf.out()) {
      result.push_back(i);
      continue;
    }
    const std::vector<std::size_t> after = after_misfit(leaves, i);
    result.insert(result.end(), after.begin(), after.end());
  }
  return result;
}

void Siblings::set_others_aside(std::vector<Leaf>& leaves, std::size_t index) const {
  for (const std::size_t i : next(index)) {
    if (leaves[i].set_aside) continue;
    leaves[i].set_aside = true;
    set_others_aside(leaves, i);
  }
}

}  // namespace zplan
