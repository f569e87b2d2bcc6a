// Engine: the event loop of the simulator. Owns the state of all classes, the event queue and the
// flow network; simulate.h states the model, report.h reads the results.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/cost/cost_model.h"
#include "sim/class_state.h"
#include "sim/critical_path.h"
#include "sim/event_queue.h"
#include "sim/flow_network.h"
#include "sim/meetings.h"
#include "sim/simulate.h"
#include "sim/steady_loop.h"
#include "sim/steady_step.h"

namespace zplan::sim {

// Totals since the start, taken when a step has ended.
struct StepMark {
  SimTime end{0};
  std::int64_t ops = 0;
  std::vector<StageClock> clocks;  // by class
  std::vector<LinkUsage> links;
  std::vector<std::vector<LaneTimes>> times;  // by lane of all classes, by step
  std::vector<double> path;                   // that led to the end (critical_path.h)
  SimTime spread{0};                          // of the paces at which iterations were skipped
};

class Engine {
 public:
  Engine(const CostModel& model, const SimOptions& options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Runs until the next step has ended in all classes. Throws Error when nothing can move any more.
  const StepMark& run_step();

  const CostModel& model() const { return model_; }
  const std::vector<StepMark>& marks() const { return marks_; }
  const std::deque<ClassState>& classes() const { return classes_; }
  std::int64_t ops() const { return ops_; }
  std::int64_t skipped_ops() const { return skipped_ops_; }

 private:
  struct SlotState {
    ClassState* own = nullptr;
    LaneState* lane = nullptr;
  };
  ClassState& class_of(Slot slot) const { return *slots_[slot].own; }
  LaneState& lane_of(Slot slot) const { return *slots_[slot].lane; }
  std::uint32_t meeting_of(Slot slot) const {
    return meetings_.of(slot / kLaneCount, lane_of(slot).cursor->node);
  }
  const Node& node_of(Slot slot) const {
    return class_of(slot).program().nodes[lane_of(slot).cursor->node];
  }
  const OpCost& cost_of(Slot slot) const {
    return class_of(slot).costs[lane_of(slot).cursor->node];
  }

  void enter_head(Slot slot);  // a new op is at the head of the lane
  // Starts it unless a threshold is unmet; `woken`: after it has waited for one.
  void check_waits(Slot slot, bool woken);
  void check_launch(Slot slot);  // thresholds are met
  void arrive(Slot slot);        // thresholds met and launched
  // The lanes that run the head of `slot` together; alone, `slot` itself.
  std::span<const Slot> members(const Slot& slot) const;
  bool all_meet(std::span<const Slot> slots) const;
  void begin(std::span<const Slot> slots);               // the first one leads: it carries the cost
  SimTime duration_here(Slot slot, const OpCost& cost);  // of a kernel or copy that starts now
  void start_flow(Slot leader);
  void expect(Slot slot, SimTime time);  // the event the lane waits for from now on
  bool is_fixed(Slot slot) const;        // its head is no flow
  void stretch_compute(Slot slot, double factor);
  void delay_compute(std::size_t stage, SimTime late);
  void update_slowdown(Slot slot);  // after an op that slows compute has started or ended
  void complete(Slot leader);
  void finish(Slot slot);  // one member's part of it
  void wake(Slot slot);    // heads that wait for the lane
  void record(ClassState& own, const LaneState& lane);
  void end_on_path(Slot slot, SimTime late);  // of which it was late

  void next();  // handles the next event
  void handle(Slot slot);
  void advance_network();  // to now_; done_leaders_ are the transfers that ended
  void mark_step();
  void repeat_step();
  void look_for_repetition();
  std::string stuck();

  const CostModel& model_;
  const SimOptions& options_;
  const MeetingTable meetings_;
  CriticalPath path_;
  std::deque<ClassState> classes_;
  std::vector<SlotState> slots_;
  EventQueue<Slot, Slot> events_;
  FlowNetwork network_;
  std::optional<SimTime> next_flow_;  // cached next_completion of the network
  bool next_flow_known_ = true;
  SimTime now_{0};
  std::int64_t ops_ = 0, skipped_ops_ = 0;
  SimTime spread_{0};
  std::optional<SteadyLoop> loop_;
  bool beat_ = false;
  SteadyStep steady_;
  bool repeats_ = false;         // the last step, from now on
  std::vector<int> lanes_left_;  // by step: lanes that have not ended it
  std::vector<StepMark> marks_;
  std::vector<Slot> flow_leader_;   // by flow
  std::vector<Slot> done_leaders_;  // scratch
  std::vector<FlowId> done_;        // scratch
  std::vector<LinkUse> uses_;       // scratch
};

}  // namespace zplan::sim
