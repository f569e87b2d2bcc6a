// What can be measured in minutes of the operations that plans rest on, and what each measurement
// would tell of the constants of the cost model (planner/cost/reliance.h).
//
//   products      the matrix product that most time goes to
//   attention     fused attention, or its product of scores and its softmax
//   streams       norms and activations, cross entropy, update: kernels bound by device memory
//   launches      the host's times
//   copies, update on the host, drives
//   collectives   of those within a node and of those between nodes the one with the most exposed
//                 time: with the share of its lane's time that nothing else hides
//
// One operation of each is read, of the first contender that has the kind: the one that takes most
// of a step. Of what its time rests on a benchmark tells what it exercises; shares that overlap
// hides are told by a step alone. All that `zplan calibrate` measures at once is one benchmark.
// How long they take is [assumed].
#pragma once

#include <string>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/certainty/knowledge.h"
#include "planner/certainty/suggest.h"
#include "planner/plan/plan.h"
#include "planner/program/job/job.h"
#include "sim/simulate.h"

namespace zplan {

// A plan that may be chosen.
struct Rival {
  Plan plan;
  Job job;
  std::uint64_t key = 0;  // as Contender
  sim::SimResult sim;     // with reliances
};

struct Benchmark {
  std::string what;              // "all_gather of 1.2 GiB over 128 ranks on 16 nodes"
  std::vector<std::string> run;  // command lines, or what to do, a line each
  double minutes = 0;
  Measurement measurement;
};

// `rivals`: the choice first.
std::vector<Benchmark> benchmarks(const std::vector<Rival>& rivals, const Cluster& cluster,
                                  const Evidence& evidence);
// Steps of one of them, on the whole cluster.
Benchmark step_benchmark(const std::vector<Rival>& rivals, std::size_t rival,
                         const Evidence& evidence);

// "ZeRO-1 gpu tp pp: dp 8, tp 8, pp 4, micro-batch 1"
std::string short_words(const Plan& plan);

}  // namespace zplan
