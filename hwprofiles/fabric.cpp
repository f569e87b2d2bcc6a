#include "hwprofiles/fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "planner/core/error.h"

namespace zplan {
namespace {

// [assumed] All rules together stay below these; more would take minutes to read.
constexpr std::int64_t kMostSwitches = 200'000, kMostLinks = 4'000'000, kMostTried = 50'000'000;

std::size_t index_of(VertexId id) { return static_cast<std::size_t>(id.index); }

std::string named(const std::string& set, const std::vector<int>& indices) {
  return indices.empty() ? set : fmt::format("{}[{}]", set, fmt::join(indices, ","));
}

std::string port_name(int node, int port) { return fmt::format("node[{}].port[{}]", node, port); }

std::pair<std::string, std::string> ordered(std::string a, std::string b) {
  return a < b ? std::pair{std::move(a), std::move(b)} : std::pair{std::move(b), std::move(a)};
}

}  // namespace

// Puts the links of a cluster's network together.
class Fabric::Builder {
 public:
  Builder(Fabric& fabric, const Cluster& cluster)
      : fabric_(fabric),
        cluster_(cluster),
        port_rate_(cluster.node.topology.nic.effective()),
        ports_(cluster.node.topology.nics()) {
    fabric.ports_per_node_ = ports_;
    fabric.ports_.resize(static_cast<std::size_t>(cluster.nodes) *
                         static_cast<std::size_t>(ports_));
  }

  // [derived] A ring passes over one spine switch or another, all of which are alike.
  void leaves_and_spine() {
    const NetworkSpec& network = cluster_.network;
    const int rails = network.rails ? ports_ : 1;
    const double ports = static_cast<double>(ports_) / rails;
    const BytesPerSecond uplinks =
        port_rate_ * (ports * network.nodes_per_leaf / network.oversubscription);
    const VertexId spine = fabric_.graph_.add_vertex("spine", VertexKind::kSwitch, 0);
    const std::size_t up = fabric_.kind_of("leaf uplink"), down = fabric_.kind_of("leaf downlink");
    std::vector<VertexId> switches;
    for (int i = 0; i < network.leaves(cluster_.nodes) * rails; ++i) {
      const std::string name =
          fmt::format("leaf{}{}", i / rails, rails > 1 ? fmt::format(" rail{}", i % rails) : "");
      const VertexId leaf = fabric_.graph_.add_vertex(name, VertexKind::kSwitch, i + 1);
      switches.push_back(leaf);
      fabric_.add_link(leaf, spine, uplinks, 1, up, name + " up");
      fabric_.add_link(spine, leaf, uplinks, 1, down, name + " down");
    }
    for (int node = 0; node < cluster_.nodes; ++node)
      for (int port = 0; port < ports_; ++port) {
        const int leaf = network.leaf_of(node, cluster_.nodes);
        const int rail = network.rails ? port : 0;
        port_at(node, port) = switches[static_cast<std::size_t>(leaf * rails + rail)];
      }
  }

  void graph(const NetworkRules& rules) {
    rules_ = &rules;
    for (const WeakLink& weak : rules.weak) weak_[ordered(weak.from, weak.to)] = weak.share;
    for (const SwitchSet& set : rules.switches) add_switches(set);
    for (const LinkRule& rule : rules.links) add_links(rule);
    if (!weak_.empty()) {
      const auto& [ends, share] = *weak_.begin();
      throw_bad_input(
          fmt::format("expected links among those that the rules make, got a weak one "
                      "between {} and {}",
                      ends.first, ends.second));
    }
  }

 private:
  // The first switch of a set; the others follow, the last index fastest.
  struct Set {
    const SwitchSet* set = nullptr;
    int first = 0;
  };
  struct End {
    VertexId at{};
    std::string name;
    bool is_port = false;
    int node = 0, port = 0;
  };

  VertexId& port_at(int node, int port) {
    return fabric_.ports_[static_cast<std::size_t>(node * ports_ + port)];
  }

  std::vector<int> shape_of(int set) const {
    if (set < 0) return {cluster_.nodes, ports_};
    return sets_[static_cast<std::size_t>(set)].set->shape;
  }

  void add_switches(const SwitchSet& set) {
    sets_.push_back({&set, static_cast<int>(fabric_.graph_.vertices().size())});
    std::int64_t count = 1;
    for (const int size : set.shape) count *= size;
    if (count + sets_.back().first > kMostSwitches)
      throw_bad_input(fmt::format("expected at most {} switches, got more", kMostSwitches));
    for (std::int64_t i = 0; i < count; ++i) {
      std::vector<int> indices(set.shape.size());
      std::int64_t rest = i;
      for (std::size_t axis = indices.size(); axis-- > 0; rest /= set.shape[axis])
        indices[axis] = static_cast<int>(rest % set.shape[axis]);
      fabric_.graph_.add_vertex(named(set.name, indices), VertexKind::kSwitch,
                                sets_.back().first + static_cast<int>(i));
    }
  }

  // Returns how far each name of the rule goes: as far as the sizes that it is an index of alone.
  std::vector<std::int64_t> ranges(const LinkRule& rule) const {
    std::vector<std::int64_t> ranges(rule.names.size(), 0);
    for (const LinkEnd* end : {&rule.from, &rule.to}) {
      const std::vector<int> shape = shape_of(end->set);
      for (std::size_t axis = 0; axis < shape.size(); ++axis) {
        const int name = end->indices[axis].only_name();
        if (name < 0) continue;
        std::int64_t& range = ranges[static_cast<std::size_t>(name)];
        if (range != 0 && range != shape[axis])
          throw_bad_input(fmt::format("expected one range for {}, got {} and {}",
                                      rule.names[static_cast<std::size_t>(name)], range,
                                      shape[axis]));
        range = shape[axis];
      }
    }
    for (std::size_t i = 0; i < ranges.size(); ++i)
      if (ranges[i] == 0)
        throw_bad_input(
            fmt::format("expected {} as an index by itself in one of the ends", rule.names[i]));
    return ranges;
  }

  void add_links(const LinkRule& rule) {
    const std::vector<std::int64_t> most = ranges(rule);
    for (const std::int64_t range : most) {
      tried_ *= range;
      if (tried_ > kMostTried)
        throw_bad_input(fmt::format("expected rules of at most {} links to look at", kMostTried));
    }
    tried_ = 1;
    std::vector<std::int64_t> values(most.size(), 0);
    while (true) {
      if (!rule.where || rule.where->at(values) != 0) add_one(rule, values);
      std::size_t name = values.size();
      while (name > 0 && ++values[name - 1] == most[name - 1]) values[--name] = 0;
      if (name == 0) return;
    }
  }

  End end_of(const LinkEnd& end, const std::vector<std::int64_t>& values) const {
    const std::vector<int> shape = shape_of(end.set);
    std::vector<int> indices;
    std::int64_t at = 0;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      const std::int64_t index = end.indices[axis].at(values);
      if (index < 0 || index >= shape[axis])
        throw_bad_input(fmt::format("expected an index from 0 to {} by \"{}\", got {}",
                                    shape[axis] - 1, end.indices[axis].text(), index));
      indices.push_back(static_cast<int>(index));
      at = at * shape[axis] + index;
    }
    if (end.set < 0)
      return {.name = port_name(indices[0], indices[1]),
              .is_port = true,
              .node = indices[0],
              .port = indices[1]};
    const Set& set = sets_[static_cast<std::size_t>(end.set)];
    return {{set.first + static_cast<int>(at)}, named(set.set->name, indices)};
  }

  // Returns what is left of the link's rate.
  double share_of(const End& a, const End& b) {
    const auto weak = weak_.find(ordered(a.name, b.name));
    if (weak == weak_.end()) return 1;
    const double share = weak->second;
    weak_.erase(weak);
    return share;
  }

  void add_one(const LinkRule& rule, const std::vector<std::int64_t>& values) {
    End a = end_of(rule.from, values), b = end_of(rule.to, values);
    if (a.is_port && b.is_port)
      throw_bad_input(fmt::format("expected a switch between {} and {}", a.name, b.name));
    if (b.is_port) std::swap(a, b);
    const double share = share_of(a, b);
    if (a.is_port) return hang(a, b, share);
    if (a.at == b.at) throw_bad_input(fmt::format("expected another end than {} for it", a.name));
    if (share > 0) connect(a, b, rule.rate.effective() * share, rule);
    if (static_cast<std::int64_t>(fabric_.graph_.links().size()) > kMostLinks)
      throw_bad_input(fmt::format("expected at most {} links, got more", kMostLinks));
  }

  void connect(const End& a, const End& b, BytesPerSecond cable, const LinkRule& rule) {
    const auto set_name = [this](const LinkEnd& end) {
      return sets_[static_cast<std::size_t>(end.set)].set->name;
    };
    const std::string from = set_name(rule.from), to = set_name(rule.to);
    const std::size_t forth = fabric_.kind_of(from + " to " + to);
    const std::size_t back = fabric_.kind_of(to + " to " + from);
    const BytesPerSecond rate = cable * rule.cables;
    const bool by_rate = rules_->spreading == Spreading::kByRates;
    const double weight = by_rate ? rate.value : rule.cables;
    fabric_.add_link(a.at, b.at, rate, weight, forth, a.name + '>' + b.name);
    fabric_.add_link(b.at, a.at, rate, weight, back, b.name + '>' + a.name);
  }

  // A port that carries less than its rate is a switch of its own on the way.
  void hang(const End& port, const End& at, double share) {
    VertexId& seat = port_at(port.node, port.port);
    if (seat.index >= 0)
      throw_bad_input(fmt::format("expected {} on one switch, got {} and {}", port.name,
                                  fabric_.graph_.vertex(seat).name, at.name));
    seat = at.at;
    if (share == 1) return;
    if (share == 0)
      throw_bad_input(fmt::format("expected a link of {} that carries something", port.name));
    seat = fabric_.graph_.add_vertex(port.name, VertexKind::kSwitch, 0);
    const BytesPerSecond rate = port_rate_ * share;
    fabric_.add_link(seat, at.at, rate, 1, fabric_.kind_of("weak port out"),
                     port.name + '>' + at.name);
    fabric_.add_link(at.at, seat, rate, 1, fabric_.kind_of("weak port in"),
                     at.name + '>' + port.name);
  }

  Fabric& fabric_;
  const Cluster& cluster_;
  const BytesPerSecond port_rate_;
  const int ports_;
  const NetworkRules* rules_ = nullptr;
  std::vector<Set> sets_;
  std::map<std::pair<std::string, std::string>, double> weak_;  // not met yet
  std::int64_t tried_ = 1;
};

Fabric::Fabric(const Cluster& cluster) {
  Builder builder(*this, cluster);
  if (cluster.network.rules) {
    builder.graph(*cluster.network.rules);
  } else {
    builder.leaves_and_spine();
  }
  finish();
}

void Fabric::finish() {
  find_parts();
  check();
  find_direct();
}

void Fabric::find_parts() {
  parts_.assign(graph_.vertices().size(), -1);
  int count = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i] >= 0) continue;
    const std::vector<int> hops = graph_.hops_from({static_cast<std::int32_t>(i)});
    for (std::size_t j = 0; j < hops.size(); ++j)
      if (hops[j] >= 0) parts_[j] = count;
    ++count;
  }
}

std::size_t Fabric::kind_of(const std::string& name) {
  const auto found = std::find(kinds_.begin(), kinds_.end(), name);
  if (found != kinds_.end()) return static_cast<std::size_t>(found - kinds_.begin());
  kinds_.push_back(name);
  return kinds_.size() - 1;
}

void Fabric::add_link(VertexId from, VertexId to, BytesPerSecond rate, double weight,
                      std::size_t kind, std::string name) {
  graph_.add_link(from, to, {rate, 1}, std::move(name));
  facts_.push_back({kind, weight});
}

void Fabric::check() const {
  for (std::size_t i = 0; i < ports_.size(); ++i)
    if (ports_[i].index < 0)
      throw_bad_input(fmt::format(
          "expected {} on a switch, got none",
          port_name(static_cast<int>(i) / ports_per_node_, static_cast<int>(i) % ports_per_node_)));
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    const VertexId first = ports_[i % static_cast<std::size_t>(ports_per_node_)];
    if (!meet(first, ports_[i]))
      throw_bad_input(fmt::format("expected links from {} to {}, got no way",
                                  graph_.vertex(first).name, graph_.vertex(ports_[i]).name));
  }
}

void Fabric::find_direct() {
  std::map<VertexId, std::size_t> node_at;
  direct_ = true;
  for (std::size_t i = 0; i < ports_.size(); ++i) {
    const std::size_t node = i / static_cast<std::size_t>(ports_per_node_);
    const bool alone = node_at.try_emplace(ports_[i], node).first->second == node;
    const VertexId first = ports_[node * static_cast<std::size_t>(ports_per_node_)];
    direct_ = direct_ && alone && ports_[i] == first;
  }
}

// Returns a colour for each switch. They are split until all switches of one have equal links to
// each.
std::vector<int> Fabric::colours() const {
  using Link = std::tuple<int, std::size_t, double>;  // to which colour, kind, rate
  std::vector<int> colours(graph_.vertices().size(), 0);
  int count = 1;
  for (const VertexId port : std::set<VertexId>(ports_.begin(), ports_.end()))
    colours[index_of(port)] = count++;
  while (true) {
    std::map<std::pair<int, std::map<Link, double>>, int> known;
    std::vector<int> next;
    for (std::size_t i = 0; i < colours.size(); ++i) {
      std::map<Link, double> links;  // of how much weight
      for (const LinkId id : graph_.links_of({static_cast<std::int32_t>(i)})) {
        const int there = colours[index_of(graph_.link(id).to)];
        links[{there, facts(id).kind, graph_.link(id).capacity.value}] += facts(id).weight;
      }
      const auto next_colour = static_cast<int>(known.size());
      next.push_back(known.try_emplace({colours[i], std::move(links)}, next_colour).first->second);
    }
    colours = std::move(next);
    if (static_cast<int>(known.size()) == count) return colours;
    count = static_cast<int>(known.size());
  }
}

Fabric Fabric::folded() const {
  const std::vector<int> colour_of = colours();
  Fabric folded;
  folded.kinds_ = kinds_;
  folded.ports_per_node_ = ports_per_node_;
  std::vector<int> members(
      static_cast<std::size_t>(*std::max_element(colour_of.begin(), colour_of.end()) + 1), 0);
  std::vector<std::size_t> first(members.size());
  for (std::size_t i = 0; i < colour_of.size(); ++i)
    if (members[static_cast<std::size_t>(colour_of[i])]++ == 0)
      first[static_cast<std::size_t>(colour_of[i])] = i;
  for (std::size_t colour = 0; colour < members.size(); ++colour) {
    const std::string& name = graph_.vertices()[first[colour]].name;
    folded.graph_.add_vertex(
        members[colour] == 1 ? name : fmt::format("{} and {} alike", name, members[colour] - 1),
        VertexKind::kSwitch, static_cast<int>(colour));
  }
  // The links of the first switch of each colour stand for those of all.
  struct Sum {
    double rate = 0, weight = 0;
    std::string name;
    int links = 0;
  };
  for (std::size_t colour = 0; colour < members.size(); ++colour) {
    std::map<std::tuple<int, std::size_t, double>, Sum> sums;
    for (const LinkId id : graph_.links_of({static_cast<std::int32_t>(first[colour])})) {
      const zplan::Link& link = graph_.link(id);
      Sum& sum = sums[{colour_of[index_of(link.to)], facts(id).kind, link.capacity.value}];
      sum.rate += link.capacity.value * members[colour];
      sum.weight += facts(id).weight;
      sum.name = link.name;
      ++sum.links;
    }
    for (const auto& [key, sum] : sums) {
      const int links = sum.links * members[colour];
      folded.add_link({static_cast<std::int32_t>(colour)}, {std::get<0>(key)}, {sum.rate},
                      sum.weight, std::get<1>(key),
                      links == 1 ? sum.name : fmt::format("{} and {} alike", sum.name, links - 1));
    }
  }
  for (const VertexId port : ports_) folded.ports_.push_back({colour_of[index_of(port)]});
  folded.finish();
  return folded;
}

BytesPerSecond Fabric::bisection(BytesPerSecond port) const {
  const auto taps = [&](std::size_t begin, std::size_t end) {
    std::map<VertexId, BytesPerSecond> rates;
    for (std::size_t i = begin; i < end; ++i) rates[ports_[i]].value += port.value;
    std::vector<Tap> taps;
    for (const auto& [at, rate] : rates) taps.push_back({at, rate});
    return taps;
  };
  const std::size_t nodes = ports_.size() / static_cast<std::size_t>(ports_per_node_);
  const std::size_t half = nodes / 2 * static_cast<std::size_t>(ports_per_node_);
  return graph_.max_flow(taps(0, half), taps(half, ports_.size()));
}

}  // namespace zplan
