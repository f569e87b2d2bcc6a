// Explanation: what a printed number is made of, as a formula whose terms give that number.
//
// Names are those of the keys of the answers' JSON, elements of arrays by their index:
// "memory.classes[0].gpu.slab_bytes". What people ask for more often has a name of its own, too:
// "time.step_split.products". A sum adds up its terms; a quotient is the product of the terms over
// that of the divisors, times a factor that only changes the unit. Each term has a unit and where
// it comes from: a source of the model or the profile, or which reader of the Job counts it.
// Nothing is computed a second time: terms are what the readers say. A number that is not made of
// others has itself as its only term, with its source.
//
//   explanation_time.cpp      the step, its parts, rates, flop, lanes, links, limits
//   explanation_memory.cpp    tiers, placements and the allocator, by category and buffer
//   explanation_model.cpp     parameters of the model, devices of the cluster
//   explanation_traffic.cpp   what a rank sends to each group, in bytes and in Psi
// Intervals are explained beside planner/certainty, and what a search says of its space beside its
// answer: planner/cli/explain.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/cost/throughput.h"
#include "planner/place/memory_report.h"
#include "planner/search/search.h"
#include "planner/search/stack_memory_use.h"
#include "sim/step_split.h"

namespace zplan {

enum class TermUnit : std::uint8_t {
  kNone,    // a whole number
  kFactor,  // any other
  kBytes,
  kSeconds,
  kFlops,
  kTflops,
  kShare,
  kPerSecond,
};

struct Term {
  std::string name;
  double value = 0;
  TermUnit unit{};
  std::string source;
};

enum class Combine : std::uint8_t { kSum, kQuotient };

struct Explanation {
  std::string what;  // "time.mfu"
  double value = 0;  // as the answer has it
  TermUnit unit{};
  std::string formula;
  Combine by = Combine::kSum;
  std::vector<Term> terms;     // of a sum the greatest first
  std::vector<Term> divisors;  // of a quotient
  double factor = 1;
  // Buffers that are alive, operations that run: the largest first. They need not add up.
  std::vector<Term> made_of;
  std::vector<std::string> also;  // other names
};
using Explanations = std::vector<Explanation>;

// The number that the terms give.
double combined(const Explanation& explanation);

// A plan with everything that was found out about it.
struct Explained {
  const Plan& plan;
  const Job& job;
  const ModelConfig& model;
  const Cluster& cluster;
  const MemoryUse& use;
  const MemoryReport& report;
  const StackMemoryUse& stack;
  const sim::SimResult& sim;
  const sim::StepSplit& split;
  const Throughput& throughput;
  double model_flops = 0;  // of a step
};
Explanations explain(const Explained& plan);

}  // namespace zplan
