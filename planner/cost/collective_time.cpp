#include "planner/cost/collective_time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "planner/core/error.h"
#include "planner/cost/chunks.h"

namespace zplan {
namespace {

constexpr double kTreeShare = 0.92;         // [NCCL] of a ring's rate
constexpr double kLineShare = 120.0 / 128;  // [NCCL] data in a line of LL128
constexpr double kLowShare = 0.5;           // [NCCL] data in a line of LL
constexpr int kLeastNvls = 5;  // [derived] GPUs of a node: the tables show rings up to 4
constexpr double kMicro = 1e-6;
// [NCCL] Parts of a ring that are under way at once on the network: of NCCL_STEPS = 8 slots a part
// takes ALLGATHER_CHUNKSTEPS = 4 with Simple and one with LL and LL128. A slot is free again after
// the time of a message.
constexpr double kSimpleParts = 2, kLowParts = 8;
constexpr int kMostChannels = 64;  // [NCCL]
// [NCCL src/graph/tuning.cc] What LL reaches over the network: 39 GB/s on two nodes with Intel's
// processors and 22.5 with AMD's, whose geometric mean this is; 19 to 20 on more nodes.
constexpr BytesPerSecond kLowOfTwo{30e9}, kLowOfMore{20e9};
// [derived] What LL128 reaches in a channel over the network: an all-gather of 64 MiB on 16 GPUs
// with 16 channels and 400 GB/s to the network takes 241 us more than one of 1 KiB (Google Cloud
// cluster-toolkit, A3 Ultra).
constexpr BytesPerSecond kLineChannel{16.3e9};

// [NCCL src/graph/tuning.cc, baseLat and hwLat] What a protocol takes longer than LL does: at its
// start and per message between nodes. Families have starts of their own for Simple.
struct Later {
  Seconds start{}, ring_message{}, tree_message{};
};
constexpr Later kLineLater{{7.4e-6}, {1.3e-6}, {3.5e-6}};
constexpr Later kSimpleLater{{}, {11.3e-6}, {9e-6}};
// [NCCL] Least hops of LL128 in a node: those of families are of LL and LL128 together.
constexpr Seconds kLineRingHop{1.9e-6}, kLineTreeHop{1.25e-6};
constexpr Seconds kNvlsMessageLater{15.9e-6};

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
  // Returns the part of a pass that leaves the busiest node. [derived] Each of two trees has a half
  // of the buffer [NCCL]: of four nodes and more one is a leaf of the one and has a parent and two
  // children in the other; of two each is the root of one tree and a leaf of the other.
  double of_two_trees() const { return std::min(nodes, 4) / 4.0; }
};

// Considers one way after the other and keeps the fastest.
class Choice {
 public:
  Choice(const CollectiveCall& call, const CollectiveConstants& constants,
         const LatencyProfile& latency)
      : call_(call), shape_(call), c_(constants), latency_(latency) {}

  CollectiveTime best() {
    for (const Protocol protocol : {Protocol::kLow, Protocol::kLine, Protocol::kSimple}) {
      if (!has(protocol)) continue;
      if (exchanges(call_.kind)) {
        if (protocol != Protocol::kLine) pairs(protocol);
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
    Seconds start = start_of(protocol) + ring_hop(protocol) * (steps - crossings);
    const double ahead = protocol == Protocol::kSimple || c_.plain ? crossings : shape_.passes;
    if (shape_.nodes > 1) start += latency_.collective_inter + ring_message(protocol) * ahead;
    const double sent = shape_.rooted ? 1.0 : steps / shape_.n;
    Seconds between = border(protocol, sent);
    // A rooted one is sent in pieces, of which many are under way.
    if (!shape_.rooted) between = in_slots(protocol, between, {steps, crossings, ahead});
    offer(start, in_pieces(protocol, slower(protocol, {local(moved), between})), {sent, sent},
          {"ring LL128", "ring LL over nodes", "ring LL128 over nodes", "ring Simple",
           "ring Simple over nodes"},
          protocol);
  }

  void tree(Protocol protocol) {
    const double own = shape_.reduces_all ? c_.own_all_reduce : c_.own;
    const double sent = shape_.reduces_all || shape_.rooted
                            ? shape_.passes
                            : static_cast<double>(shape_.n - 1) / shape_.n;
    const double moved = shape_.rooted ? 1.0 : sent + own / shape_.n;
    // [NCCL] A channel of a tree has at most half of its links where switches add up.
    const bool by_halves = shape_.reduces_all && !sums_in_switches();
    const double out = by_halves ? sent * shape_.of_two_trees() : sent;
    const Seconds start = start_of(protocol) + tree_hop(protocol) * hops_of_chains() +
                          latency_.collective_inter + tree_message(protocol) * levels();
    const Seconds slowest =
        slower(protocol, {local(moved / kTreeShare), border(protocol, out / kTreeShare)});
    offer(start, shape_.reduces_all ? slowest + filling(protocol) : in_pieces(protocol, slowest),
          {sent, out},
          {"", "tree LL over nodes", "tree LL128 over nodes", "", "tree Simple over nodes"},
          protocol);
  }

  void pairs(Protocol protocol) {
    const bool low = protocol == Protocol::kLow, far = shape_.nodes > 1;
    const double near = static_cast<double>(shape_.k - 1) / shape_.n;
    const double out = static_cast<double>(shape_.n - shape_.k) / shape_.n * shape_.k;
    Seconds start = low ? c_.pair_low_base : c_.pair_base;
    if (far)
      start += latency_.collective_inter + std::max(ring_message(protocol), later_of_sends()) +
               latency_.per_node * (shape_.nodes - 2);
    const Seconds in_node = at_rate(near + c_.pair_own / shape_.n, c_.pair_rates);
    const Seconds between{far ? out * shape_.bytes / call_.border.value : 0.0};
    const Seconds moving = low ? std::max(in_node / c_.pair_low_share, between / kLineShare)
                               : std::max(in_node, between);
    const double root = far ? c_.root : c_.pair_root;  // [assumed] over nodes as rings
    offer(start, low ? moving : moving + pieces(root, moving), {near, out},
          {"pairs LL128", "pairs LL128 over nodes", "", "pairs Simple", "pairs Simple over nodes"},
          protocol);
  }

  // To the next member, over the border or not.
  void neighbours(Protocol protocol) {
    const bool far = shape_.nodes > 1;
    Seconds start = start_of(protocol) + ring_hop(protocol);
    if (far) start += latency_.collective_inter + ring_message(protocol);
    const double near = shape_.k > 1 ? 1 : 0;
    const Moving moving{local(near), border(protocol, far ? 1 : 0)};
    offer(start, in_pieces(protocol, slower(protocol, moving)), {near, far ? 1.0 : 0.0},
          {"shift LL128", "shift LL over nodes", "shift LL128 over nodes", "shift Simple",
           "shift Simple over nodes"},
          protocol);
  }

  void nvls() {
    const double sent = 1 + 1.0 / shape_.k;
    const Seconds moving{shape_.bytes / c_.nvls.value};
    const Seconds cutting = pieces(c_.nvls_root, moving * shape_.k);
    if (shape_.nodes == 1) {
      keep(c_.nvls_base, moving + cutting, {sent, sent}, "NVLS");
      return;
    }
    const double out = shape_.passes * shape_.of_two_trees();
    const double chunks =
        share_of(nvls_chunks(shape_.bytes, shape_.nodes, shape_.k, c_.nvls_channels));
    const Seconds in_node = moving / kTreeShare + cutting;
    // [derived] Each of two trees sends a half of the chunks over its levels.
    const Seconds filled = border(Protocol::kSimple, chunks * levels() / 2);
    const Seconds message = latency_.per_log2_nodes + kNvlsMessageLater + latency_.transport;
    keep(c_.nvls_base + latency_.collective_inter + message * levels(),
         std::max(in_node, border(Protocol::kSimple, out)) + filled, {sent, out},
         "NVLS tree over nodes");
  }

  // Returns true if switches of these links add up, for this group or only for larger ones.
  bool sums_in_switches() const { return c_.nvls.value > 0; }
  // In one node LL stands for LL128 as well. A slow transport has Simple alone.
  bool has(Protocol protocol) const {
    if (protocol == Protocol::kSimple) return true;
    if (shape_.nodes == 1) return protocol == Protocol::kLow;
    return !c_.plain && latency_.transport.value == 0;
  }
  // [NCCL] All-gathers and reduce-scatters have none (PAT) where a node holds several ranks.
  bool has_tree() const { return shape_.reduces_all || shape_.rooted || shape_.k == 1; }

  // ---- starts ----

  const Later& later(Protocol protocol) const {
    static constexpr Later kNone;
    if (protocol == Protocol::kLow || c_.plain) return kNone;
    return protocol == Protocol::kLine ? kLineLater : kSimpleLater;
  }
  Seconds start_of(Protocol protocol) const {
    return (protocol == Protocol::kSimple ? c_.base : c_.low_base) + later(protocol).start;
  }
  Seconds hop(Protocol protocol) const {
    return protocol == Protocol::kSimple ? c_.hop : c_.low_hop;
  }
  Seconds hop(Protocol protocol, Seconds least_of_lines) const {
    return protocol == Protocol::kLine ? std::max(hop(protocol), least_of_lines) : hop(protocol);
  }
  Seconds ring_hop(Protocol protocol) const { return hop(protocol, kLineRingHop); }
  Seconds tree_hop(Protocol protocol) const { return hop(protocol, kLineTreeHop); }
  Seconds ring_message(Protocol protocol) const {
    return latency_.per_node + latency_.transport + later(protocol).ring_message;
  }
  Seconds tree_message(Protocol protocol) const {
    return latency_.per_log2_nodes + latency_.transport + later(protocol).tree_message;
  }
  // Returns what a send over nodes takes longer than one in a node.
  Seconds later_of_sends() const {
    return latency_.p2p_inter - latency_.p2p_intra + latency_.transport;
  }
  double levels() const { return shape_.passes * shape_.levels(); }
  double hops_of_chains() const { return shape_.passes * (shape_.k - 1); }

  // ---- transfers ----

  struct Moving {
    Seconds in_node, between;
  };
  // These are steps of a ring: all, those between nodes, and those whose messages its start counts.
  struct Steps {
    double all, crossing, ahead;
  };
  // In one node LL128's share of the rate is fitted together with LL's.
  double share_in_node(Protocol protocol) const {
    if (protocol == Protocol::kSimple) return 1;
    return protocol == Protocol::kLow ? c_.low_share : kLineShare;
  }
  Seconds slower(Protocol protocol, Moving moving) const {
    return std::max(moving.in_node / share_in_node(protocol), moving.between);
  }
  static Seconds pieces(double root, Seconds moving) {
    return {root * kMicro * std::sqrt(moving.value / kMicro)};
  }
  // Simple's pieces have a start each.
  Seconds in_pieces(Protocol protocol, Seconds moving) const {
    return protocol == Protocol::kSimple ? moving + pieces(c_.root, moving) : moving;
  }
  // A ring over the border is held up by the rate of the network, or until slots are free again.
  // [derived] With Simple, of whose parts two are under way, half of a message also passes at each
  // step in a node before the next part goes: all-gathers on 128 to 512 B200 take their transfer
  // and 12 to 14 us for each of their steps (tests/data/collectives), half of which are hops.
  // With LL and LL128, of whose parts eight are under way, messages pass while parts move, all but
  // the first of a pass.
  Seconds in_slots(Protocol protocol, Seconds moving, Steps count) const {
    if (shape_.nodes == 1 || c_.plain) return moving;
    const Seconds message = ring_message(protocol);
    if (protocol == Protocol::kSimple)
      return moving + message * (count.all - count.crossing) / kSimpleParts;
    return std::max({moving, (moving + message * count.all) / kLowParts,
                     message * (count.crossing - count.ahead)});
  }
  // The first chunk of a tree for sums passes all of its stages but those that a pass begins with.
  Seconds filling(Protocol protocol) const {
    const double chunks =
        share_of(tree_chunks(protocol, shape_.bytes, shape_.nodes, shape_.k, channels()));
    const double hops = std::max(0.0, hops_of_chains() - shape_.passes);
    return local(hops * chunks) / share_in_node(protocol) + border(protocol, levels() * chunks);
  }
  double share_of(double bytes) const { return shape_.bytes > 0 ? bytes / shape_.bytes : 0; }
  // [NCCL src/graph/connect.cc] Two for each port that a node's members use, and twice as many of
  // GPUs from compute capability 9 on, whose switches add up, where these are fewer than 16.
  int channels() const {
    constexpr int kMany = 16;
    const int of_ports = 2 * std::max(1, std::min(call_.ports, shape_.k));
    return std::min(sums_in_switches() && of_ports < kMany ? 2 * of_ports : of_ports,
                    kMostChannels);
  }
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
  BytesPerSecond border_rate(Protocol protocol) const {
    if (protocol == Protocol::kLow)
      return std::min(call_.border * kLowShare, shape_.nodes == 2 ? kLowOfTwo : kLowOfMore);
    if (protocol == Protocol::kLine)
      return std::min(call_.border * kLineShare, kLineChannel * channels());
    return call_.border;
  }
  Seconds border(Protocol protocol, double share) const {
    return {shape_.nodes == 1 ? 0.0 : share * shape_.bytes / border_rate(protocol).value};
  }

  // Of the buffer: over the peer link of each rank, and out of each node.
  struct Sent {
    double by_rank, by_node;
  };
  struct Names {
    std::string_view low, low_nodes, line_nodes, simple, simple_nodes;
  };
  void offer(Seconds start, Seconds transfer, Sent sent, const Names& names, Protocol protocol) {
    const bool far = shape_.nodes > 1;
    const std::string_view low = far ? names.low_nodes : names.low;
    const std::string_view simple = far ? names.simple_nodes : names.simple;
    keep(start, transfer, sent,
         protocol == Protocol::kSimple ? simple
         : protocol == Protocol::kLine ? names.line_nodes
                                       : low);
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
  links.plain = true;
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
