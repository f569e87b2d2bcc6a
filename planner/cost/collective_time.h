// The time of one collective, alone: NCCL's algorithms and protocols in the form of its tuner, a
// start that counts hops and bytes over a rate, the fastest of them [NCCL]. S bytes of the whole
// buffer, n ranks on k = n / nodes GPUs in each node, p = 2 passes of an all-reduce, else 1.
//
//   ring      start: base + hop x steps in a node + inter + message x p (nodes - 1);
//             steps p (n - 1) in all. Moves S (steps + own) / n at the rate of the family: each of
//             the n parts is sent once per pass, the own part is only copied and costs `own` of
//             another [derived]. Broadcast and reduce move S in pieces along one chain.
//             Over nodes a part waits for its slot on the network: of what has to cross the border
//             in steps as many parts are under way as the protocol has slots for, so that it takes
//             at least (moving + steps x message) / parts under way; with Simple, of which two are,
//             half of a message passes at each step in a node; with LL and LL128, of which eight
//             are, messages but the first of a pass take their time beside what moves [derived]
//   tree      over nodes, a chain in each: base + hop x p (k - 1) + inter
//             + message x p log2(nodes). Moves 2 S in a node and at 0.92 of a ring's rate [NCCL].
//             Sums pass all of these stages in chunks (chunks.h), so that besides its transfer a
//             tree takes one chunk in each of them but the first of a pass [derived].
//             Two trees have a half each, so that of two nodes S leaves each, of three 1.5 S, of
//             more 2 S [derived]; that of two is reached where trees have all of their links.
//             The same without a second pass stands for NCCL's PAT of all-gather and
//             reduce-scatter, which it has for one GPU in each node, and for the pieces of a
//             broadcast. All-gathers and reduce-scatters of several GPUs in each node are rings
//             alone [NCCL]: their starts grow with the ranks
//   NVLS      all-reduce of over 4 GPUs in each node whose switches add up: nvls_base, then S at
//             the rate of NVLS and nvls_root x sqrt(k x moving), since each of the k members has a
//             part of its own that is cut into pieces [derived]; over nodes at 0.92 of that rate,
//             with two trees as above, which take one chunk in each of their levels
//   pairs     all-to-all: each part goes straight to its member, all at once, with constants of its
//             own. start: pair base + inter + per_node x (nodes - 2) + the longer of a message and
//             what a send over nodes takes longer than one in a node [assumed]; moves
//             S (k - 1 + own) / n at the pair rate of the family, and the k members of a node send
//             S k (n - k) / n out of it [derived]
//   shift     every member sends S to the next: start: base + hop + inter + message; in a node at
//             the rate of a ring's step, over the border at the rate of one member's way out
//             [assumed]
//   LL        low base and hop; in a node the rate times low_share, where it stands for LL128 as
//             well. Over the network half of its lines are flags and 20 to 30 GB/s the most. A
//             message takes per_node in a ring and per_log2 in a tree [NCCL]
//   LL128     over nodes: base, hops and messages longer than LL's, 15/16 of the rates, since eight
//             of 128 bytes are flags [NCCL], and at most what a channel reaches there [derived]
//   Simple    base and hop, the whole rate, and root x sqrt(moving): a transfer that is cut into
//             the best number of pieces takes T + 2 sqrt(T x hops x start of a piece) [derived];
//             messages longer than LL's [NCCL]
//   nodes     of what moves in a node and over its border at once, the slower counts
//
// Measured times of the device override it in one node, and over nodes where a profile brings some
// with as many ranks in each: the formula times measured over formula in the nearest measured
// group, between two measured sizes straight in its logarithm, beyond them as at the last. Over
// nodes the measured group counts as alone on an idle network, so that what shares the network
// slows a group as in the formula. Members that have only part of their fast links together, or
// none, run rings at the links' rates with the device's starts; measured times and NVLS are of
// whole links. Without a CollectiveProfile: rings and trees at the links' rates, started in
// collective_intra, without protocols and chunks.
// Left out: CollNet, registered buffers, several channels that differ.
#pragma once

#include <limits>
#include <string_view>

#include "hwprofiles/collective_profile.h"
#include "hwprofiles/hw_profile.h"
#include "planner/core/units.h"
#include "planner/program/job/collectives.h"
#include "planner/program/job/ops.h"

namespace zplan {

inline constexpr BytesPerSecond kUnlimited{std::numeric_limits<double>::infinity()};

struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::kAllReduce;
  Bytes bytes{};  // of the whole buffer
  int ranks = 1;
  int nodes = 1;                             // domains of fast links that hold a member
  BytesPerSecond local = kUnlimited;         // a ring's step in a node, by its links
  BytesPerSecond border = kUnlimited;        // what the group sends out of a node, by the network
  BytesPerSecond border_alone = kUnlimited;  // the same if nothing else used the network
  bool whole_links = true;  // the members of a node have all of their fast links together
  int ports = 8;            // of a node to the network
};

struct CollectiveTime {
  Seconds latency{};   // before the first byte
  Seconds transfer{};  // the rest
  Bytes moved{};       // over the peer link of each rank, each way
  Bytes crossing{};    // out of each node
  std::string_view method = "alone";

  Seconds total() const { return latency + transfer; }
};

// What each of n ranks sends: in a ring [Patarasuk09]; of an all-to-all all but its own part; of a
// shift all.
Bytes sent_bytes(CollectiveKind kind, Bytes full, int ranks);

// By the formula alone. `profile` may be null.
CollectiveTime collective_formula(const CollectiveCall& call, const CollectiveProfile* profile,
                                  const LatencyProfile& latency);

// By measured times where there are.
CollectiveTime collective_time(const CollectiveCall& call, const CollectiveProfile* profile,
                               const LatencyProfile& latency);

}  // namespace zplan
