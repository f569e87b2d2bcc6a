#include "planner/cost/token_exchange.h"

#include <algorithm>
#include <cmath>

namespace zplan {
namespace {

// [derived] 40 us of a dispatch and 98 us of a combine on H100, less the start of an all-to-all.
constexpr Seconds kLaterStart{50e-6};

// The chance that none of k choices of `all` is one of `some`: C(all - some, k) / C(all, k).
double chance_of_none(double all, double some, double k) {
  double chance = 1;
  for (double i = 0; i < k; ++i) chance *= std::max(0.0, all - some - i) / (all - i);
  return chance;
}

// Counts, of `places` with equally many of `all`, those with one of k choices or more.
double places_reached(double places, double all, double k) {
  return places * (1 - chance_of_none(all, all / places, k));
}

// Nodes that hold the groups a token chooses from: several groups lie on one, or each on several.
double nodes_of_groups(const TokenChoices& choices, double nodes) {
  if (choices.groups <= nodes) return nodes * choices.groups_per_token / choices.groups;
  return places_reached(nodes, choices.groups, choices.groups_per_token);
}

}  // namespace

std::optional<TokenChoices> rows_travel_together(const Attributes& attributes) {
  if (attributes == Attributes{}) return std::nullopt;
  const auto number = [&](std::size_t i) { return static_cast<double>(attributes[i].base); };
  const double groups = std::max(1.0, number(2)), chosen = number(3);
  return TokenChoices{number(0), number(1), groups, chosen > 0 ? chosen : groups};
}

TokenReach reach_of(const TokenChoices& choices, double ranks, double nodes) {
  const double share = choices.groups_per_token / choices.groups;
  const double experts = choices.experts * share;
  const double most_nodes = nodes_of_groups(choices, nodes);
  return {places_reached(std::max(1.0, ranks * share), experts, choices.per_token),
          places_reached(std::max(1.0, most_nodes), experts, choices.per_token)};
}

CollectiveTime token_exchange_time(const CollectiveCall& call, const TokenChoices& choices,
                                   Seconds start, double share) {
  const double n = call.ranks, nodes = call.nodes, beside = n / nodes;
  const TokenReach reach = reach_of(choices, n, nodes);
  const double tokens = static_cast<double>(call.bytes.value) / choices.per_token;
  const double near = tokens * reach.ranks * (1 - 1 / beside);
  const double far = tokens * reach.nodes * (1 - 1 / nodes) * beside;  // out of the node
  CollectiveTime time{.latency = start + kLaterStart, .method = "tokens once"};
  time.moved = {std::llround(near)};
  time.crossing = {std::llround(far)};
  time.transfer = std::max(time.moved / (call.local * share), time.crossing / call.border);
  return time;
}

}  // namespace zplan
