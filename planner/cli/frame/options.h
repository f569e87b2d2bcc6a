// What was typed, as one plain struct per subcommand. Reading it (subcommands.h) decides the
// syntax: names, types and ranges of options. Whether models, clusters and files exist is found out
// by the commands.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "exec/offload/storage.h"
#include "planner/program/timeline/comparison.h"
#include "planner/search/family_words.h"
#include "planner/search/grid.h"
#include "planner/search/questions/objective.h"
#include "planner/search/search.h"
#include "planner/validate/measured.h"

namespace zplan {

// [assumed] what allocators lose to fragmentation
inline constexpr double kUsualHeadroom = 0.05;
// Millions of operations that a search may simulate.
inline constexpr std::int64_t kUsualBudget = 20, kMostBudget = 1'000'000'000;

// Paths are empty when not given.
struct PlanCommand {
  std::string model, cluster;
  std::string stack;                 // empty: our own
  std::string anchor;                // measured runs of the user's own
  Measured measured;                 // of a run of one plan
  std::string measured_plan;         // which one; empty: see planner/cli/predict/measured_use.h
  std::vector<std::string> changes;  // of the cluster, "nvme=50GB/s" (hwprofiles/quantities.h)
  Pins pins;
  std::vector<std::string> only, never;  // constraints (planner/plan/constraint.h)
  std::optional<Bytes> most_gpu_memory;  // that a plan may take, with the reserve
  ObjectiveQuestion objective;
  double tokens = 0;     // of the whole run; 0: not given
  double price = -1;     // of a GPU-hour, in any currency; negative: not given
  std::string output;    // the Plan
  std::int64_t top = 0;  // of the plans simulated so many are listed
  bool pareto = false;   // those that no other plan simulated beats
  int threads = 1;
  std::optional<std::int64_t> simulations;  // at most; none: as many as the budget allows
  std::optional<std::int64_t> budget;       // millions of operations
  Seconds time{-1};                         // that the search may take; negative: any
  double headroom = kUsualHeadroom;         // share of a device's memory to leave free
  bool exhaustive = false;
  bool ignore_capacity = false;
  bool timing = false;
  bool sources = false;       // whole citations
  bool must_be_said = false;  // pins that the software's files cannot say are refused
  bool details = false;       // all that is known, in place of the first screen
  bool json = false;
  bool bundle = false;                 // what is written has model and hardware in it
  std::vector<std::string> arguments;  // that decide the plan, as typed: to show how to go on
};

// A plan from a file or, where there is none, the one that `zplan plan` finds.
struct PlanSource {
  std::string plan;
  // Beside a file its cluster (empty: the one that the plan names), stack, calibration runs,
  // headroom, whether capacity is ignored and threads count, and nothing is pinned.
  PlanCommand question;
};

struct SimulateCommand {
  PlanSource source;
  std::string trace, timeline;
  std::optional<int> steps;  // empty: until the step time is steady
  bool homes = false;        // compare those of what is kept for backward
  bool json = false;
  bool trace_all = false;  // the whole timeline, not one step of one rank per stage
  std::string memory_viz;  // the lifetimes as a PyTorch memory snapshot
};

struct MemoryCommand {
  PlanSource source;
  bool deepspeed = false;
  bool json = false;
};

struct BandwidthCommand {
  PlanSource source;
  bool paper = false;  // ZeRO-Infinity's own figures, of no plan
  bool json = false;
};

struct SweepCommand {
  struct Question {
    std::vector<std::string> at;  // a value per axis
    PlanCommand command;
  };
  std::vector<GridAxis> axes;
  std::vector<Question> questions;
  bool csv = false;
  bool json = false;
};

struct WhatIfCommand {
  PlanCommand question;  // with what is changed
  bool json = false;
};

struct SensitivityCommand {
  PlanSource source;
  bool check = false;
  bool json = false;
};

struct DiffCommand {
  std::string before, after;  // plans
  std::string cluster;        // of both; empty: those that they name
  std::string stack;          // of both; empty: our own
  double headroom = kUsualHeadroom;
  bool json = false;
};

struct LowerCommand {
  PlanSource source;
  std::string output;
  bool no_place = false;
};

enum class BackendChoice : std::uint8_t { kAsPlanned, kCpu, kCuda };

struct RunCommand {
  std::string plan;
  std::string data;                   // empty: the sample text
  std::string train;                  // empty: the defaults of TrainConfig
  std::string validate;               // data that is not trained on; empty: none
  std::int64_t validate_every = 0;    // steps; 0: at the end alone
  std::int64_t validate_batches = 0;  // global batches; 0: some
  std::string trace, timeline;
  std::string dtype;  // "f32", "f64"; empty: that of the plan's kernel set
  std::optional<std::uint64_t> seed;
  int steps = 10;
  int threads_per_rank = 1;
  BackendChoice backend = BackendChoice::kAsPlanned;
  int comm_timeout_seconds = 600;
  std::string nvme_directory;  // empty: none
  exec::IoMethod io = exec::IoMethod::kAuto;
  bool check = false;
  bool ignore_capacity = false;
  bool test_mode = false;
  bool json = false;
  bool trace_all = false;       // as SimulateCommand
  std::string save;             // folder of checkpoints; empty: none
  std::int64_t save_every = 0;  // steps; 0: at the end alone
  std::int64_t keep = 0;        // checkpoints; 0: all
  bool resume = false;          // from the newest of `save`
  std::string resume_from;      // a folder of checkpoints, or one
  std::string log;              // a JSON line per step; empty: none
  std::string weights;          // folder of transformers that training begins with; empty: none
  std::string export_to;        // one that is written at the end; empty: none
};

struct CompareCommand {
  std::string simulated, executed;  // timelines
  JoinBy join = JoinBy::kOperation;
  bool json = false;
};

struct ValidateCommand {
  std::string runs;    // the records
  std::string group;   // empty: all
  std::string stack;   // empty: each record's own
  std::string anchor;  // measured runs of the user's own
  std::string html;    // the page
  // Per cent that a run, or the runs of a group on average, may be off by.
  std::optional<double> most_off, most_mean_off;
  std::string baseline;              // an earlier answer in JSON
  std::optional<double> most_worse;  // percentage points; only beside a baseline
  int threads = 1;
  bool json = false;
};

struct ModelsCommand {
  std::string name;  // empty: the catalogue
  bool json = false;
};

// The softwares that plans are made for.
struct SoftwareCommand {
  std::string name;  // empty: all
  bool json = false;
};

struct RunsCommand {
  std::string convert;  // a file of records
};

struct ClustersCommand {
  std::string name;  // empty: the catalogue
  bool json = false;
};

struct DoctorCommand {
  std::string nvme_directory;  // empty: none
  bool json = false;
};

enum class DeviceChoice : std::uint8_t { kCpu, kCuda };

struct CalibrateCommand {
  DeviceChoice device = DeviceChoice::kCpu;
  std::vector<std::string> imports;  // files of other tools; then nothing is measured
  std::string base;                  // a kind of node; empty: workstation or dgx-h100
  std::string output;                // the profile
  std::string nvme_directory;        // on the drive to measure; empty: none
  bool quick = false;
  bool json = false;
};

// calibrate --suggest
struct SuggestCommand {
  PlanCommand question;  // of which plan one would like to be surer
};

// The largest model of a cluster, by family of plans.
struct MaxCommand {
  std::string cluster;
  std::string stack;                  // empty: our own
  Pins pins;                          // batch and recipe
  std::vector<std::string> families;  // empty: all
  int threads = 1;
  double headroom = kUsualHeadroom;
  bool no_times = false;  // do not simulate what is found
  bool json = false;
};

// How often a cluster fails and what that costs; negative: as published or from the hardware.
struct FailureSettings {
  Seconds device_mtbf{-1}, restart{-1};
  BytesPerSecond storage{-1};  // shared by all nodes; else the drives of the nodes
  double stragglers = 1;       // time of a step over that of the simulated one
};

// What running costs; negative: as the profile of the nodes says, if it does.
struct RunningSettings {
  double price = -1;       // of a GPU-hour
  double node_watts = -1;  // that a node draws
};

// Days for a number of tokens, with failures.
struct GoodputCommand {
  PlanSource source;
  double tokens = 0;
  FailureSettings failures;
  RunningSettings running;
  bool published = false;  // the worked example, of no plan
  bool json = false;
};

// The fewest nodes that train a model.
struct NeedCommand {
  PlanCommand question;
  std::vector<std::string> kinds;  // of nodes; empty: all that have GPUs
  double tokens = 0;
  Seconds within{-1};  // negative: any time
  RunningSettings running;
  std::optional<std::int64_t> most_nodes;  // of a kind; none: as many as make 32,768 GPUs
  FailureSettings failures;
};

// Of a plan, what a number of its answer is made of.
struct ExplainCommand {
  PlanSource source;
  std::string what;  // "time.step_s"; empty: which ones there are
  bool json = false;
};

// Why the plan that is recommended is not one of this family, or with these pins.
struct WhyNotCommand {
  PlanCommand question;
  FamilyWords family;
};

// A plan as the configuration of a training framework.
struct ExportCommand {
  PlanSource source;
  std::string target;     // the framework
  std::string directory;  // empty: nothing is written
  bool json = false;
};

// What a framework's configuration comes to.
struct CheckCommand {
  std::string config;
  PlanCommand question;  // with what the configuration leaves open
  std::string adapter;   // PEFT's adapter_config.json; empty: none
  bool with_trainer = false;
  bool json = false;
};

// The page that shows plans, the first one in detail.
struct ReportCommand {
  std::vector<std::string> plans;
  PlanCommand question;  // that finds the plan where no file is given
  std::string cluster;   // of all; empty: those that they name
  std::string stack;     // of all; empty: our own
  std::string timeline;  // of a run of the first plan
  Measured measured;     // numbers of one
  std::string output;    // the page
  double headroom = kUsualHeadroom;
  int threads = 1;
  std::vector<std::string> arguments;  // as typed
};

// --help and --version.
struct ShowText {
  std::string text;
};

using Command =
    std::variant<ShowText, PlanCommand, SimulateCommand, MemoryCommand, BandwidthCommand,
                 LowerCommand, RunCommand, CompareCommand, ValidateCommand, RunsCommand,
                 ModelsCommand, SoftwareCommand, ClustersCommand, DoctorCommand, CalibrateCommand,
                 SuggestCommand, SweepCommand, WhatIfCommand, SensitivityCommand, DiffCommand,
                 MaxCommand, GoodputCommand, NeedCommand, ExplainCommand, WhyNotCommand,
                 ExportCommand, CheckCommand, ReportCommand>;

// `arguments` without the name of the program. Throws Error(kBadInput), one line.
Command parse_arguments(const std::vector<std::string>& arguments);

}  // namespace zplan
