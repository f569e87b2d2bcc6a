// A lower bound of the step time shared by all plans that differ only in homes, gather unit,
// prefetch, sharding groups, pipeline schedule and in the ZeRO stage within {0, 1} or {2, 3}: they
// run the same forward, recomputation and backward kernels. The two pairs differ in how backward
// leaves gradients: the first adds to those of the micro-steps before, the second writes those of
// one micro-step. Of stage i
//
//   period >= sum over stages j < i of (f_j + b_j) + m (f_i + r_i + b_i) + turn
//
// f, r, b: time of one micro-batch in forward, recomputation and backward, m micro-steps: of the
// kernels, and of what these wait for collectives of the ranks that work on a layer together
// (pass_times.h). Waits count where the devices of a node meet alike, over a switch of peer links,
// nodes over a network without leaves, and the ranks that meet follow each other: the groups of a
// Job of one stage then meet as fast as any others.
// [derived] stage i begins when the first micro-batch has passed all stages before it, and the last
// one has to go back through them: the first stage computes in order, so the next step's first
// forward comes after this step's last backward there, whatever the schedule and whether the update
// is delayed or not. Of a stage passed on the way back only backward counts: it may recompute while
// it waits. Where a stage has several pieces of the model, or the gradients of weights come apart,
// its last backward need not come before those of the stages before it: then only its own m (f_i +
// r_i + b_i) counts.
//
// turn: what passes on the first stage, or on stage i by itself, from its last backward kernel to
// its first forward kernel of the next step: sums of gradients, the update, gathers
// (cost/step_cycle.h). It takes the plan's own Job, without which it counts as nothing.
//
// A walk through stage i's part of its own Job (cost/step_cycle.h), from its first forward kernel
// to its last backward kernel of a step, may take the place of m (f_i + r_i + b_i): it counts what
// kernels of the head wait for, and messages that wait for a slot of what backward reads.
//
// The stages of a pipeline run the kernels that one stage with all layers runs, so f, r, b come
// from a Job of one stage: the mean of its layers, its embedding, its head. Where layers are
// recomputed differently no recomputation is counted. Left out: the update, collectives of data
// parallelism, transfers, launches, zeroing, adding up gradients elsewhere.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "models/model_config.h"
#include "planner/cost/shared_wires.h"
#include "planner/plan/plan_schedule.h"
#include "planner/search/pass_times.h"

namespace zplan {

// A part of a floor, in words.
struct FloorTerm {
  std::string what;
  Seconds time{};
};

class TimeFloors {
 public:
  // `wires`: of the cluster (cost_model.h).
  TimeFloors(const ModelConfig& model, const Cluster& cluster, SharedWires* wires = nullptr)
      : model_(model), cluster_(cluster), wires_(wires) {}

  // Remembers what it has lowered. Safe to share between threads.
  // `stages`: in_flight_of_stages(plan). `turns`: of each stage, or none; zero where unknown.
  Seconds of(const Plan& plan, const StagePieces& stages, std::span<const Seconds> turns = {});
  // The first micro-batch through the stages before this one, and the last one back; nothing where
  // passes need not come in the order of the stages.
  std::optional<Seconds> before(const Plan& plan, const StagePieces& stages, std::size_t stage);
  // What it is made of where no turn is known: these add up to it, but for the tolerance of a
  // steady step.
  std::vector<FloorTerm> terms(const Plan& plan, const StagePieces& stages);

 private:
  // All that kernel times depend on.
  using Key = std::tuple<std::vector<std::int64_t>, bool, std::int32_t, bool, std::int32_t,
                         std::uint32_t, std::int32_t, std::int64_t, std::int64_t, int, bool, bool,
                         TrainedChoice, std::string, double, double, Dispatcher, bool, bool>;
  KernelTimes kernel_times(const Plan& plan);
  // With the waits that count.
  KernelTimes times_of(const Plan& plan);

  const ModelConfig& model_;
  const Cluster& cluster_;
  SharedWires* const wires_;
  std::mutex mutex_;
  std::map<Key, KernelTimes> known_;
};

Seconds time_floor(const Plan& plan, const ModelConfig& model, const Cluster& cluster);

}  // namespace zplan
