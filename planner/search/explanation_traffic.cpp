// What a rank of the busiest stage sends to each group in a step, as `zplan bandwidth` has it.
#include <fmt/format.h>

#include "models/model_formulas.h"
#include "planner/cost/group_traffic.h"
#include "planner/search/explanation_parts.h"

namespace zplan {
namespace {

std::vector<Term> by_role(const GroupTraffic& group, double GroupOp::*size, TermUnit unit) {
  std::vector<Term> terms;
  for (const GroupOp& op : group.ops)
    terms.push_back(
        term(fmt::format("{}, {} times", name(op.role), op.runs), op.*size, unit, kCounted));
  sort_terms(terms);
  return terms;
}

}  // namespace

void explain_traffic(const Explained& plan, const CostModel& cost, Explanations& out) {
  const std::vector<GroupTraffic> groups = group_traffic(cost, plan.sim.split.stage);
  const Parallel& shape = plan.plan.parallel;
  const double parameters = static_cast<double>(parameter_count(plan.model));
  const double cuts = static_cast<double>(shape.tp) * shape.pp;
  const double psi = parameters / cuts;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const GroupTraffic& group = groups[i];
    const std::string at = fmt::format("groups[{}]", i);
    const std::string own =
        fmt::format("communication.{}.{}", group.group, group.states ? "states" : "activations");
    out.push_back(
        sum_of(own + ".bytes", group.bytes, TermUnit::kBytes,
               fmt::format("sent by a rank of stage {} to a group of {} in a step, by role",
                           plan.sim.split.stage, group.ranks),
               by_role(group, &GroupOp::bytes, TermUnit::kBytes)));
    out.back().also = {at + ".bytes"};
    out.push_back(sum_of(own + ".elements", group.elements(), TermUnit::kFactor,
                         "elements sent, by role",
                         by_role(group, &GroupOp::elements, TermUnit::kFactor)));
    out.back().also = {at + ".elements"};
    if (!group.states) continue;
    const double ring = group.ring() > 0 ? group.ring() : 1;
    out.push_back(
        quotient(own + ".psi", group.elements() / (psi * ring), TermUnit::kFactor,
                 "elements / (Psi x (n - 1) / n), Psi: parameters / (tp x pp)",
                 {term("elements sent", group.elements(), TermUnit::kFactor, own + ".elements"),
                  term("tensor parallel ranks x stages", cuts, TermUnit::kNone, "plan")},
                 {term("parameters", parameters, TermUnit::kNone, "model.parameters"),
                  term(fmt::format("(n - 1) / n of a group of {}", group.ranks), ring,
                       TermUnit::kFactor, "ring [Patarasuk09]")}));
    out.back().also = {at + ".psi"};
  }
}

}  // namespace zplan
