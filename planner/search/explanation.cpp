#include "planner/search/explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planner/search/explanation_parts.h"

namespace zplan {

std::string profile_source(const Cluster& cluster, std::string_view pointer) {
  for (const ValueSource& source : cluster.node.sources)
    if (source.pointer == pointer) return fmt::format("{}: {}", source.source, source.ref);
  return fmt::format("profile of the node, {}", pointer);
}

void sort_terms(std::vector<Term>& terms) {
  std::stable_sort(terms.begin(), terms.end(),
                   [](const Term& a, const Term& b) { return a.value > b.value; });
}

Term term(std::string name, double value, TermUnit unit, std::string_view source) {
  return {std::move(name), value, unit, std::string(source)};
}

Term bytes_term(std::string name, Bytes size, std::string_view source) {
  return term(std::move(name), static_cast<double>(size.value), TermUnit::kBytes, source);
}

Term seconds_term(std::string name, Seconds time, std::string_view source) {
  return term(std::move(name), time.value, TermUnit::kSeconds, source);
}

Explanation sum_of(std::string what, double value, TermUnit unit, std::string formula,
                   std::vector<Term> terms) {
  return {.what = std::move(what),
          .value = value,
          .unit = unit,
          .formula = std::move(formula),
          .terms = std::move(terms),
          .divisors = {},
          .made_of = {},
          .also = {}};
}

Explanation quotient(std::string what, double value, TermUnit unit, std::string formula,
                     std::vector<Term> terms, std::vector<Term> divisors, double factor) {
  return {.what = std::move(what),
          .value = value,
          .unit = unit,
          .formula = std::move(formula),
          .by = Combine::kQuotient,
          .terms = std::move(terms),
          .divisors = std::move(divisors),
          .factor = factor,
          .made_of = {},
          .also = {}};
}

Explanation single(std::string what, double value, TermUnit unit, std::string formula,
                   std::string_view source) {
  const std::string key = what.substr(what.rfind('.') + 1);
  return sum_of(std::move(what), value, unit, std::move(formula), {term(key, value, unit, source)});
}

double combined(const Explanation& explanation) {
  if (explanation.by == Combine::kSum) {
    double sum = 0;
    for (const Term& term : explanation.terms) sum += term.value;
    return sum;
  }
  double result = explanation.factor;
  for (const Term& term : explanation.terms) result *= term.value;
  for (const Term& divisor : explanation.divisors) result /= divisor.value;
  return result;
}

Explanations explain(const Explained& plan) {
  const CostModel cost(plan.job, plan.cluster);
  Explanations out;
  explain_times(plan, cost, out);
  explain_lanes(plan, cost, out);
  explain_traffic(plan, cost, out);
  explain_memory(plan, out);
  explain_allocator(plan, out);
  explain_model(plan, out);
  return out;
}

}  // namespace zplan
