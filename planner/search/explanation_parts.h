// The parts of an explanation, and what they are built with.
#pragma once

#include <string>
#include <string_view>

#include "planner/cost/cost_model.h"
#include "planner/search/explanation.h"

namespace zplan {

inline constexpr std::string_view kSimulated = "simulated";
inline constexpr std::string_view kCounted = "counted from the Job";

void sort_terms(std::vector<Term>& terms);  // the greatest first
Term term(std::string name, double value, TermUnit unit, std::string_view source);
Term bytes_term(std::string name, Bytes size, std::string_view source);
Term seconds_term(std::string name, Seconds time, std::string_view source);

// A sum; its terms may follow.
Explanation sum_of(std::string what, double value, TermUnit unit, std::string formula,
                   std::vector<Term> terms = {});
Explanation quotient(std::string what, double value, TermUnit unit, std::string formula,
                     std::vector<Term> terms, std::vector<Term> divisors, double factor = 1);
// Not made of others: `formula` says what it is.
Explanation single(std::string what, double value, TermUnit unit, std::string formula,
                   std::string_view source);

// "datasheet: https://.." of a value of the node's profile.
std::string profile_source(const Cluster& cluster, std::string_view pointer);

void explain_times(const Explained& plan, const CostModel& cost, Explanations& out);
void explain_lanes(const Explained& plan, const CostModel& cost, Explanations& out);
void explain_memory(const Explained& plan, Explanations& out);
void explain_allocator(const Explained& plan, Explanations& out);
void explain_model(const Explained& plan, Explanations& out);
void explain_traffic(const Explained& plan, const CostModel& cost, Explanations& out);

}  // namespace zplan
