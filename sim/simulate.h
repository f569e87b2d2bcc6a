// simulate: runs a Job on a model of a Cluster and says how long a training step takes.
//
// A deterministic discrete-event simulation of one representative rank per class. Lanes take their
// ops in program order; an op starts when
//   its lane is free, its thresholds are met (cursor.h), the host has launched it (launch_queue.h)
//   and, for sends, receives and collectives over several classes, all members stand ready.
// It ends after its fixed time, or after its latency and its flow through the shared links
// (flow_network.h). Costs come from planner/cost. Picoseconds; events in order (time, class, lane).
//
// Steps follow each other without a pause. `period` is the time between the ends of two successive
// steps in the steady state: the simulation stops when two successive periods agree within
// kSteadyTolerance, but not before `min_steps`; after `max_steps` it takes the mean of the last
// half. It is never below the time any one lane needs for a step, nor any link or launch queue, nor
// the longest path through a step (planner/cost/step_cycle.h): what drains only slowly from a cold
// start is not mistaken for the steady state.
//
// The k-th send of a class on a lane meets the k-th receive of its peer on that lane; collectives
// over several classes meet by order within (lane, group).
// Collectives and copies beside an op of the compute lane slow it by their rates of the stack
// (OpCost::slowdown). Left out: ranks of a class that drift apart, failures.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/core/units.h"
#include "planner/cost/cost_model.h"
#include "planner/program/job/job.h"
#include "planner/program/timeline/timeline.h"

namespace zplan::sim {

inline constexpr double kSteadyTolerance = 1e-6;
// [derived] The period is taken as steady within that tolerance, which may have either sign: by so
// much a lower bound of the steady one may be above what is reported. Sums of doubles are exact to
// much less.
inline constexpr double kLeastOfSteady = 1 - 2 * kSteadyTolerance;

struct SimOptions {
  int min_steps = 3;
  int max_steps = 6;
  bool record_timeline = false;
  bool find_reliances = false;
  bool split_by_op = false;      // SimResult::split.ops
  bool skip_repetitions = true;  // exactly (steady_loop.h, steady_step.h); never with a timeline
  // Above 0, iterations are skipped, too, where all classes go at one pace within this share
  // (steady_loop.h), and successive periods agree when they do so within it.
  double tolerance = 0;
  std::string fingerprint;     // of the placed Job, for the Timeline
  bool fold_timeline = false;  // planner/program/timeline/fold.h
};

// All of one step in the steady state; shares are fractions of the period.
struct LaneReport {
  int stage = 0;
  Lane lane = Lane::kCompute;
  double busy_share = 0;
  Seconds busy{};
  Seconds exposed{};      // busy while the compute lane is idle
  Seconds latency{};      // part of busy: before the first byte of transfers
  Seconds peer_wait{};    // ready, other members not
  Seconds reuse_wait{};   // waits for nothing but reuse edges
  Seconds launch_wait{};  // waits for nothing but its launch
};

struct LinkReport {
  std::string name, kind;
  double utilisation = 0;  // bytes moved / bytes it could have moved
  double busy_share = 0;   // time with at least one transfer
};

// Where the time of a stage goes. Every instant counts once: as compute while the compute lane is
// busy; else as what the op at the head of that lane waits for, followed from lane to lane back to
// an op that runs. Where it ends at an op that stands ready but lacks its peers, it is a wait.
enum class TimePart : std::uint8_t {
  kCompute,
  kTensor,        // collectives between ranks that work on a layer together
  kGatherReduce,  // other collectives
  kPipeline,      // transfers between stages
  kCopies,        // between host and device
  kCpu,           // kernels on the host: updates, batches
  kIoRead,
  kIoWrite,
  kWait,  // for other stages: the pipeline bubble
  kLaunch,
};
inline constexpr int kTimePartCount = 10;
std::string_view name(TimePart part);  // "exposed communication within layers"

// What of an operation the compute lane is held by at a moment: that it runs, that it stands ready
// and lacks its peers, or that the host has not launched it.
enum class HeldBy : std::uint8_t { kOp, kPeers, kLaunch };
inline constexpr int kHeldByCount = 3;

// The moments of a step that are due to a node of the stage's Program, all its instances together.
struct HeldTime {
  NodeIndex node = 0;
  HeldBy by = HeldBy::kOp;
  SimTime time{0};
};

// One step of the stage with the busiest compute lane; all parts add up to the period.
struct TimeSplit {
  int stage = 0;
  std::array<Seconds, kTimePartCount> parts{};  // by TimePart
  // The same time by operation, in node order, without those that hold up nothing: of `steps`
  // steps, which together take `time`, to the picosecond. Empty unless asked for.
  std::vector<HeldTime> ops{};
  int steps = 1;
  SimTime time{0};
};

// A resource and the share of the period it is in use. Candidates: the compute and CPU lanes, links
// (utilisation), the launching host, fixed latencies of one lane, the pipeline bubble (waits of the
// busiest stage).
struct Limit {
  std::string resource;
  double share = 0;
};

struct SimResult {
  Seconds first_step{};  // cold
  Seconds period{};
  Seconds spread{};               // of the paces, over what of a step was skipped at them
  int steps = 0;                  // simulated
  bool steady = false;            // periods agreed
  std::int64_t ops = 0;           // completed
  std::int64_t skipped_ops = 0;   // of them, known without being simulated
  std::vector<LaneReport> lanes;  // by (stage, lane); lanes without ops left out
  std::vector<LinkReport> links;  // that carried something
  std::vector<Limit> limits;      // greatest share first
  std::string limited_by;         // limits.front()
  TimeSplit split;                // of the busiest stage; adds up to the period
  Timeline timeline;              // whole steps only; empty unless asked for
  // d log(period) / d log(constant), by Constant (reliance.h); empty unless asked for.
  std::vector<double> reliances;
};

// Throws Error when the cluster cannot run the job (cost_model.h) or the lanes wait for each other.
SimResult simulate(const Job& job, const Cluster& cluster, const SimOptions& options = {});
SimResult simulate(const CostModel& model, const SimOptions& options = {});

}  // namespace zplan::sim
