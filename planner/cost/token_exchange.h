// The time of an exchange of token rows for experts where the rows of a token travel together, as
// DeepEP and HybridEP send them: once over the network to each node that has one of its experts,
// to the rank there with the sender's place, and from it over the fast links of the node to each
// rank that has one of them [DeepEP], [HybridEP]. Of n ranks, m in each of n / m nodes, E experts
// and k choices of a token, all as likely as each other,
//
//   ranks(k) = n (1 - C(E - E / n, k) / C(E, k)), nodes(k) the same of n / m  [derived]
//
// are those that a token's choices lie on, its own among them. Where it chooses from g of G groups
// of experts, the same holds of the ranks of these groups; they lie on no more nodes than groups.
// Of T tokens of h bytes a rank sends T h nodes(k) (1 - m / n) over the network and as its share of
// what comes to its node T h ranks(k) (1 - 1 / m) over the fast links, both at once. Sums of rows
// come back the same way. Of the rate of a ring's step their kernels, on 20 to 24 multiprocessors,
// reach a share, and start later than a collective of the library, by what is measured of 8 ranks
// of one node [AIConfigurator ep_all_to_all_*.csv].
#pragma once

#include <optional>

#include "planner/cost/collective_time.h"
#include "planner/program/job/program.h"

namespace zplan {

// This says what a token chooses, as the attributes of the exchange do (program.h).
struct TokenChoices {
  double per_token = 1, experts = 1;
  double groups = 1, groups_per_token = 1;
};

// Returns nothing where each row travels by itself.
std::optional<TokenChoices> rows_travel_together(const Attributes& attributes);

// Ranks and nodes that the choices of a token lie on, on average.
struct TokenReach {
  double ranks = 1, nodes = 1;
};
TokenReach reach_of(const TokenChoices& choices, double ranks, double nodes);

// `call`: as of an all-to-all of all rows, whose `start` it takes; `share`: of its rate in a node.
CollectiveTime token_exchange_time(const CollectiveCall& call, const TokenChoices& choices,
                                   Seconds start, double share);

}  // namespace zplan
