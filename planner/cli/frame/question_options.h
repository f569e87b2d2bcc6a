// What the command lines of several subcommands share: the question that a plan answers, the effort
// of a search, a plan file or the question in its place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/cli/frame/options.h"
#include "planner/cli/frame/pin_options.h"
#include "planner/cli/frame/syntax.h"

namespace zplan {

inline constexpr std::int64_t kMaxThreads = 1024;
inline constexpr std::int64_t kMaxSimulations = 1'000'000'000;

int all_threads();

// Throws Error unless model and cluster are named. `call`: what stands before its options.
void require_both(const PlanCommand& command, std::string_view call);

// Without what changes how the answer is found or shown, but not the plan.
std::vector<std::string> lasting(const std::vector<std::string>& arguments);

// --only and --not keep plans to conditions.
void add_constraints(Syntax& syntax, PlanCommand& command);
// Other hardware than the cluster's.
void add_changes(Syntax& syntax, std::vector<std::string>& changes);
// Adds --gpus N, the number of the cluster's GPUs that a plan uses. `names` may have an older name
// before it.
void add_gpus(Syntax& syntax, Pins& pins, const std::string& names = "--gpus");
// These add --measured, what a run took, and --of, the plan that ran
// (planner/cli/predict/measured_use.h).
void add_measured(Syntax& syntax, Measured& measured);
void add_measured_plan(Syntax& syntax, std::string& plan, const std::string& help);
// Throws Error where a plan is named of which nothing was measured.
void check_measured(const Measured& measured, const std::string& plan);
// This text closes the help of each subcommand that takes them.
inline constexpr const char* kMeasuredHelp =
    "\n--measured is what your run of a plan took; it calibrates the software, as a calibration "
    "run "
    "does:\n"
    "  5.2s, 850ms         a step                9500tok/s    of all GPUs; 9500tok/s/gpu: of one\n"
    "  412TFLOP/s, 38%MFU  per GPU, of model FLOPs: causal attention, without recomputation\n"
    "  61GiB               of the fullest GPU, as nvidia-smi shows it; 61GiB:reserved, "
    "61GiB:allocated:\n"
    "                      as torch.cuda.max_memory_reserved and max_memory_allocated say\n";
// What a plan is asked for.
void add_question(Syntax& syntax, PinOptions& pins, PlanCommand& command);
void add_effort(Syntax& syntax, PlanCommand& command);
// Parts of it, for what searches otherwise or only simulates.
void add_threads(Syntax& syntax, int& threads);
void add_headroom(Syntax& syntax, double& headroom);

// After the options of the subcommand those of pins; the help, where it was asked for. Throws Error
// unless model and cluster are named; `call` as require_both.
std::optional<ShowText> read_with_question(Syntax& syntax,
                                           const std::vector<std::string>& arguments,
                                           PinOptions& pins, PlanCommand& question,
                                           std::string_view call);

// The first option that pins a decision; empty: none does.
std::string pinned_option(const Pins& pins);

// A plan file, or the question that a plan answers.
void add_source(Syntax& syntax, PinOptions& pins, PlanSource& source);
// After the options of the subcommand those of pins; the help, where it was asked for.
std::optional<ShowText> read_with_source(Syntax& syntax, const std::vector<std::string>& arguments,
                                         PinOptions& pins, PlanSource& source);
// Throws Error unless there is one of the two, and nothing is pinned that a plan file has decided.
void require_one_source(const PlanSource& source, std::string_view subcommand);

// Throws Error: a plan file is expected.
[[noreturn]] void fail_without_plan(std::string_view subcommand);

}  // namespace zplan
