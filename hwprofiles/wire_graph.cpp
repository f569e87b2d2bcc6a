#include "hwprofiles/wire_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/push_relabel_max_flow.hpp>
#include <boost/property_map/function_property_map.hpp>
#include <cmath>
#include <limits>
#include <utility>

#include "planner/core/error.h"

namespace zplan {
namespace {

using FlowTraits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
using FlowEdge = boost::property<
    boost::edge_capacity_t, std::int64_t,
    boost::property<boost::edge_residual_capacity_t, std::int64_t,
                    boost::property<boost::edge_reverse_t, FlowTraits::edge_descriptor>>>;
using FlowGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS,
                                        boost::no_property, FlowEdge>;  // bytes per second

// Traffic may pass through these; everything else only starts or ends it.
bool is_transit(VertexKind kind) {
  return kind == VertexKind::kPcieSwitch || kind == VertexKind::kNvSwitch ||
         kind == VertexKind::kSocket || kind == VertexKind::kSwitch;
}

void add_flow_edge(FlowGraph& graph, std::size_t from, std::size_t to, BytesPerSecond most) {
  const auto forth = boost::add_edge(from, to, graph).first;
  const auto back = boost::add_edge(to, from, graph).first;
  boost::put(boost::edge_capacity, graph, forth, std::llround(most.value));
  boost::put(boost::edge_capacity, graph, back, 0);
  boost::put(boost::edge_reverse, graph, forth, back);
  boost::put(boost::edge_reverse, graph, back, forth);
}

}  // namespace

struct WireGraph::Searched {
  struct Numbered {
    std::int32_t link = -1;
  };
  using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS,
                                      boost::no_property, Numbered>;
  Graph graph;
};

WireGraph::WireGraph() : searched_(std::make_unique<Searched>()) {}
WireGraph::WireGraph(WireGraph&&) noexcept = default;
WireGraph& WireGraph::operator=(WireGraph&&) noexcept = default;
WireGraph::~WireGraph() = default;

const Vertex& WireGraph::vertex(VertexId id) const { return vertices_.at(index_of(id)); }
const Link& WireGraph::link(LinkId id) const { return links_.at(index_of(id)); }

std::optional<VertexId> WireGraph::find(std::string_view name) const {
  const auto found = std::find_if(vertices_.begin(), vertices_.end(),
                                  [&](const Vertex& vertex) { return vertex.name == name; });
  if (found == vertices_.end()) return std::nullopt;
  return VertexId{static_cast<std::int32_t>(found - vertices_.begin())};
}

std::optional<LinkId> WireGraph::link_between(VertexId from, VertexId to) const {
  for (const LinkId id : links_of(from))
    if (link(id).to == to) return id;
  return std::nullopt;
}

std::span<const LinkId> WireGraph::links_of(VertexId from) const { return out_.at(index_of(from)); }

VertexId WireGraph::add_vertex(std::string name, VertexKind kind, int ordinal) {
  vertices_.push_back({std::move(name), kind, ordinal});
  out_.emplace_back();
  return {static_cast<std::int32_t>(boost::add_vertex(searched_->graph))};
}

LinkId WireGraph::add_link(VertexId from, VertexId to, const LinkClass& link, std::string name) {
  const LinkId id{static_cast<std::int32_t>(links_.size())};
  links_.push_back({std::move(name), from, to, link.capacity, link.efficiency});
  out_[index_of(from)].push_back(id);
  boost::add_edge(index_of(from), index_of(to), Searched::Numbered{id.index}, searched_->graph);
  return id;
}

std::vector<LinkId> WireGraph::route(VertexId from, VertexId to) const {
  const Searched::Graph& graph = searched_->graph;
  const auto cost = boost::make_function_property_map<Searched::Graph::edge_descriptor>(
      [&](const Searched::Graph::edge_descriptor& edge) {
        const Link& step = link({graph[edge].link});
        const bool leaves = step.from == from || is_transit(vertex(step.from).kind);
        return leaves ? 1 / step.effective().value : std::numeric_limits<double>::max();
      });
  std::vector<Searched::Graph::vertex_descriptor> before(vertices_.size());
  const auto at =
      boost::make_iterator_property_map(before.begin(), boost::get(boost::vertex_index, graph));
  boost::dijkstra_shortest_paths(graph, index_of(from),
                                 boost::weight_map(cost).predecessor_map(at));
  if (from != to && before[index_of(to)] == index_of(to))
    throw_bad_input(fmt::format("wires: expected a path from {} to {}, got none", vertex(from).name,
                                vertex(to).name));
  std::vector<LinkId> path;
  for (VertexId end = to; end != from; end = link(path.back()).from)
    path.push_back(*link_between({static_cast<std::int32_t>(before[index_of(end)])}, end));
  std::reverse(path.begin(), path.end());
  return path;
}

std::vector<int> WireGraph::hops_from(VertexId from) const {
  std::vector<int> hops(vertices_.size(), -1);
  hops[index_of(from)] = 0;
  const Searched::Graph& graph = searched_->graph;
  const auto at =
      boost::make_iterator_property_map(hops.begin(), boost::get(boost::vertex_index, graph));
  boost::breadth_first_search(
      graph, index_of(from),
      boost::visitor(boost::make_bfs_visitor(boost::record_distances(at, boost::on_tree_edge()))));
  return hops;
}

BytesPerSecond WireGraph::max_flow(std::span<const Tap> from, std::span<const Tap> to) const {
  const std::size_t source = vertices_.size(), sink = source + 1;
  FlowGraph graph(vertices_.size() + 2);
  const auto contains = [](std::span<const Tap> taps, VertexId id) {
    return std::any_of(taps.begin(), taps.end(), [&](const Tap& tap) { return tap.at == id; });
  };
  for (const Link& link : links_) {
    const bool leaves = is_transit(vertex(link.from).kind) || contains(from, link.from);
    const bool enters = is_transit(vertex(link.to).kind) || contains(to, link.to);
    if (leaves && enters)
      add_flow_edge(graph, index_of(link.from), index_of(link.to), link.effective());
  }
  for (const Tap& tap : from) add_flow_edge(graph, source, index_of(tap.at), tap.most);
  for (const Tap& tap : to) add_flow_edge(graph, index_of(tap.at), sink, tap.most);
  return {static_cast<double>(boost::push_relabel_max_flow(graph, source, sink))};
}

}  // namespace zplan
