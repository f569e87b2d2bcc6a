// How long the simulator takes for deep pipelines, with and without skipping what repeats, in one
// run. Prints a table; asserts nothing but that both give the same period.
//
//   perf_simulator_speed [RUNS]
//
// Goal: 0.1 s for 1T in 64 stages of 512 micro-steps, 2.2 million operations a step. Best of RUNS
// (default 5), placed Jobs, costs included.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/plan/plan.h"
#include "sim/simulate.h"

namespace zplan {
namespace {

constexpr double kGoalSeconds = 0.1;

struct Case {
  const char* model;
  std::int32_t dp, pp;
  std::int64_t micro_steps;
};

Job job_of(const Case& c) {
  const ModelConfig model = load_model(c.model);
  Plan plan;
  plan.model = model.name;
  plan.parallel = {.dp = c.dp, .pp = c.pp};
  plan.zero_stage = 1;
  plan.recompute = {{Recompute::kFull, 0}};
  plan.kernel_set = "cuda.sm70.fp16";
  plan.precision = default_recipe(plan.kernel_set);
  plan.loss_scaling = true;
  plan.batch = {.global_batch = c.dp * c.micro_steps, .micro_batch = 1, .sequence = model.sequence};
  Job job = lower(plan, model);
  place(job, {.slack = plan.slack});
  return job;
}

struct Timed {
  double seconds = std::numeric_limits<double>::infinity();
  sim::SimResult result;
};

Timed time_of(const Job& job, const Cluster& cluster, bool skip, int runs) {
  Timed best;
  sim::SimOptions options;
  options.skip_repetitions = skip;
  for (int run = 0; run < runs; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    best.result = sim::simulate(job, cluster, options);
    const auto end = std::chrono::steady_clock::now();
    best.seconds = std::min(best.seconds, std::chrono::duration<double>(end - begin).count());
  }
  return best;
}

int run(int runs) {
  const Cluster cluster = load_cluster("dgx2x32");
  constexpr Case kCases[] = {{"1T", 5, 64, 512}, {"1T", 16, 32, 64}, {"100B", 64, 8, 128}};
  bool same = true;
  fmt::print("{:6} {:>6} {:>11} {:>9} {:>9} {:>8} {:>8}\n", "model", "stages", "micro-steps",
             "full s", "skip s", "skipped", "speed-up");
  for (const Case& c : kCases) {
    const Job job = job_of(c);
    const Timed full = time_of(job, cluster, false, runs), skip = time_of(job, cluster, true, runs);
    const double skipped =
        static_cast<double>(skip.result.skipped_ops) / static_cast<double>(skip.result.ops);
    fmt::print("{:6} {:6} {:11} {:9.3f} {:9.3f} {:7.1f}% {:8.1f}\n", c.model, c.pp, c.micro_steps,
               full.seconds, skip.seconds, 100 * skipped, full.seconds / skip.seconds);
    same = same && full.result.period == skip.result.period;
    if (&c == kCases) {
      fmt::print("goal {} s: {}\n", kGoalSeconds, skip.seconds <= kGoalSeconds ? "met" : "missed");
    }
  }
  if (!same) fmt::print("the periods differ\n");
  return same ? 0 : 1;
}

}  // namespace
}  // namespace zplan

int main(int argc, char** argv) { return zplan::run(argc > 1 ? std::atoi(argv[1]) : 5); }
