#include "hwprofiles/fabric.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "hwprofiles/narrowest_cut.h"
#include "planner/core/error.h"

namespace zplan {

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
    std::vector<VertexId> open{{static_cast<std::int32_t>(i)}};
    parts_[i] = count;
    while (!open.empty()) {
      const VertexId at = open.back();
      open.pop_back();
      for (const LinkId link : graph_.links_of(at)) {
        const VertexId to = graph_.link(link).to;
        if (parts_[index_of(to)] >= 0) continue;
        parts_[index_of(to)] = count;
        open.push_back(to);
      }
    }
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
  for (std::size_t i = 0; i < behind_.size(); ++i) {
    const std::size_t node = i / static_cast<std::size_t>(ports_per_node_);
    const bool alone = node_at.try_emplace(behind_[i], node).first->second == node;
    const VertexId first = behind_[node * static_cast<std::size_t>(ports_per_node_)];
    direct_ = direct_ && alone && behind_[i] == first;
  }
}

// Returns a colour for each switch. They are split until all switches of one have equal links to
// each.
std::vector<int> Fabric::colours() const {
  using Link = std::tuple<int, std::size_t, double>;  // to which colour, kind, rate
  std::vector<int> colours(graph_.vertices().size(), 0);
  int count = 1;
  std::set<VertexId> apart(ports_.begin(), ports_.end());
  apart.insert(behind_.begin(), behind_.end());
  for (const VertexId at : apart) colours[index_of(at)] = count++;
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
  for (const VertexId at : behind_) folded.behind_.push_back({colour_of[index_of(at)]});
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

BytesPerSecond Fabric::narrowest_cut(std::span<const VertexId> among) const {
  std::map<VertexId, int> numbers;
  for (const VertexId at : among) numbers.try_emplace(at, static_cast<int>(numbers.size()));
  std::vector<CutEdge> edges;
  for (const auto& [at, number] : numbers)
    for (const LinkId id : graph_.links_of(at)) {
      const zplan::Link& link = graph_.link(id);
      const auto to = numbers.find(link.to);
      if (to == numbers.end() || to->first < at) continue;  // its way back counts
      edges.push_back({number, to->second, std::llround(link.effective().value)});
    }
  return {static_cast<double>(zplan::narrowest_cut(static_cast<int>(numbers.size()), edges))};
}

}  // namespace zplan
