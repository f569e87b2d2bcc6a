#include "sim/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "planner/core/error.h"
#include "planner/cost/step_totals.h"

namespace zplan::sim {

Engine::Engine(const CostModel& model, const SimOptions& options)
    : model_(model),
      options_(options),
      meetings_(model.job()),
      path_(model, options.find_reliances),
      steady_(options.max_steps) {
  for (const RankClass& rank_class : model.job().classes) {
    classes_.emplace_back(rank_class.program, model.costs(static_cast<int>(classes_.size())),
                          model.launch_depth(), options.max_steps,
                          HostPath{path_.on() ? &path_ : nullptr, classes_.size()},
                          options.split_by_op, options.fold_timeline);
  }
  for (ClassState& own : classes_)
    for (LaneState& lane : own.lanes) slots_.push_back({&own, &lane});
  for (const CostLink& link : model.links()) network_.add_link(link.capacity);
  if (options.skip_repetitions && !options.record_timeline) {
    loop_.emplace(classes_, options.tolerance);
  }
  int lanes = 0;
  for (const ClassState& state : classes_) {
    for (const LaneState& lane : state.lanes) lanes += lane.per_step > 0 ? 1 : 0;
  }
  lanes_left_.assign(static_cast<std::size_t>(options.max_steps), lanes);
  events_.reserve(classes_.size() * kLaneCount);
  for (Slot slot = 0; slot < classes_.size() * kLaneCount; ++slot) {
    if (lane_of(slot).per_step > 0) enter_head(slot);
  }
}

const StepMark& Engine::run_step() {
  const std::size_t step = marks_.size();
  ZPLAN_ASSERT(step < lanes_left_.size());
  if (repeats_) {
    repeat_step();
    return marks_.back();
  }
  while (lanes_left_[step] > 0) {
    next();
    if (beat_) look_for_repetition();
  }
  mark_step();
  return marks_.back();
}

void Engine::next() {
  // Events of the present instant first: they may start flows that change the next completion.
  if (!events_.empty() && events_.top().time == now_) return handle(events_.pop().payload);
  if (!next_flow_known_) {
    next_flow_ = network_.next_completion();
    next_flow_known_ = true;
  }
  if (next_flow_ && (events_.empty() || *next_flow_ <= events_.top().time)) {
    now_ = *next_flow_;
    advance_network();
    for (const Slot leader : done_leaders_) complete(leader);
    return;
  }
  if (events_.empty()) throw_bad_input(stuck());
  now_ = events_.top().time;
  handle(events_.pop().payload);
}

// Names the leaders at once: flow numbers are used again by the flows their completion starts.
void Engine::advance_network() {
  done_.clear();
  network_.advance(now_, done_);
  next_flow_known_ = false;
  done_leaders_.clear();
  for (const FlowId flow : done_) done_leaders_.push_back(flow_leader_[flow.value]);
}

void Engine::handle(Slot slot) {
  if (lane_of(slot).due != now_) return;  // its end has moved since
  class_of(slot).settle(now_);
  switch (lane_of(slot).state) {
    case HeadState::kLaunching:
      path_.follow_host(slot / kLaneCount, now_);
      return arrive(slot);
    case HeadState::kLatency:
      return start_flow(slot);
    case HeadState::kRunning:
      return complete(slot);
    case HeadState::kBlocked:
    case HeadState::kMeeting:
    case HeadState::kDone:
      return;  // out of date too: none of them waits for a time
  }
  ZPLAN_ASSERT(false);
}

void Engine::expect(Slot slot, SimTime time) {
  lane_of(slot).due = time;
  events_.push(time, slot, slot);
}

// What is left of the kernel that the class computes takes so many times as long from now on.
void Engine::stretch_compute(Slot slot, double factor) {
  const Slot compute = slot - slot % kLaneCount + static_cast<Slot>(Lane::kCompute);
  const LaneState& lane = lane_of(compute);
  if (lane.state != HeadState::kRunning || !is_fixed(compute)) return;
  const SimTime late = std::min(class_of(slot).late, lane.due - now_);
  const double left = static_cast<double>((lane.due - now_ - late).value) * factor;
  expect(compute, now_ + late + SimTime{std::llround(left)});
}

// The kernel that the class computes ends so much later, or else the next one.
void Engine::delay_compute(std::size_t stage, SimTime late) {
  const auto compute = static_cast<Slot>(stage * kLaneCount + static_cast<Slot>(Lane::kCompute));
  const LaneState& lane = lane_of(compute);
  class_of(compute).late += late;
  if (lane.state == HeadState::kRunning && is_fixed(compute)) expect(compute, lane.due + late);
}

bool Engine::is_fixed(Slot slot) const { return cost_of(slot).bytes.value == 0; }

// The shares of all that run add up.
void Engine::update_slowdown(Slot slot) {
  ClassState& own = class_of(slot);
  double sum = 0;
  for (unsigned mask = own.busy; mask != 0; mask &= mask - 1) {
    const LaneState& lane = own.lanes[static_cast<std::size_t>(std::countr_zero(mask))];
    sum += own.costs[lane.cursor->node].slowdown;
  }
  if (sum > own.slowdown) {
    const bool collective = node_of(slot).kind == OpKind::kCollective;
    own.slowed_by =
        constant_of(collective ? &StackRates::overlap_slowdown : &StackRates::copy_slowdown);
  }
  stretch_compute(slot, (1 + sum) / (1 + own.slowdown));
  own.slowdown = sum;
}

void Engine::enter_head(Slot slot) {
  ClassState& own = class_of(slot);
  LaneState& lane = lane_of(slot);
  if (lane.cursor->step() >= options_.max_steps) {
    lane.state = HeadState::kDone;
    return;
  }
  lane.state = HeadState::kBlocked;
  lane.data_ready = now_;
  lane.waits.clear();
  lane.reuse_waits = 0;
  const Iterations& at = lane.cursor->iterations;
  const std::size_t depths = own.requirements.depths(lane.cursor->node);
  for (const Requirement& requirement : own.requirements.of(lane.cursor->node)) {
    if (!requirement.binds(at)) continue;
    const std::int64_t needed = requirement.completed(at, depths);
    if (own.lanes[static_cast<std::size_t>(requirement.lane)].completed >= needed) continue;
    lane.waits.push_back({static_cast<std::uint8_t>(requirement.lane), needed});
    if (requirement.reuse) ++lane.reuse_waits;
  }
  check_waits(slot, false);
}

void Engine::check_waits(Slot slot, bool woken) {
  ClassState& own = class_of(slot);
  LaneState& lane = lane_of(slot);
  while (!lane.waits.empty()) {
    const Wait wait = lane.waits.back();
    const bool data = lane.waits.size() > lane.reuse_waits;
    if (own.lanes[wait.lane].completed < wait.completed) {
      own.waiters[wait.lane] |= 1u << (slot % kLaneCount);
      own.wake_at[wait.lane] = std::min(own.wake_at[wait.lane], wait.completed);
      return;
    }
    lane.waits.pop_back();
    if (data) lane.data_ready = now_;
  }
  lane.wake = woken ? cost_of(slot).wake : SimTime{0};
  lane.ready = now_;
  check_launch(slot);
}

void Engine::check_launch(Slot slot) {
  ClassState& own = class_of(slot);
  LaneState& lane = lane_of(slot);
  const auto which = static_cast<Lane>(slot % kLaneCount);
  const std::optional<SimTime> launched = own.launches.launched_at(which, lane.completed);
  if (!launched) {
    own.launch_waiters |= 1u << (slot % kLaneCount);
    return;
  }
  LaneTimes& times = lane.times[static_cast<std::size_t>(lane.cursor->step())];
  times.reuse_wait += std::max(SimTime{0}, lane.ready - std::max(lane.data_ready, *launched));
  times.launch_wait += std::max(SimTime{0}, *launched - lane.ready);
  lane.ready = std::max(lane.ready, *launched);
  if (lane.ready <= now_) return arrive(slot);
  lane.state = HeadState::kLaunching;
  expect(slot, lane.ready);
}

void Engine::arrive(Slot slot) {
  lane_of(slot).state = HeadState::kMeeting;
  const std::span<const Slot> all = members(slot);
  if (all.size() == 1 || all_meet(all)) begin(all);
}

std::span<const Slot> Engine::members(const Slot& slot) const {
  const std::uint32_t meeting = meeting_of(slot);
  if (meeting == 0) return {&slot, 1};
  return meetings_.members(meeting);
}

// Whether the heads of all these lanes are ready and stand for the same operation.
bool Engine::all_meet(std::span<const Slot> slots) const {
  const std::uint32_t meeting = meeting_of(slots.front());
  return std::all_of(slots.begin(), slots.end(), [&](Slot slot) {
    return lane_of(slot).state == HeadState::kMeeting && meeting_of(slot) == meeting;
  });
}

void Engine::begin(std::span<const Slot> slots) {
  const Slot leader = slots.front();
  const OpCost& cost = cost_of(leader);
  SimTime wake{0};
  for (const Slot slot : slots) {
    LaneState& lane = lane_of(slot);
    wake = std::max(wake, lane.wake);
    class_of(slot).settle(now_);
    class_of(slot).busy |= 1u << (slot % kLaneCount);
    lane.state = HeadState::kRunning;
    lane.start = now_;
    path_.begin(slot);
    LaneTimes& times = lane.times[static_cast<std::size_t>(lane.cursor->step())];
    times.peer_wait += now_ - lane.ready;
    if (cost.bytes.value > 0) times.latency += cost.fixed;
    if (cost.slowdown > 0) update_slowdown(slot);
  }
  if (cost.bytes.value == 0) {
    expect(leader, now_ + wake + duration_here(leader, cost));
  } else if ((wake + cost.fixed).value > 0) {
    lane_of(leader).state = HeadState::kLatency;
    expect(leader, now_ + wake + cost.fixed);
  } else {
    start_flow(leader);
  }
}

SimTime Engine::duration_here(Slot slot, const OpCost& cost) {
  if (slot % kLaneCount != static_cast<Slot>(Lane::kCompute)) return cost.fixed;
  const ClassState& own = class_of(slot);
  if (own.slowdown == 0) return cost.fixed + own.late;
  const double slowed = static_cast<double>(cost.fixed.value) * (1 + own.slowdown);
  return SimTime{std::llround(slowed)} + own.late;
}

void Engine::start_flow(Slot leader) {
  LaneState& lane = lane_of(leader);
  lane.state = HeadState::kRunning;
  const OpCost& cost = cost_of(leader);
  uses_.clear();
  for (const LinkShare& share : model_.shares(cost)) uses_.push_back({{share.link}, share.weight});
  const FlowId flow = network_.start(now_, cost.bytes, uses_, cost.cap);
  if (flow.value >= flow_leader_.size()) flow_leader_.resize(flow.value + 1);
  flow_leader_[flow.value] = leader;
  next_flow_known_ = false;
}

void Engine::complete(Slot leader) {
  for (const Slot slot : members(leader)) finish(slot);
}

void Engine::finish(Slot slot) {
  ClassState& own = class_of(slot);
  LaneState& lane = lane_of(slot);
  const auto which = static_cast<Lane>(slot % kLaneCount);
  const auto step = static_cast<std::size_t>(lane.cursor->step());
  // What it was late by was counted when iterations were skipped.
  const SimTime late = which == Lane::kCompute ? std::exchange(own.late, SimTime{0}) : SimTime{0};
  lane.times[step].busy += now_ - lane.start - late;
  own.settle(now_);
  own.busy &= ~(1u << (slot % kLaneCount));
  if (cost_of(slot).slowdown > 0) update_slowdown(slot);
  if (options_.record_timeline) record(own, lane);
  end_on_path(slot, late);
  ++ops_;
  ++lane.completed;
  if (lane.completed == static_cast<std::int64_t>(step + 1) * lane.per_step) --lanes_left_[step];
  if (loop_ && loop_->watches(slot)) {
    const Instance before = *lane.cursor;
    lane.cursor.advance();
    beat_ = loop_->moved(slot, before, *lane.cursor, now_) || beat_;
  } else {
    lane.cursor.advance();
  }
  const bool launched_more = is_launched(which) && own.launches.completed(which, now_);
  enter_head(slot);
  if (lane.completed >= own.wake_at[slot % kLaneCount]) wake(slot);
  if (!launched_more) return;
  const Slot first = slot - slot % kLaneCount;
  for (unsigned mask = std::exchange(own.launch_waiters, 0u); mask != 0; mask &= mask - 1) {
    check_launch(first + static_cast<Slot>(std::countr_zero(mask)));
  }
}

void Engine::end_on_path(Slot slot, SimTime late) {
  if (!path_.on()) return;
  const OpCost& cost = cost_of(slot);
  const SimTime took = now_ - lane_of(slot).start;
  const SimTime slowed = cost.bytes.value == 0 ? took - late - cost.fixed : SimTime{0};
  path_.end(slot, cost, took - slowed, slowed, class_of(slot).slowed_by);
  path_.follow_lane(slot);
}

void Engine::wake(Slot slot) {
  ClassState& own = class_of(slot);
  const Slot lane = slot % kLaneCount;
  own.wake_at[lane] = ClassState::kNobodyWaits;
  for (unsigned mask = std::exchange(own.waiters[lane], 0u); mask != 0; mask &= mask - 1) {
    check_waits(slot - lane + static_cast<Slot>(std::countr_zero(mask)), true);
  }
}

void Engine::record(ClassState& own, const LaneState& lane) {
  const Program& program = own.program();
  const Node& node = program.nodes[lane.cursor->node];
  own.recorder.add(*lane.cursor, {op_id(program, node, lane.cursor->env),
                                  static_cast<std::int32_t>(lane.cursor->step()), node.lane,
                                  lane.ready, lane.start, now_});
}

void Engine::mark_step() {
  advance_network();
  StepMark& mark = marks_.emplace_back();
  mark.end = now_;
  mark.ops = ops_;
  mark.path = path_.followed();
  mark.spread = spread_;
  for (ClassState& state : classes_) {
    state.settle(now_);
    mark.clocks.push_back(state.clock);
    for (const LaneState& lane : state.lanes) mark.times.push_back(lane.times);
  }
  for (std::uint32_t link = 0; link < network_.link_count(); ++link) {
    mark.links.push_back(network_.usage({link}));
  }
  for (const Slot leader : done_leaders_) complete(leader);
  if (loop_) loop_->next_step();
  beat_ = false;
  if (!loop_) return;
  const auto steps = static_cast<std::int64_t>(marks_.size());
  const std::int64_t more = std::max<std::int64_t>(1, options_.min_steps - steps);
  for (ClassState& state : classes_) state.settle(now_);
  repeats_ = steady_.repeats(now_, steps, more, classes_, network_, flow_leader_);
}

// Adds what the last step has added. Of the steps ahead of it, what was done then is done one
// later.
void Engine::repeat_step() {
  const StepMark &before = marks_[marks_.size() - 2], &last = marks_.back();
  StepMark next = last;
  next.end += last.end - before.end;
  next.ops += last.ops - before.ops;
  next.spread += last.spread - before.spread;
  for (std::size_t k = 0; k < next.path.size(); ++k) next.path[k] += last.path[k] - before.path[k];
  for (std::size_t c = 0; c < next.clocks.size(); ++c)
    next.clocks[c].repeat_since(before.clocks[c], 1);
  for (std::size_t i = 0; i < next.links.size(); ++i) {
    next.links[i].carried_bytes += last.links[i].carried_bytes - before.links[i].carried_bytes;
    next.links[i].busy += last.links[i].busy - before.links[i].busy;
  }
  for (Slot slot = 0; slot < next.times.size(); ++slot) {
    for (std::size_t step = 0; step + 1 < next.times[slot].size(); ++step)
      next.times[slot][step + 1].add(last.times[slot][step], before.times[slot][step]);
    lane_of(slot).times = next.times[slot];
  }
  skipped_ops_ += next.ops - ops_;
  ops_ = next.ops;
  now_ = next.end;
  marks_.push_back(std::move(next));
}

void Engine::look_for_repetition() {
  beat_ = false;
  for (ClassState& state : classes_) state.settle(now_);
  const auto jump = loop_->beat(now_, ops_, network_, flow_leader_, path_);
  if (!jump) return;
  now_ += jump->time;
  ops_ += jump->ops;
  skipped_ops_ += jump->ops;
  spread_ += jump->spread;
  events_.shift(jump->time);
  if (next_flow_) *next_flow_ += jump->time;
  for (std::size_t stage = 0; stage < jump->late.size(); ++stage)
    if (jump->late[stage].value > 0) delay_compute(stage, jump->late[stage]);
}

// Names what the heads wait for; an expected outcome for a Job that was not verified.
std::string Engine::stuck() {
  std::string message =
      "simulate: expected a job that runs to its end, got lanes that wait for "
      "each other:";
  for (Slot slot = 0; slot < classes_.size() * kLaneCount; ++slot) {
    const LaneState& lane = lane_of(slot);
    if (lane.per_step == 0 || lane.state == HeadState::kDone) continue;
    message += fmt::format(
        " stage {} {} at {}", slot / kLaneCount, name(static_cast<Lane>(slot % kLaneCount)),
        op_name(op_id(class_of(slot).program(), node_of(slot), lane.cursor->env)));
    if (!lane.waits.empty()) {
      message += fmt::format(" for {} ops on {}", lane.waits.back().completed,
                             name(static_cast<Lane>(lane.waits.back().lane)));
    } else if (lane.state == HeadState::kMeeting) {
      message += " for its peers";
    }
    message += ';';
  }
  message.pop_back();
  return message;
}

}  // namespace zplan::sim
