// Explanation: what a printed number is made of, as a formula whose terms give that number.
//
// Names are those of the keys of the answer's JSON. A sum adds up its terms; a quotient is the
// product of the terms over that of the divisors, times a factor that only changes the unit. Each
// term has a unit and where it comes from: a source of the model or the profile, or which reader of
// the Job counts it. Nothing is computed a second time: terms are what the readers say.
//
//   time.step_s                   the parts of the step (sim/step_split.h)
//   time.step_split.PART          the operations, by role, that hold the step up with it
//   time.tokens_per_s             batch x sequence / step
//   time.model_tflops_per_gpu     model flop / (step x GPUs); hardware_tflops_per_gpu alike
//   time.mfu, time.hfu            the same over the peak
//   memory.TIER.peak_bytes        bytes by category at the fullest moment, and gaps
//   memory.TIER.free_bytes        what is usable less the peak, the reserve and the headroom
//   model.parameters              of plain decoders: layers, embeddings, the rest
// Leaves out: intervals, whose ends are of samples, and what a search says of its space.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/cost/throughput.h"
#include "planner/place/memory_report.h"
#include "planner/search/search.h"
#include "sim/step_split.h"

namespace zplan {

enum class TermUnit : std::uint8_t { kNone, kBytes, kSeconds, kFlops, kTflops, kShare, kPerSecond };

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
  std::vector<Term> made_of;  // buffers that are alive, operations that run: the largest first
};

// The number that the terms give.
double combined(const Explanation& explanation);

struct Explained {
  const Job& job;
  const ModelConfig& model;
  const Cluster& cluster;
  const MemoryUse& use;
  const MemoryReport& report;
  const sim::StepSplit& split;
  const Throughput& throughput;
  double model_flops = 0;  // of a step
};
std::vector<Explanation> explain(const Explained& plan);

}  // namespace zplan
