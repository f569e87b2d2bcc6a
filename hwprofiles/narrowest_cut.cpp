#include "hwprofiles/narrowest_cut.h"

#include <algorithm>
#include <cstddef>

#include "planner/core/error.h"

namespace zplan {
namespace {

class CutSearch {
 public:
  CutSearch(int vertices, const std::vector<CutEdge>& edges)
      : arcs_of_(static_cast<std::size_t>(vertices)),
        reached_(arcs_of_.size(), 0),
        came_by_(arcs_of_.size(), 0) {
    for (const CutEdge& edge : edges) {
      add_arc(edge.a, edge.b, edge.capacity);
      add_arc(edge.b, edge.a, edge.capacity);
    }
    left_ = capacity_;
  }

  std::int64_t run() {
    find_ways(0, -1);
    if (open_.size() < arcs_of_.size()) return 0;
    std::vector<std::size_t> tree;
    for (std::size_t i = 1; i < open_.size(); ++i) tree.push_back(came_by(open_[i]));
    std::int64_t least = least_degree();
    for (const std::size_t arc : tree) least = flow(from_[arc], to_[arc], least);
    return least;
  }

 private:
  // The arcs of an edge are neighbours, so that `arc ^ 1` is the way back.
  void add_arc(int from, int to, std::int64_t capacity) {
    arcs_of_[static_cast<std::size_t>(from)].push_back(capacity_.size());
    capacity_.push_back(capacity);
    from_.push_back(from);
    to_.push_back(to);
  }

  std::size_t came_by(int vertex) const { return came_by_[static_cast<std::size_t>(vertex)]; }

  std::int64_t least_degree() const {
    std::int64_t least = -1;
    for (const std::vector<std::size_t>& arcs : arcs_of_) {
      std::int64_t degree = 0;
      for (const std::size_t arc : arcs) degree += capacity_[arc];
      if (least < 0 || degree < least) least = degree;
    }
    return least;
  }

  // Finds the fewest arcs with something left from one vertex to the other, back from it by
  // came_by(). Returns false if there is no way; open_ then has all vertices that can be reached.
  bool find_ways(int from, int to) {
    ++search_;
    open_.assign(1, from);
    reached_[static_cast<std::size_t>(from)] = search_;
    for (std::size_t i = 0; i < open_.size(); ++i)
      for (const std::size_t arc : arcs_of_[static_cast<std::size_t>(open_[i])]) {
        const auto next = static_cast<std::size_t>(to_[arc]);
        if (left_[arc] == 0 || reached_[next] == search_) continue;
        reached_[next] = search_;
        came_by_[next] = arc;
        if (to_[arc] == to) return true;
        open_.push_back(to_[arc]);
      }
    return false;
  }

  // Returns the greatest flow, but no more than `enough`.
  std::int64_t flow(int from, int to, std::int64_t enough) {
    std::int64_t sum = 0;
    std::vector<std::size_t> used;
    while (sum < enough && find_ways(from, to)) {
      std::int64_t most = enough - sum;
      for (int at = to; at != from; at = from_[came_by(at)])
        most = std::min(most, left_[came_by(at)]);
      for (int at = to; at != from; at = from_[came_by(at)]) {
        left_[came_by(at)] -= most;
        left_[came_by(at) ^ 1U] += most;
        used.push_back(came_by(at));
      }
      sum += most;
    }
    for (const std::size_t arc : used)
      for (const std::size_t way : {arc, arc ^ 1U}) left_[way] = capacity_[way];
    return sum;
  }

  std::vector<std::vector<std::size_t>> arcs_of_;  // by vertex
  std::vector<std::int64_t> capacity_, left_;      // by arc
  std::vector<int> from_, to_;                     // by arc
  std::vector<int> reached_;                       // by vertex: the search that did so last
  std::vector<std::size_t> came_by_;               // by vertex: the arc by which it did
  std::vector<int> open_;                          // what this search reached
  int search_ = 0;
};

}  // namespace

std::int64_t narrowest_cut(int vertices, const std::vector<CutEdge>& edges) {
  ZPLAN_ASSERT(vertices > 1);
  return CutSearch(vertices, edges).run();
}

}  // namespace zplan
