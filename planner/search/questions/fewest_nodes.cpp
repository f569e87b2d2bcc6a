#include "planner/search/questions/fewest_nodes.h"

#include <algorithm>
#include <utility>

namespace zplan {
namespace {

constexpr std::int64_t kParts = 8;  // of the last count that was too small

}  // namespace

FewestNodes fewest_nodes(std::int64_t most, const TryNodes& try_nodes,
                         const std::function<bool()>& stop) {
  FewestNodes result;
  std::int64_t last = 0;
  const auto ask = [&](std::int64_t nodes) {
    ++result.tried;
    NodeCount count = try_nodes(nodes);
    const bool good = count.good;
    (good ? result.found.emplace() : result.closest) = std::move(count);
    result.interrupted = stop && stop();
    return good;
  };
  for (std::int64_t nodes = 1; last < most && !result.interrupted;
       nodes = std::min(2 * nodes, most)) {
    if (ask(nodes)) break;
    last = nodes;
  }
  if (!result.found || last == 0) return result;
  const std::int64_t step = std::max<std::int64_t>(1, last / kParts);
  const std::int64_t end = result.found->nodes;
  for (std::int64_t nodes = last + step; nodes < end && !result.interrupted; nodes += step)
    if (ask(nodes)) break;
  return result;
}

}  // namespace zplan
