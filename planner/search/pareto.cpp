#include "planner/search/pareto.h"

#include <algorithm>
#include <tuple>

namespace zplan {
namespace {

auto costs(const Simulated& plan) {
  return std::tuple(plan.step, plan.gpu, plan.plan.parallel.ranks());
}

bool no_worse(const Simulated& a, const Simulated& b) {
  return a.step <= b.step && a.gpu <= b.gpu && a.plan.parallel.ranks() <= b.plan.parallel.ranks();
}

}  // namespace

std::vector<Simulated> pareto_front(const std::vector<Simulated>& plans) {
  std::vector<Simulated> front;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const bool is_beaten = std::any_of(plans.begin(), plans.end(), [&](const Simulated& other) {
      const bool is_earlier = &other < &plans[i];
      return no_worse(other, plans[i]) && (costs(other) != costs(plans[i]) || is_earlier);
    });
    if (!is_beaten) front.push_back(plans[i]);
  }
  return front;
}

}  // namespace zplan
