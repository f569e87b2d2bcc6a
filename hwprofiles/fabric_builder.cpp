// Puts a network together: leaf switches and a spine, or what rules say.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "hwprofiles/fabric.h"
#include "planner/core/error.h"

namespace zplan {
namespace {

// [assumed] All rules together stay below these; more would take minutes to read.
constexpr std::int64_t kMostSwitches = 200'000, kMostLinks = 4'000'000, kMostTried = 50'000'000;

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
    fabric.behind_.resize(fabric.ports_.size());
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
        seat(node, port, switches[static_cast<std::size_t>(leaf * rails + rail)]);
      }
  }

  void graph(const NetworkRules& rules) {
    rules_ = &rules;
    for (const SwitchSet& set : rules.switches) add_switches(set);
    for (std::size_t i = 0; i < rules.weak.size(); ++i)
      at_rule("weak", i, [&] { add_weak(rules.weak[i]); });
    for (std::size_t i = 0; i < rules.links.size(); ++i)
      at_rule("links", i, [&] { add_links(rules.links[i]); });
    for (const auto& [ends, weak] : weak_)
      if (!weak.is_met)
        throw_bad_input(
            fmt::format("expected links among those that the rules make, got a weak one "
                        "between {} and {}",
                        ends.first, ends.second));
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

  struct Weak {
    double share = 0;
    bool is_met = false;
  };

  void seat(int node, int port, VertexId at) {
    const std::size_t i = fabric_.port_index(node, port);
    fabric_.ports_[i] = fabric_.behind_[i] = at;
  }

  // Adds what a rule says; an error names the rule.
  template <typename Add>
  static void at_rule(std::string_view list, std::size_t i, const Add& add) {
    try {
      add();
    } catch (const Error& error) {
      throw_bad_input(fmt::format("{}/{}: {}", list, i, error.what()));
    }
  }

  std::vector<int> shape_of(int set) const {
    if (set < 0) return {cluster_.nodes, ports_};
    return sets_[static_cast<std::size_t>(set)].set->shape;
  }

  void add_switches(const SwitchSet& set) {
    sets_.push_back({&set, static_cast<int>(fabric_.graph_.vertices().size())});
    std::int64_t count = 1;
    for (const int size : set.shape) {
      if (count > (kMostSwitches - sets_.back().first) / size)
        throw_bad_input(fmt::format("expected at most {} switches, got more", kMostSwitches));
      count *= size;
    }
    for (std::int64_t i = 0; i < count; ++i) {
      std::vector<std::int64_t> indices(set.shape.size());
      std::int64_t rest = i;
      for (std::size_t axis = indices.size(); axis-- > 0; rest /= set.shape[axis])
        indices[axis] = rest % set.shape[axis];
      fabric_.graph_.add_vertex(switch_name(set, indices), VertexKind::kSwitch,
                                sets_.back().first + static_cast<int>(i));
    }
  }

  // Returns how far each name of the rule goes: as far as the sizes that it is an index of alone.
  std::vector<std::int64_t> ranges(const LinkPlaces& rule) const {
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

  // Calls act() with the two ends of each link of the rule.
  template <typename Do>
  void for_each_link(const LinkPlaces& rule, const Do& act) {
    const std::vector<std::int64_t> most = ranges(rule);
    std::int64_t tries = 1;
    for (const std::int64_t range : most) {
      if (tries > (kMostTried - tried_) / range)
        throw_bad_input(fmt::format("expected rules of at most {} links to look at", kMostTried));
      tries *= range;
    }
    tried_ += tries;
    std::vector<std::int64_t> values(most.size(), 0);
    while (true) {
      if (!rule.where || rule.where->at(values) != 0)
        act(end_of(rule.from, values), end_of(rule.to, values));
      std::size_t name = values.size();
      while (name > 0 && ++values[name - 1] == most[name - 1]) values[--name] = 0;
      if (name == 0) return;
    }
  }

  void add_weak(const WeakLink& weak) {
    for_each_link(weak, [&](const End& a, const End& b) {
      if (!weak_.try_emplace(ordered(a.name, b.name), Weak{weak.share}).second)
        throw_bad_input(
            fmt::format("expected one weak link between {} and {}, got two", a.name, b.name));
      if (static_cast<std::int64_t>(weak_.size()) > kMostLinks)
        throw_bad_input(fmt::format("expected at most {} weak links, got more", kMostLinks));
    });
  }

  void add_links(const LinkRule& rule) {
    made_.clear();
    for_each_link(rule, [&](End a, End b) { add_one(rule, std::move(a), std::move(b)); });
  }

  End end_of(const LinkEnd& end, const std::vector<std::int64_t>& values) const {
    const std::vector<int> shape = shape_of(end.set);
    std::vector<std::int64_t> indices;
    std::int64_t at = 0;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      const std::int64_t index = end.indices[axis].at(values);
      if (index < 0 || index >= shape[axis])
        throw_bad_input(fmt::format("expected an index from 0 to {} by \"{}\", got {}",
                                    shape[axis] - 1, end.indices[axis].text(), index));
      indices.push_back(index);
      at = at * shape[axis] + index;
    }
    if (end.set < 0)
      return {.name = port_name(indices[0], indices[1]),
              .is_port = true,
              .node = static_cast<int>(indices[0]),
              .port = static_cast<int>(indices[1])};
    const Set& set = sets_[static_cast<std::size_t>(end.set)];
    return {{set.first + static_cast<int>(at)}, switch_name(*set.set, indices)};
  }

  // Returns what is left of the link's rate.
  double share_of(const End& a, const End& b) {
    if (weak_.empty()) return 1;
    const auto weak = weak_.find(ordered(a.name, b.name));
    if (weak == weak_.end()) return 1;
    weak->second.is_met = true;
    return weak->second.share;
  }

  void add_one(const LinkRule& rule, End a, End b) {
    if (a.is_port && b.is_port)
      throw_bad_input(fmt::format("expected a switch between {} and {}", a.name, b.name));
    if (b.is_port) std::swap(a, b);
    const double share = share_of(a, b);
    if (a.is_port) return hang(a, b, rule.rate, share);
    if (a.at == b.at)
      throw_bad_input(fmt::format("{} leads to itself; leave it out by \"where\"", a.name));
    if (!made_.insert(std::minmax(a.at, b.at)).second)
      throw_bad_input(
          fmt::format("the link between {} and {} comes twice, for links lead both ways: "
                      "leave one out by \"where\", or state \"cables\"",
                      a.name, b.name));
    if (share > 0) connect(a, b, rule.rate->effective() * share, rule);
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
  void hang(const End& port, const End& at, const std::optional<LinkClass>& cable, double share) {
    const std::size_t i = fabric_.port_index(port.node, port.port);
    if (fabric_.behind_[i].index >= 0)
      throw_bad_input(fmt::format("expected {} on one switch, got {} and {}", port.name,
                                  fabric_.graph_.vertex(fabric_.behind_[i]).name, at.name));
    seat(port.node, port.port, at.at);
    if (share == 0)
      throw_bad_input(fmt::format("expected a link of {} that carries something", port.name));
    const BytesPerSecond most = cable ? std::min(port_rate_, cable->effective()) : port_rate_;
    const BytesPerSecond rate = most * share;
    if (rate == port_rate_) return;
    const VertexId own = fabric_.graph_.add_vertex(port.name, VertexKind::kSwitch, 0);
    fabric_.ports_[i] = own;
    fabric_.add_link(own, at.at, rate, 1, fabric_.kind_of("weak port out"),
                     port.name + '>' + at.name);
    fabric_.add_link(at.at, own, rate, 1, fabric_.kind_of("weak port in"),
                     at.name + '>' + port.name);
  }

  Fabric& fabric_;
  const Cluster& cluster_;
  const BytesPerSecond port_rate_;
  const int ports_;
  const NetworkRules* rules_ = nullptr;
  std::vector<Set> sets_;
  std::map<std::pair<std::string, std::string>, Weak> weak_;
  std::set<std::pair<VertexId, VertexId>> made_;  // by the rule at hand
  std::int64_t tried_ = 0;
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

}  // namespace zplan
