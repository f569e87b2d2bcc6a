#include "hwprofiles/network_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "hwprofiles/fabric.h"
#include "hwprofiles/sourced_object.h"
#include "planner/core/error.h"

namespace zplan {
namespace {

constexpr double kMostOversubscribed = 1000;
constexpr int kMostCables = 1024;
constexpr std::size_t kMostAxes = 6;
constexpr int kMostAlongAxis = 100'000;
constexpr std::string_view kNode = "node", kPort = ".port";

bool is_name(std::string_view text) {
  static constexpr std::string_view kOthers = "_-";
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kOthers.find(c) != std::string_view::npos;
  });
}

// "leaf[n / 8, p]" as "leaf" and its indices; what follows the bracket is left in `text`.
struct Indexed {
  std::string_view name;
  std::vector<std::string_view> indices;
};
Indexed take_indexed(const JsonNode& node, std::string_view& text) {
  const std::size_t open = text.find('[');
  Indexed end{text.substr(0, open), {}};
  if (open == std::string_view::npos) {
    text = {};
    return end;
  }
  const std::size_t close = text.find(']', open);
  if (close == std::string_view::npos) node.fail("expected ']' behind each '['");
  std::string_view inside = text.substr(open + 1, close - open - 1);
  text.remove_prefix(close + 1);
  while (true) {
    const std::size_t comma = inside.find(',');
    end.indices.push_back(inside.substr(0, comma));
    if (comma == std::string_view::npos) return end;
    inside.remove_prefix(comma + 1);
  }
}

class GraphReader {
 public:
  explicit GraphReader(SourcedObject& in) : in_(in) {}

  NetworkRules read() {
    if (const auto spreading = in_.object().optional_member("spreading"))
      rules_.spreading = spreading->one_of({"ecmp", "adaptive"}) == "adaptive"
                             ? Spreading::kByRates
                             : Spreading::kByCables;
    for (const auto& [name, sizes] : in_.object().member("switches").members())
      read_set(name, sizes);
    for (const JsonNode& link : in_.object().member("links").items()) read_link(link);
    if (const auto weak = in_.object().optional_member("weak"))
      for (const JsonNode& link : weak->items()) read_weak(link);
    return std::move(rules_);
  }

 private:
  void read_set(const std::string& name, const JsonNode& sizes) {
    if (!is_name(name) || name == kNode)
      sizes.fail(
          fmt::format("expected a name of letters and digits but \"{}\", got \"{}\"", kNode, name));
    SwitchSet set{name, {}};
    for (const JsonNode& size : sizes.items())
      set.shape.push_back(static_cast<int>(size.integer(1, kMostAlongAxis)));
    if (set.shape.size() > kMostAxes)
      sizes.fail(fmt::format("expected at most {} sizes, got {}", kMostAxes, set.shape.size()));
    rules_.switches.push_back(std::move(set));
  }

  std::size_t axes_of(int set) const {
    return set < 0 ? 2 : rules_.switches[static_cast<std::size_t>(set)].shape.size();
  }

  LinkEnd read_end(const JsonNode& node, std::vector<std::string>& names) {
    const std::string text = node.non_empty_string();
    std::string_view rest = text;
    Indexed found = take_indexed(node, rest);
    LinkEnd end;
    if (found.name == kNode) {
      if (!rest.starts_with(kPort)) node.fail_expected("an end such as \"node[n].port[p]\"");
      rest.remove_prefix(1);
      const Indexed port = take_indexed(node, rest);
      found.indices.insert(found.indices.end(), port.indices.begin(), port.indices.end());
    } else {
      const auto set = std::find_if(rules_.switches.begin(), rules_.switches.end(),
                                    [&](const SwitchSet& one) { return one.name == found.name; });
      if (set == rules_.switches.end())
        node.fail(
            fmt::format("expected a set of \"switches\" or \"{}\", got \"{}\"", kNode, found.name));
      end.set = static_cast<int>(set - rules_.switches.begin());
    }
    if (!rest.empty()) node.fail(fmt::format("expected the end of it, got \"{}\"", rest));
    if (found.indices.size() != axes_of(end.set))
      node.fail(fmt::format("expected {} indices of {}, got {}", axes_of(end.set), found.name,
                            found.indices.size()));
    for (const std::string_view index : found.indices)
      end.indices.push_back(read_rule(node, index, names));
    return end;
  }

  static IndexRule read_rule(const JsonNode& node, std::string_view text,
                             std::vector<std::string>& names) {
    try {
      return {text, names};
    } catch (const Error& error) {
      node.fail(error.what());
    }
  }

  void read_places(JsonObject& in, LinkPlaces& places) {
    places.from = read_end(in.member("from"), places.names);
    places.to = read_end(in.member("to"), places.names);
    if (const auto where = in.optional_member("where"))
      places.where = read_rule(*where, where->non_empty_string(), places.names);
  }

  void read_link(const JsonNode& node) {
    SourcedObject in(node, in_.sources());
    LinkRule rule;
    read_places(in.object(), rule);
    const bool is_port = rule.from.set < 0 || rule.to.set < 0;
    if (!is_port || in.has("rate")) {
      rule.rate = LinkClass{.capacity = in.bytes_per_second("rate")};
      if (in.has("efficiency")) rule.rate->efficiency = in.fraction("efficiency");
    }
    if (!is_port)
      if (const auto cables = in.object().optional_member("cables"))
        rule.cables = static_cast<int>(cables->integer(1, kMostCables));
    in.finish();
    rules_.links.push_back(std::move(rule));
  }

  void read_weak(const JsonNode& node) {
    SourcedObject in(node, in_.sources());
    WeakLink weak;
    read_places(in.object(), weak);
    weak.share = in.number("share", 0, 1);
    in.finish();
    rules_.weak.push_back(std::move(weak));
  }

  SourcedObject& in_;
  NetworkRules rules_;
};

}  // namespace

NetworkSpec read_network(const JsonNode& node, Cluster cluster, bool may_be_graph,
                         std::vector<ValueSource>& sources) {
  SourcedObject in(node, sources);
  NetworkSpec network;
  std::vector<std::string> kinds{"full_bisection", "leaf_spine"};
  if (may_be_graph) kinds.emplace_back("graph");
  const std::string kind = in.object().member("kind").one_of(kinds);
  if (kind != "full_bisection" && cluster.node.topology.nics() == 0)
    node.fail("expected a node with network interfaces, got " + cluster.node.name);
  if (kind == "leaf_spine") {
    network.nodes_per_leaf =
        static_cast<int>(in.object().member("nodes_per_leaf").integer(1, kMaxNodes));
    network.oversubscription = in.number("oversubscription", 1, kMostOversubscribed);
    network.rails = in.object().member("rails").boolean();
    if (const auto allocation = in.object().optional_member("allocation"))
      network.scattered = allocation->one_of({"in_order", "scattered"}) == "scattered";
  } else if (kind == "graph") {
    network.rules = std::make_shared<const NetworkRules>(GraphReader(in).read());
  }
  in.finish();
  if (network.rules == nullptr || node.has_faults()) return network;
  cluster.network = network;
  try {
    Fabric{cluster};
  } catch (const Error& error) {
    node.fail(error.what());
  }
  return network;
}

}  // namespace zplan
