// How long the simulator takes for deep pipelines, with and without skipping what repeats, in one
// run; and how many events its queue handles where 100,000 are pending, many more than the lanes of
// any Job. Prints a table; asserts nothing but that skipping gives the same period.
//
//   perf_simulator_speed [RUNS]
//
// Goals: 0.1 s for 1T in 64 stages of 512 micro-steps, 2.2 million operations a step; 5 million
// operations per second of one core in full simulations, and as many events of the queue. CPU
// seconds, best of RUNS (default 5), placed Jobs, costs included.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <random>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/plan/plan.h"
#include "sim/event_queue.h"
#include "sim/simulate.h"

namespace zplan {
namespace {

constexpr double kGoalSeconds = 0.1;
constexpr double kGoalRate = 5e6;  // per second
constexpr std::int64_t kPending = 100'000;

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

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

Timed time_of(const Job& job, const Cluster& cluster, bool skip, int runs) {
  Timed best;
  sim::SimOptions options;
  options.skip_repetitions = skip;
  for (int run = 0; run < runs; ++run) {
    const double begin = cpu_seconds();
    best.result = sim::simulate(job, cluster, options);
    best.seconds = std::min(best.seconds, cpu_seconds() - begin);
  }
  return best;
}

// Events per second and core that leave the queue, each followed by a later one that enters it.
double queue_rate(int runs) {
  constexpr std::int64_t kEvents = 4'000'000;
  constexpr std::uint32_t kLongest = 1'000'000'000;  // ps
  double best = 0;
  for (int run = 0; run < runs; ++run) {
    std::minstd_rand random;
    const auto later = [&] { return SimTime{static_cast<std::int64_t>(random() % kLongest) + 1}; };
    sim::EventQueue<std::uint32_t, std::uint32_t> queue;
    for (std::uint32_t i = 0; i < kPending; ++i) queue.push(later(), i, i);
    const double begin = cpu_seconds();
    for (std::int64_t i = 0; i < kEvents; ++i) {
      const auto event = queue.pop();
      queue.push(event.time + later(), event.order, event.payload);
    }
    best = std::max(best, static_cast<double>(kEvents) / (cpu_seconds() - begin));
  }
  return best;
}

void report_queue(int runs) {
  const double rate = queue_rate(runs);
  fmt::print("{:.1f} million events per second at {} pending, goal {:.0f}: {}\n", rate / 1e6,
             kPending, kGoalRate / 1e6, rate >= kGoalRate ? "met" : "missed");
}

int run(int runs) {
  const Cluster cluster = load_cluster("dgx2x32");
  constexpr Case kCases[] = {{"1T", 5, 64, 512}, {"1T", 16, 32, 64}, {"100B", 64, 8, 128}};
  bool same = true;
  fmt::print("{:6} {:>6} {:>11} {:>9} {:>9} {:>9} {:>8} {:>8}\n", "model", "stages", "micro-steps",
             "full s", "Mops/s", "skip s", "skipped", "speed-up");
  for (const Case& c : kCases) {
    const Job job = job_of(c);
    const Timed full = time_of(job, cluster, false, runs), skip = time_of(job, cluster, true, runs);
    const double skipped =
        static_cast<double>(skip.result.skipped_ops) / static_cast<double>(skip.result.ops);
    fmt::print("{:6} {:6} {:11} {:9.3f} {:9.1f} {:9.3f} {:7.1f}% {:8.1f}\n", c.model, c.pp,
               c.micro_steps, full.seconds,
               static_cast<double>(full.result.ops) / full.seconds / 1e6, skip.seconds,
               100 * skipped, full.seconds / skip.seconds);
    same = same && full.result.period == skip.result.period;
    if (&c == kCases) {
      fmt::print("goal {} s: {}\n", kGoalSeconds, skip.seconds <= kGoalSeconds ? "met" : "missed");
    }
  }
  report_queue(runs);
  if (!same) fmt::print("the periods differ\n");
  return same ? 0 : 1;
}

}  // namespace
}  // namespace zplan

int main(int argc, char** argv) { return zplan::run(argc > 1 ? std::atoi(argv[1]) : 5); }
