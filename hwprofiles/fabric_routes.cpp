#include "hwprofiles/fabric_routes.h"

#include <cstddef>
#include <set>
#include <span>

namespace zplan {

FabricRoutes::FabricRoutes(const Fabric& fabric)
    : fabric_(fabric), ways_(fabric.graph().vertices().size()) {
  find_only_ways();
}

// Takes switches with one neighbour off the graph until there are none; one link each way leads to
// it, for links of several kinds are several ways.
void FabricRoutes::find_only_ways() {
  const WireGraph& graph = fabric_.graph();
  const std::size_t count = ways_.size();
  std::vector<std::set<LinkId>> left(count);
  for (std::size_t i = 0; i < count; ++i)
    for (const LinkId link : graph.links_of({static_cast<std::int32_t>(i)})) left[i].insert(link);
  std::vector<VertexId> taken, open;
  for (std::size_t i = 0; i < count; ++i)
    if (left[i].size() == 1) open.push_back({static_cast<std::int32_t>(i)});
  for (std::size_t i = 0; i < open.size(); ++i) {
    const VertexId at = open[i];
    if (left[index_of(at)].size() != 1) continue;  // the last two are each other's neighbours
    const LinkId out = *left[index_of(at)].begin();
    const VertexId next = graph.link(out).to;
    const auto in = graph.link_between(next, at);
    if (!in) continue;
    ways_[index_of(at)] = {out, *in, 0};
    taken.push_back(at);
    left[index_of(at)].clear();
    left[index_of(next)].erase(*in);
    if (left[index_of(next)].size() == 1) open.push_back(next);
  }
  for (std::size_t i = taken.size(); i-- > 0;) {
    OnlyWay& own = ways_[index_of(taken[i])];
    own.depth = way(graph.link(own.out).to).depth + 1;
  }
}

void FabricRoutes::add(VertexId from, VertexId to, double bytes, std::vector<double>& loads) const {
  const auto [near, far] = add_only_ways(from, to, bytes, loads);
  if (near != far) add_spread(near, far, bytes, loads);
}

std::pair<VertexId, VertexId> FabricRoutes::add_only_ways(VertexId from, VertexId to, double bytes,
                                                          std::vector<double>& loads) const {
  const WireGraph& graph = fabric_.graph();
  while (from != to) {
    const OnlyWay &out = way(from), &in = way(to);
    if (out.depth == 0 && in.depth == 0) break;
    if (out.depth >= in.depth) {
      loads[index_of(out.out)] += bytes;
      from = graph.link(out.out).to;
    } else {
      loads[index_of(in.in)] += bytes;
      to = graph.link(in.in).from;
    }
  }
  return {from, to};
}

std::shared_ptr<const std::vector<int>> FabricRoutes::hops_to(VertexId to) const {
  constexpr std::size_t kMostRemembered = 1 << 25;  // numbers, 128 MiB; then anew
  const std::lock_guard lock(mutex_);
  if (hops_.size() * ways_.size() > kMostRemembered) hops_.clear();
  auto& known = hops_[to];
  if (known == nullptr)
    known = std::make_shared<const std::vector<int>>(fabric_.graph().hops_from(to));
  return known;
}

void FabricRoutes::add_spread(VertexId from, VertexId to, double bytes,
                              std::vector<double>& loads) const {
  const WireGraph& graph = fabric_.graph();
  const auto known = hops_to(to);
  const std::vector<int>& hops = *known;
  std::map<VertexId, double> here{{from, bytes}};
  for (int left = hops[index_of(from)]; left > 0; --left) {
    std::map<VertexId, double> next;
    for (const auto& [at, part] : here) {
      double all = 0;
      const std::span<const LinkId> links = graph.links_of(at);
      const auto nearer = [&](LinkId link) { return hops[index_of(graph.link(link).to)] < left; };
      for (const LinkId link : links)
        if (nearer(link)) all += fabric_.weight(link);
      for (const LinkId link : links) {
        if (!nearer(link)) continue;
        const double share = part * fabric_.weight(link) / all;
        loads[index_of(link)] += share;
        next[graph.link(link).to] += share;
      }
    }
    here = std::move(next);
  }
}

}  // namespace zplan
