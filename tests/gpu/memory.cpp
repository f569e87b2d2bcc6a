// Predicted device memory: slabs of all ranks, which the job says, and the reserve, which is what a
// process of the smallest model takes beside its slabs. Both are seen from outside: this process
// compares what is free before and while another one trains. The other one loads its modules
// eagerly and stops after two steps, when all communicators have been used, and after the last.
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "planner/core/error.h"
#include "planner/core/quantity.h"
#include "tests/gpu/parts.h"
#include "tests/gpu/training.h"
#include "tests/support/plan_space.h"

extern char** environ;

namespace zplan::gpu {
namespace {

constexpr int kSteps = 6, kFirstHold = 1;
constexpr double kShare = 0.02;                  // of what is predicted
constexpr Bytes kFloor{std::int64_t{64} << 20};  // or so much, whichever is more

struct HeldPlan {
  const char* name;
  const char* model;
  std::int32_t dp;
  int zero;
  std::int64_t sequence;
};
// Those that begin with "reserve" measure the reserve of the one that follows.
constexpr HeldPlan kPlans[] = {
    {"reserve-1", "tiny-gpt", 1, 0, 32},
    {"gpt2-124m", "gpt2-124m", 1, 0, 1024},
    {"reserve-2", "tiny-gpt", 2, 3, 32},
    {"gpt2-124m-zero3", "gpt2-124m", 2, 3, 1024},
};

Plan plan_of(const HeldPlan& held, const std::string& kernel_set) {
  Plan plan = testing_support::base_plan(kernel_set, held.model);
  plan.parallel.dp = held.dp;
  plan.zero_stage = held.zero;
  plan.batch = {.global_batch = 4 * held.dp, .micro_batch = 4, .sequence = held.sequence};
  return plan;
}

Bytes slabs_of(const Job& job) {
  Bytes sum{0};
  for (const RankClass& c : job.classes)
    sum += c.placement.slab[static_cast<std::size_t>(Tier::kGpu)] * job.replicas();
  return sum;
}

// This program once more, holding a plan; it is waited for when the object goes.
class Holder {
 public:
  Holder(const std::string& self, const std::string& plan) {
    std::array<int, 2> in{}, out{};
    if (pipe(in.data()) != 0 || pipe(out.data()) != 0) fail("cannot make a pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    for (const int end : {in[0], in[1], out[0], out[1]})
      posix_spawn_file_actions_addclose(&actions, end);
    std::string program = self, option = "--hold", what = plan;
    char* arguments[] = {program.data(), option.data(), what.data(), nullptr};
    const int result = posix_spawn(&process_, self.c_str(), &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    to_ = in[1];
    from_ = out[0];
    if (result != 0) fail("cannot start " + self);
  }
  ~Holder() {
    close(to_);
    close(from_);
    if (process_ > 0) waitpid(process_, nullptr, 0);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

  // Until it holds.
  void await() {
    char byte = 0;
    if (read(from_, &byte, 1) != 1) fail("it ended early, see its message above");
  }
  void go_on() {
    const char byte = '\n';
    if (write(to_, &byte, 1) != 1) fail("it is gone");
  }

 private:
  [[noreturn]] static void fail(const std::string& why) {
    throw Error(ExitCode::kDevice, "the process whose memory is looked at: " + why);
  }
  pid_t process_ = 0;
  int to_ = -1, from_ = -1;
};

// Memory that a process takes, at its two holds.
std::array<Bytes, 2> taken_by(const Target& target, const PartOptions& options,
                              const HeldPlan& held) {
  const Bytes before = target.driver->memory().free;
  Holder holder(options.self, held.name);
  std::array<Bytes, 2> taken{};
  for (Bytes& bytes : taken) {
    holder.await();
    bytes = before - target.driver->memory().free;
    holder.go_on();
  }
  return taken;
}

void compare(const HeldPlan& held, Bytes predicted, std::array<Bytes, 2> taken, Bytes reserve,
             Report& report) {
  constexpr double kMib = 1 << 20;
  const double allowed =
      std::max(kShare * static_cast<double>(predicted.value), static_cast<double>(kFloor.value));
  const auto difference = static_cast<double>(taken[0].value - predicted.value);
  report.add(
      {.part = "memory",
       .name = std::string(held.name) + " beside its prediction",
       .figure = std::abs(difference) / kMib,
       .unit = "MiB",
       .relation = Goal::kAtMost,
       .goal = allowed / kMib,
       .note = fmt::format("{} in use, {} predicted, of it {} reserve", format_bytes(taken[0]),
                           format_bytes(predicted), format_bytes(reserve))});
  report.add({.part = "memory",
              .name = std::string(held.name) + " grown by steps",
              .figure = static_cast<double>(taken[1].value - taken[0].value) / kMib,
              .unit = "MiB",
              .relation = Goal::kAtMost,
              .goal = 0});
}

}  // namespace

void check_memory(const Target& target, const PartOptions& options, Report& report) {
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);  // of the processes started here
  Bytes reserve{0};
  for (const HeldPlan& held : kPlans) {
    const Bytes slabs = slabs_of(placed_job(plan_of(held, target.bf16)));
    const auto taken = taken_by(target, options, held);
    if (std::string_view(held.name).starts_with("reserve")) {
      reserve = taken[0] - slabs;
      report.add({.part = "memory",
                  .name = held.name,
                  .figure = static_cast<double>(reserve.value) / (1 << 20),
                  .unit = "MiB",
                  .note = fmt::format("{} rank{}", held.dp, held.dp > 1 ? "s" : "")});
    } else {
      compare(held, slabs + reserve, taken, reserve, report);
    }
  }
}

void hold_memory(const Target& target, const std::string& what) {
  const auto held = std::find_if(std::begin(kPlans), std::end(kPlans),
                                 [&](const HeldPlan& plan) { return plan.name == what; });
  if (held == std::end(kPlans)) throw_bad_input("no plan to hold is called " + what);
  exec::RunOptions options;
  options.steps = kSteps;
  options.device = target.device;
  options.step_done = [](std::int64_t step, const exec::StepResult&) {
    if (step != kFirstHold && step != kSteps - 1) return;
    std::cout.put('.').flush();
    std::cin.get();
  };
  train(plan_of(*held, target.bf16.empty() ? target.fp32 : target.bf16), options, "");
}

}  // namespace zplan::gpu
