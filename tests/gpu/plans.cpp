// Several ranks are threads of one process, all on one device, and launch no graphs. The tolerances
// in fp32 are those of tests/crosscheck/cover/one_rank.cpp, between plans on the CPU: another
// order of summation. Those of 16-bit recipes are those of tests/crosscheck/recipes_test.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <limits>
#include <map>
#include <random>
#include <string_view>

#include "planner/program/kernels/kernel_set.h"
#include "tests/gpu/canary.h"
#include "tests/gpu/parts.h"
#include "tests/gpu/training.h"
#include "tests/support/plan_cover.h"
#include "tests/support/plan_space.h"

namespace zplan::gpu {
namespace {

using testing_support::Choice;

constexpr int kSteps = 10;
constexpr std::chrono::seconds kDeadline{10};  // [assumed] a hundred times what a step takes
constexpr double kF32 = 1e-5, kF32Keys = 1e-6, kF32Way = 1e-3;
constexpr double kBf16 = 4e-3, kFp16 = 5e-4;  // of the loss
constexpr double kFp8 = 4e-3;                 // as in bf16, of which all but the products is

// The cover without what is not compared here: sets of other types, attention that stores its
// scores, updates that come late, other optimizers, parameters that do not train; shuffled, so that
// runs that are cut short see different plans.
std::vector<Choice> choices(std::uint64_t seed) {
  std::vector<Choice> all;
  for (Choice c : testing_support::pairwise_choices()) {
    for (const char* plain : {"/kernel_set", "/delayed_update", "/optimizer/kind", "/train/what"})
      c[testing_support::factor(plain)] = 0;
    int& schedule = c[testing_support::factor("/parallel/schedule")];
    for (const Schedule late : {Schedule::kDoubleBuffered, Schedule::kWeightStashing})
      if (static_cast<Schedule>(schedule) == late) schedule = 0;
    if (testing_support::is_legal(c) && std::find(all.begin(), all.end(), c) == all.end())
      all.push_back(c);
  }
  std::shuffle(all.begin(), all.end(), std::mt19937_64(seed));
  return all;
}

exec::RunOptions steps(const Target& target, int count) {
  exec::RunOptions options;
  options.steps = count;
  options.device = target.device;
  options.comm_deadline = kDeadline;
  return options;
}

// Graphs give the bits of streams, on devices whose ranks may launch them.
void compare_graphs(const Target& target, const PartOptions& options, const Plan& plan,
                    const Trained& streams, Deviation& worst) {
  if (streams.job.world() > 1 && !target.device->ranks_may_share_graphs()) return;
  exec::RunOptions same = steps(target, kSteps);
  for (const exec::KernelChoice& choice : streams.result.choices)
    if (!choice.key.empty()) same.choices[choice.key] = choice.value;
  const auto graphs = train(plan, same, options.directory, LaunchMode::kGraph);
  if (const std::string bits = different_bits(streams, *graphs); !bits.empty())
    worst.take(std::numeric_limits<double>::infinity(), "graphs give other bits: " + bits);
}

// What CUDA has no kernel for, or not so many queues, is no fault.
bool is_left_out(const std::exception& error) {
  const std::string_view what = error.what();
  return what.find("no CUDA kernel") != what.npos || what.find("more streams") != what.npos;
}

// One rank in fp32 on the CPU.
struct Reference {
  std::unique_ptr<Trained> trained;
  Tensors gradients, start, end;
};

const Reference& reference(Plan plan, const std::string& directory) {
  static std::map<std::string, Reference> known;
  plan.kernel_set = "cpu.f32";
  plan = testing_support::on_one_rank(plan);
  const auto [entry, is_new] = known.try_emplace(to_json(plan));
  if (is_new) {
    exec::RunOptions options;
    options.steps = 0;
    entry->second.start = parameters(*train(plan, options, directory));
    entry->second.gradients = first_step(plan, {}, directory).gradients;
    options.steps = kSteps;
    entry->second.trained = train(plan, options, directory);
    entry->second.end = parameters(*entry->second.trained);
  }
  return entry->second;
}

void try_plan(const Target& target, const PartOptions& options, const Choice& choice,
              Report& report) {
  const Plan plan = testing_support::plan_of(choice, target.fp32);
  const Reference& expected = reference(plan, options.directory);
  const auto streams = train(plan, steps(target, kSteps), options.directory);
  const FirstStep first = first_step(plan, steps(target, 1), options.directory);
  Deviation worst;
  compare_losses(*streams, *expected.trained, kF32, worst);
  compare_gradients(first.gradients, expected.gradients, kF32, kF32Keys, worst);
  compare_parameters(parameters(*streams), expected.end, expected.start, kF32Way, worst);
  if (const auto copies = exec::replica_mismatch(streams->job, streams->result.memory))
    worst.take(std::numeric_limits<double>::infinity(), "copies differ: " + *copies);
  compare_graphs(target, options, plan, *streams, worst);
  report.add({.part = "plans",
              .name = testing_support::name_of(choice),
              .figure = worst.share,
              .unit = "of tolerance",
              .relation = Goal::kAtMost,
              .goal = 1,
              .note = fmt::format("{} rank{}; {}", streams->job.world(),
                                  streams->job.world() > 1 ? "s" : "", worst.what)});
}

// Calls try_one(choice) for the cover until the time is over, and says how far it came.
template <typename TryOne>
void over_the_cover(const std::string& part, const PartOptions& options, Report& report,
                    const TryOne& try_one) {
  const Clock clock;
  const std::vector<Choice> all = choices(options.seed);
  std::size_t done = 0, left_out = 0;
  for (const Choice& choice : all) {
    if (clock.seconds() > options.seconds) break;
    try {
      try_one(choice);
    } catch (const std::exception& error) {
      if (is_left_out(error)) {
        ++left_out;
        continue;
      }
      report.fail(part, testing_support::name_of(choice), error.what());
    }
    ++done;
  }
  report.add(
      {.part = part,
       .name = "plans of the cover",
       .figure = static_cast<double>(done),
       .note = fmt::format("of {}; {} more have no kernels or queues here", all.size(), left_out)});
}

struct Recipe {
  const std::string& set;
  const char* cpu_set;
  const char* recipe;
  double allowed;
};

Plan plan_with(const std::string& set, const char* recipe) {
  Plan plan = testing_support::base_plan(set);
  plan.precision = *find_recipe(recipe, set);
  plan.loss_scaling = find_kernel_set(set).loss_scaling;
  plan.batch.micro_batch = 2;
  return plan;
}

void try_recipe(const Target& target, const PartOptions& options, const Recipe& recipe,
                Report& report) {
  exec::RunOptions on_cpu;
  on_cpu.steps = kSteps;
  const auto expected = train(plan_with(recipe.cpu_set, recipe.recipe), on_cpu, options.directory);
  Deviation worst;
  for (const int zero : {0, 3})
    for (const Tier optimizer : {Tier::kGpu, Tier::kCpu}) {
      if (!target.tries_all() && (zero > 0) != (optimizer == Tier::kCpu)) continue;
      Plan plan = plan_with(recipe.set, recipe.recipe);
      plan.zero_stage = zero;
      plan.parallel.dp = zero > 0 ? 2 : 1;
      plan.placement.optimizer = optimizer;
      const auto streams = train(plan, steps(target, kSteps), options.directory);
      compare_losses(*streams, *expected, recipe.allowed, worst);
      compare_graphs(target, options, plan, *streams, worst);
    }
  report.add({.part = "recipes",
              .name = fmt::format("{} {}", recipe.set, recipe.recipe),
              .figure = worst.share,
              .unit = "of tolerance",
              .relation = Goal::kAtMost,
              .goal = 1,
              .note = fmt::format("losses, allowed {:.2g}; {}", recipe.allowed, worst.what)});
}

}  // namespace

void check_plans(const Target& target, const PartOptions& options, Report& report) {
  over_the_cover("plans", options, report,
                 [&](const Choice& choice) { try_plan(target, options, choice, report); });
}

void check_first_steps(const Target& target, const PartOptions& options, Report& report) {
  struct Start {
    Plan plan;
    LaunchMode launch;
  };
  std::vector<Start> starts;
  for (const Choice& choice : choices(options.seed)) {
    const Plan plan = testing_support::plan_of(choice, target.fp32);
    if (plan.parallel.ranks() < 2) continue;
    starts.push_back({plan, LaunchMode::kStream});
    if (target.device->ranks_may_share_graphs()) starts.push_back({plan, LaunchMode::kGraph});
  }
  const Clock clock;
  std::size_t next = 0;
  int runs = 0, failures = 0;
  std::string first;
  while (!starts.empty() && clock.seconds() < options.seconds) {
    next %= starts.size();
    try {
      train(starts[next].plan, steps(target, 1), options.directory, starts[next].launch);
    } catch (const std::exception& error) {
      if (is_left_out(error)) {
        starts.erase(starts.begin() + static_cast<std::ptrdiff_t>(next));
        continue;
      }
      if (++failures == 1) first = fmt::format("; {}", error.what());
    }
    ++next;
    ++runs;
  }
  report.add(
      {.part = "first-steps",
       .name = "runs of ranks that share the device",
       .figure = static_cast<double>(failures),
       .unit = "failed",
       .relation = Goal::kAtMost,
       .goal = 0,
       .note = fmt::format("of {}; {} plans and launch modes{}", runs, starts.size(), first)});
}

void check_canaries(const Target& target, const PartOptions& options, Report& report) {
  over_the_cover("canaries", options, report, [&](const Choice& choice) {
    const Plan plan = testing_support::plan_of(choice, target.fp32);
    exec::RunOptions run = steps(target, 2);
    run.mode = exec::RunMode::kSerial;
    const Job job = placed_job(plan);
    Canary canary(job, target.device);
    run.observer = [&](const exec::NodeEvent& event) { canary.check(event); };
    train(plan, run, options.directory);
    report.add({.part = "canaries",
                .name = testing_support::name_of(choice),
                .figure = static_cast<double>(canary.findings()),
                .unit = "operations",
                .relation = Goal::kAtMost,
                .goal = 0,
                .note = fmt::format("of {}{}", canary.operations(), canary.first_finding())});
  });
}

void check_recipes(const Target& target, const PartOptions& options, Report& report) {
  const Recipe recipes[] = {
      {target.bf16, "cpu.bf16", "standard", kBf16},
      {target.bf16, "cpu.bf16", "fp32-gradients", kBf16},
      {target.bf16, "cpu.bf16", "main-gradients", kBf16},
      {target.bf16, "cpu.bf16", "lean", kBf16},
      {target.fp16, "cpu.fp16", "standard", kFp16},
      {target.fp16, "cpu.fp16", "fp32-gradients", kFp16},
      {target.fp16, "cpu.fp16", "main-gradients", kFp16},
      {target.fp8, "cpu.f32.fp8.whole", "standard", kFp8},
  };
  for (const Recipe& recipe : recipes) {
    if (recipe.set.empty()) continue;
    try {
      try_recipe(target, options, recipe, report);
    } catch (const std::exception& error) {
      report.fail("recipes", fmt::format("{} {}", recipe.set, recipe.recipe), error.what());
    }
  }
}

}  // namespace zplan::gpu
