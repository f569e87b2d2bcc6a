#include "planner/cost/cost_change.h"

#include <cmath>

namespace zplan {
namespace {

bool shares_alike(const CostModel& a, const OpCost& of_a, const CostModel& b, const OpCost& of_b) {
  const std::span<const LinkShare> left = a.shares(of_a), right = b.shares(of_b);
  if (left.size() != right.size()) return false;
  for (std::size_t i = 0; i < left.size(); ++i) {
    const CostLink &link = a.links()[left[i].link], &other = b.links()[right[i].link];
    if (left[i].weight != right[i].weight || link.capacity != other.capacity) return false;
  }
  return true;
}

bool cost_alike(const CostModel& a, const OpCost& of_a, const CostModel& b, const OpCost& of_b) {
  return of_a.fixed == of_b.fixed && of_a.alone == of_b.alone && of_a.launch == of_b.launch &&
         of_a.bytes == of_b.bytes && of_a.cap == of_b.cap && of_a.wake == of_b.wake &&
         of_a.slowdown == of_b.slowdown && shares_alike(a, of_a, b, of_b);
}

int stages(const CostModel& model) { return static_cast<int>(model.job().classes.size()); }

double elasticity(SimTime before, SimTime after, double factor) {
  if (before.value <= 0 || after.value <= 0 || before == after) return 0;
  return std::log(static_cast<double>(after.value) / static_cast<double>(before.value)) /
         std::log(factor);
}

}  // namespace

bool costs_alike(const CostModel& a, const CostModel& b) {
  if (a.launch_depth() != b.launch_depth()) return false;
  for (int stage = 0; stage < stages(a); ++stage) {
    const std::span<const OpCost> left = a.costs(stage), right = b.costs(stage);
    for (std::size_t i = 0; i < left.size(); ++i)
      if (!cost_alike(a, left[i], b, right[i])) return false;
  }
  return true;
}

void rest_on(CostModel& model, std::span<const CostChange> changes) {
  for (int stage = 0; stage < stages(model); ++stage) {
    for (std::size_t i = 0; i < model.costs(stage).size(); ++i) {
      const OpCost& cost = model.costs(stage)[i];
      Reliances time, launch;
      for (const CostChange& change : changes) {
        const OpCost& other = change.changed->costs(stage)[i];
        const double of_time = elasticity(cost.alone, other.alone, change.factor);
        const double of_launch = elasticity(cost.launch, other.launch, change.factor);
        if (of_time != 0) time.add(change.constant, of_time);
        if (of_launch != 0) launch.add(change.constant, of_launch);
      }
      model.set_rests(stage, i, time, launch);
    }
  }
}

}  // namespace zplan
