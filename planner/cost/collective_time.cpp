#include "planner/cost/collective_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "planner/core/error.h"

namespace zplan {
namespace {

constexpr double kTreeShare = 0.92;         // [NCCL] of a ring's rate
constexpr double kLineShare = 120.0 / 128;  // [NCCL] data in a line of LL128
constexpr int kLeastNvls = 5;  // [derived] GPUs of a node: the tables show rings up to 4
constexpr double kMicro = 1e-6;
// [NCCL] Parts of a ring that are under way at once on the network: of NCCL_STEPS = 8 slots a part
// takes ALLGATHER_CHUNKSTEPS = 4 with Simple and one with LL128. A slot is free again after the
// time of a message (hwLat of rings over networks).
constexpr double kSimpleParts = 2, kLowParts = 8;
constexpr Seconds kSimpleMessage{14e-6}, kLowMessage{4e-6};

// The parts of a call that all algorithms use.
struct Shape {
  double bytes;
  int n, nodes, k;  // ranks, nodes, most of the ranks in one
  double passes;
  bool rooted, reduces_all;

  explicit Shape(const CollectiveCall& call)
      : bytes(static_cast<double>(call.bytes.value)),
        n(call.ranks),
        nodes(call.nodes),
        k(static_cast<int>(ceil_div(call.ranks, call.nodes))),
        passes(sums_for_all(call.kind) ? 2 : 1),
        rooted(has_root(call.kind)),
        reduces_all(sums_for_all(call.kind)) {}
  double levels() const { return std::log2(static_cast<double>(nodes)); }
};

enum class Protocol { kLow, kSimple };

// Considers one way after the other and keeps the fastest.
class Choice {
 public:
  Choice(const CollectiveCall& call, const CollectiveConstants& constants,
         const LatencyProfile& latency)
      : call_(call), shape_(call), c_(constants), latency_(latency) {}

  CollectiveTime best() {
    for (const Protocol protocol : {Protocol::kLow, Protocol::kSimple}) {
      if (protocol == Protocol::kLow && only_simple()) continue;
      if (exchanges(call_.kind)) {
        pairs(protocol);
        continue;
      }
      if (shifts(call_.kind)) {
        neighbours(protocol);
        continue;
      }
      ring(protocol);
      if (shape_.nodes > 1 && has_tree()) tree(protocol);
    }
    if (shape_.reduces_all && sums_in_switches() && call_.whole_links && shape_.k >= kLeastNvls)
      nvls();
    return best_;
  }

 private:
  void ring(Protocol protocol) {
    const double crossings = shape_.passes * (shape_.nodes - 1);
    const double steps = shape_.passes * (shape_.n - 1);
    const double own = shape_.reduces_all ? c_.own_all_reduce : c_.own;
    const double moved = shape_.rooted ? 1.0 : (steps + own) / shape_.n;
    Seconds start = start_of(protocol, steps - crossings);
    if (shape_.nodes > 1)
      start += latency_.collective_inter + (latency_.per_node + latency_.transport) * crossings;
    const double sent = shape_.rooted ? 1.0 : steps / shape_.n;
    const double parts = shape_.rooted ? 0 : steps;  // in pieces, of which many are under way
    offer(protocol, start, {local(moved), in_slots(protocol, border(sent), parts)}, {sent, sent},
          {"ring LL128", "ring Simple", "ring LL128 over nodes", "ring Simple over nodes"},
          of_rings());
  }

  void tree(Protocol protocol) {
    const double own = shape_.reduces_all ? c_.own_all_reduce : c_.own;
    const double sent = shape_.reduces_all || shape_.rooted
                            ? shape_.passes
                            : static_cast<double>(shape_.n - 1) / shape_.n;
    const double moved = shape_.rooted ? 1.0 : sent + own / shape_.n;
    // [NCCL] A channel of a tree has at most half of its links where switches add up.
    const bool by_halves = shape_.reduces_all && !sums_in_switches();
    const double out = by_halves ? sent * of_two_trees() : sent;
    const Seconds start = start_of(protocol, shape_.passes * (shape_.k - 1)) + tree_start();
    offer(protocol, start, {local(moved / kTreeShare), border(out / kTreeShare)}, {sent, out},
          {"", "", "tree LL128 over nodes", "tree Simple over nodes"}, of_rings());
  }

  void pairs(Protocol protocol) {
    const double near = static_cast<double>(shape_.k - 1) / shape_.n;
    const double out = static_cast<double>(shape_.n - shape_.k) / shape_.n * shape_.k;
    Seconds start = protocol == Protocol::kLow ? c_.pair_low_base : c_.pair_base;
    if (shape_.nodes > 1)
      start += latency_.collective_inter + latency_.transport + latency_.per_node * others();
    const Seconds in_node = at_rate(near + c_.pair_own / shape_.n, c_.pair_rates);
    offer(protocol, start, {in_node, border(out)}, {near, out},
          {"pairs LL128", "pairs Simple", "pairs LL128 over nodes", "pairs Simple over nodes"},
          {c_.pair_low_share, shape_.nodes > 1 ? c_.root : c_.pair_root});  // [assumed] as rings
  }

  // To the next member, over the border or not.
  void neighbours(Protocol protocol) {
    const bool far = shape_.nodes > 1;
    Seconds start = start_of(protocol, 1);
    if (far) start += latency_.collective_inter + latency_.transport;
    const double near = shape_.k > 1 ? 1 : 0;
    offer(protocol, start, {local(near), border(1)}, {near, far ? 1.0 : 0.0},
          {"shift LL128", "shift Simple", "shift LL128 over nodes", "shift Simple over nodes"},
          of_rings());
  }

  void nvls() {
    const double sent = 1 + 1.0 / shape_.k;
    const Seconds moving{shape_.bytes / c_.nvls.value};
    const Seconds pieces = in_pieces(c_.nvls_root, moving * shape_.k);
    if (shape_.nodes == 1) {
      keep(c_.nvls_base, moving + pieces, {sent, sent}, "NVLS");
      return;
    }
    const double out = shape_.passes * of_two_trees();
    keep(c_.nvls_base + tree_start(), std::max(moving / kTreeShare, border(out)) + pieces,
         {sent, out}, "NVLS tree over nodes");
  }

  // Returns true if switches of these links add up, for this group or only for larger ones.
  bool sums_in_switches() const { return c_.nvls.value > 0; }
  Seconds start_of(Protocol protocol, double hops) const {
    return protocol == Protocol::kLow ? c_.low_base + c_.low_hop * hops : c_.base + c_.hop * hops;
  }
  Seconds tree_start() const {
    return latency_.collective_inter +
           (latency_.per_log2_nodes + latency_.transport) * (shape_.passes * shape_.levels());
  }
  bool only_simple() const { return shape_.nodes > 1 && latency_.transport.value > 0; }
  // [NCCL] All-gathers and reduce-scatters have none (PAT) where a node holds several ranks.
  bool has_tree() const { return shape_.reduces_all || shape_.rooted || shape_.k == 1; }
  // Of a ring over the border: the rate of the network, or the time until slots are free again.
  Seconds in_slots(Protocol protocol, Seconds moving, double parts) const {
    if (shape_.nodes == 1) return moving;
    const bool low = protocol == Protocol::kLow;
    const Seconds message = (low ? kLowMessage : kSimpleMessage) + latency_.transport;
    return std::max(moving, (moving + message * parts) / (low ? kLowParts : kSimpleParts));
  }
  double others() const { return shape_.nodes - 1; }
  // Returns the part of a pass that leaves the busiest node. [derived] Each of two trees has a half
  // of the buffer [NCCL]: of four nodes and more one is a leaf of the one and has a parent and two
  // children in the other; of two each is the root of one tree and a leaf of the other.
  double of_two_trees() const { return std::min(shape_.nodes, 4) / 4.0; }
  // The time of `share` of the buffer at the rate of a group of so many: between the measured ones
  // straight over log2 of their size.
  Seconds at_rate(double share, const std::array<BytesPerSecond, 3>& rates) const {
    if (shape_.k == 1) return {};
    const double x = std::clamp(std::log2(static_cast<double>(shape_.k)) - 1, 0.0, 2.0);
    const auto below = static_cast<std::size_t>(x >= 1);
    const double part = x - static_cast<double>(below);
    const BytesPerSecond rate = rates[below] * (1 - part) + rates[below + 1] * part;
    return {share * shape_.bytes / rate.value};
  }
  Seconds local(double share) const { return at_rate(share, c_.rates); }
  Seconds border(double share) const {
    return {shape_.nodes == 1 ? 0.0 : share * shape_.bytes / call_.border.value};
  }

  struct Moving {
    Seconds in_node, between;
  };
  // Of the buffer: over the peer link of each rank, and out of each node.
  struct Sent {
    double by_rank, by_node;
  };
  struct Names {
    std::string_view low, simple, low_nodes, simple_nodes;
  };
  struct Form {
    double low_share, root;
  };
  Form of_rings() const { return {c_.low_share, c_.root}; }
  static Seconds in_pieces(double root, Seconds moving) {
    return {root * kMicro * std::sqrt(moving.value / kMicro)};
  }
  void offer(Protocol protocol, Seconds start, Moving moving, Sent sent, const Names& names,
             Form form) {
    const bool low = protocol == Protocol::kLow, far = shape_.nodes > 1;
    if (low) {
      const Seconds slower = std::max(moving.in_node / form.low_share, moving.between / kLineShare);
      keep(start, slower, sent, far ? names.low_nodes : names.low);
      return;
    }
    const Seconds slower = std::max(moving.in_node, moving.between);
    keep(start, slower + in_pieces(form.root, slower), sent,
         far ? names.simple_nodes : names.simple);
  }

  void keep(Seconds latency, Seconds transfer, Sent sent, std::string_view method) {
    if (best_.method != "alone" && best_.total() <= latency + transfer) return;
    const auto whole = [&](double share) {
      return Bytes{static_cast<std::int64_t>(std::llround(share * shape_.bytes))};
    };
    best_ = {latency, transfer, shape_.k > 1 ? whole(sent.by_rank) : Bytes{},
             shape_.nodes > 1 ? whole(sent.by_node) : Bytes{}, method};
  }

  const CollectiveCall& call_;
  const Shape shape_;
  const CollectiveConstants& c_;
  const LatencyProfile& latency_;
  CollectiveTime best_;
};

// One start, all of the links' rates.
CollectiveTime ideal_ring(const CollectiveCall& call, const LatencyProfile& latency) {
  CollectiveConstants links;
  links.low_base = links.base = latency.collective_intra;
  links.pair_low_base = links.pair_base = latency.collective_intra;
  links.rates.fill(call.local);
  links.pair_rates.fill(call.local);
  CollectiveTime time = Choice(call, links, latency).best();
  const bool far = call.nodes > 1;
  if (exchanges(call.kind)) {
    time.method = far ? "pairs over nodes" : "pairs";
  } else if (shifts(call.kind)) {
    time.method = far ? "shift over nodes" : "shift";
  } else {
    const bool tree = time.method.starts_with("tree");
    time.method = !far ? "ring" : tree ? "tree over nodes" : "ring over nodes";
  }
  return time;
}

// Returns what the formula's time is multiplied by to be the measured one. Between two measured
// sizes the factor lies between theirs, straight in log over log(bytes): the formula knows where
// protocols change.
double measured_factor(const CollectiveCall& call, const CollectiveProfile& profile,
                       const LatencyProfile& latency) {
  const auto kind = find_measured_collective(name(call.kind));  // else the formula alone
  if (!kind) return 1;
  MeasuredGroup group{*kind, call.ranks, call.nodes};
  const CollectiveCurve* curve = profile.nearest(group);
  if (curve == nullptr || call.bytes.value == 0) return 1;
  CollectiveCall nearest = call;
  nearest.ranks = group.ranks;
  nearest.nodes = group.nodes;
  nearest.border = call.border_alone;
  const auto factor_at = [&](double bytes) {
    nearest.bytes = {std::llround(bytes)};
    const double formula = collective_formula(nearest, &profile, latency).total().value;
    return curve->at(bytes).value / formula;
  };
  const auto [before, after, part] = curve->around(static_cast<double>(call.bytes.value));
  const double first = factor_at(before);
  return part == 0 ? first : first * std::pow(factor_at(after) / first, part);
}

}  // namespace

Bytes sent_bytes(CollectiveKind kind, Bytes full, int ranks) {
  if (has_root(kind) || shifts(kind)) return full;
  const Bytes once = full * (ranks - 1) / ranks;
  return sums_for_all(kind) ? once * 2 : once;
}

CollectiveTime collective_formula(const CollectiveCall& call, const CollectiveProfile* profile,
                                  const LatencyProfile& latency) {
  if (call.ranks == 1) return {};
  if (profile == nullptr) return ideal_ring(call, latency);
  if (profile->own_constants && call.whole_links)
    return Choice(call, profile->constants, latency).best();
  CollectiveConstants limited = profile->constants;
  for (BytesPerSecond& rate : limited.rates) rate = std::min(rate, call.local);
  for (BytesPerSecond& rate : limited.pair_rates) rate = std::min(rate, call.local);
  return Choice(call, limited, latency).best();
}

CollectiveTime collective_time(const CollectiveCall& call, const CollectiveProfile* profile,
                               const LatencyProfile& latency) {
  CollectiveTime time = collective_formula(call, profile, latency);
  if (profile == nullptr || call.ranks == 1 || !call.whole_links) return time;
  const double factor = measured_factor(call, *profile, latency);
  time.latency = time.latency * factor;
  time.transfer = time.transfer * factor;
  return time;
}

}  // namespace zplan
