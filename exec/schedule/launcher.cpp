#include "exec/schedule/launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "exec/schedule/pauses.h"
#include "planner/core/error.h"

namespace zplan::exec {
namespace {

std::int64_t instances_per_step(const Program& program, const Node& node) {
  std::int64_t count = 1;
  for (BlockIndex block = node.block; block != 0; block = program.blocks[block].parent)
    count *= program.blocks[block].count;
  return count;
}

// How many steps an edge of the program reaches back at most.
std::int64_t steps_back(const Program& program) {
  std::int64_t most = 0;
  for (const Edge& edge : program.edges)
    if (edge.level == 0) most = std::max<std::int64_t>(most, edge.delta);
  return most;
}

}  // namespace

Launcher::Launcher(RunState& state, const Rank& rank, const std::vector<LaneRun*>& lanes,
                   QueuedComm& comm, HostSide host)
    : state_(state),
      rank_(rank),
      queues_(*rank.backend->queues()),
      comm_(comm),
      host_(host),
      cursor_(rank.index, std::nullopt) {
  for (LaneRun* lane : lanes) {
    state_of(lane->lane).run = lane;
    queue_lanes_.push_back(lane->lane);
    if (!is_transfer(lane->lane)) graph_lanes_.push_back(lane->lane);
  }
  find_followers();
  make_events();
  if (has_graphs()) capture_segments();
}

void Launcher::find_followers() {
  const Program& program = rank_.program();
  event_follows_.resize(program.nodes.size());
  flag_follows_.resize(program.nodes.size());
  waits_for_host_.resize(program.nodes.size());
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    const Node& node = program.nodes[n];
    for (const Edge& edge : program.after(node)) {
      const Node& before = program.nodes[edge.node];
      if (before.lane == node.lane) continue;
      if (!is_launched(before.lane)) {
        waits_for_host_[n] = true;
      } else if (is_launched(node.lane)) {
        event_follows_[edge.node] = true;
      } else {
        flag_follows_[edge.node] = true;
      }
    }
  }
}

void Launcher::make_events() {
  const Program& program = rank_.program();
  const std::int64_t steps_kept = steps_back(program) + 1;
  for (Lane lane : queue_lanes_) {
    std::int64_t followed = 0;
    for (std::size_t n = 0; n < program.nodes.size(); ++n) {
      if (program.nodes[n].lane == lane && event_follows_[n])
        followed += instances_per_step(program, program.nodes[n]);
    }
    LaneState& here = state_of(lane);
    for (std::int64_t i = 0; i < followed * steps_kept; ++i)
      here.ring.events.push_back(queues_.make_event(false));
    here.ring.counts.assign(here.ring.events.size(), kNoCount);
    for (EventId& event : here.step_end) event = queues_.make_event(true);
    for (EventId& event : here.ops_end) event = queues_.make_event(false);
    if (!state_.options->record_timeline) continue;
    for (std::int64_t i = 0; i < 2 * here.run->nodes * state_.options->steps; ++i)
      timing_.push_back(queues_.make_event(true));
  }
  timed_.reserve(timing_.size() / 2);
}

void Launcher::run() {
  std::int64_t step = 0;
  for (; enter(step); ++step) {
    await_steps(step - kStepsAhead + 1);
    launch_step(step);
    end_step(step);
  }
  await_steps(step);
  report_times();
}

bool Launcher::enter(std::int64_t step) {
  if (border_->at(step)) {
    await_steps(step);
    border_->cross(step);
  }
  return state_.gate.enter(step);
}

template <typename Border, typename Visit>
void Launcher::walk_step(Cursor& cursor, const Border& border, const Visit& visit) {
  bool in_segment = false;
  const auto cross = [&] { border(in_segment = !in_segment); };
  for (std::int64_t i = 0; i < rank_.index.all_nodes(); ++i, cursor.advance()) {
    const Instance& at = *cursor;
    const Lane lane = rank_.node(at).lane;
    if (!is_launched(lane)) continue;
    if (is_segment_node(at.node) != in_segment) cross();
    visit(at, in_segment);
    state_of(lane).launched = at.lane_sequence + 1;
  }
  if (in_segment) cross();
}

// Of the first step that trains and of the first that validates.
void Launcher::capture_segments() {
  const StepSequence& steps = state_.services.steps();
  std::int64_t step = 0;
  if (steps.size() > 0) capture_segments(step);
  while (step < steps.size() && steps[step].validates() == steps[0].validates()) ++step;
  if (step < steps.size()) capture_segments(step);
  const std::size_t ends = std::max(segments_[0].size(), segments_[1].size()) *
                           static_cast<std::size_t>(steps_back(rank_.program()) + 1);
  for (std::size_t i = 0; i < ends; ++i) segment_ends_.push_back({queues_.make_event(false), {}});
}

// Leaves the lanes as they were: what was captured has not been launched. What a segment needs from
// outside has been waited for when it is.
void Launcher::capture_segments(std::int64_t step) {
  Cursor cursor(rank_.index, std::nullopt);
  std::int64_t ops = 0;
  const auto border = [&](bool opens) {
    know_each_other(queue_lanes_);
    if (opens) return queues_.begin_capture(graph_lanes_);
    segments_of(step).push_back({queues_.end_capture(), std::exchange(ops, 0)});
  };
  walk_step(cursor, border, [&](const Instance& at, bool in_segment) {
    if (!in_segment) return;
    launch(at, step);
    ++ops;
  });
  queues_.finish();
  for (const Lane lane : queue_lanes_) {
    LaneState& here = state_of(lane);
    here.launched = 0;
    here.known.fill(0);
    here.ring.next = 0;
    std::fill(here.ring.counts.begin(), here.ring.counts.end(), kNoCount);
  }
}

void Launcher::launch_step(std::int64_t step) {
  std::size_t next = 0;
  const auto border = [&](bool opens) {
    if (!opens) launch_segment(segments_of(step)[next++]);
  };
  walk_step(cursor_, border, [&](const Instance& at, bool in_segment) {
    if (in_segment) return await_transfers(at);
    await_room(rank_.node(at).lane, 1);
    launch(at, step);
  });
}

// That a node of the segment about to be launched needs.
void Launcher::await_transfers(const Instance& at) {
  for (const Edge& edge : rank_.program().after(rank_.node(at))) {
    const auto needed = rank_.index.resolve(edge, at.iterations);
    if (needed && is_transfer(needed->lane)) wait_for(graph_lanes_.front(), *needed);
  }
}

void Launcher::launch_segment(const Segment& segment) {
  await_room(graph_lanes_.front(), segment.ops);
  queues_.launch(segment.graph);
  know_each_other(graph_lanes_);
  SegmentEnd& end = segment_ends_[next_segment_end_++ % segment_ends_.size()];
  queues_.record(graph_lanes_.front(), end.event);
  for (const Lane lane : graph_lanes_)
    end.counts[static_cast<std::size_t>(lane)] = state_of(lane).launched;
}

bool Launcher::is_segment_node(NodeIndex node) const {
  if (!has_graphs() || flag_follows_[node] || waits_for_host_[node]) return false;
  const OpKind kind = rank_.program().nodes[node].kind;
  return !is_transfer(kind) && (kind != OpKind::kCollective || comm_.may_be_captured());
}

// What comes next on one of the lanes runs after all that was launched on any of them.
void Launcher::know_each_other(const std::vector<Lane>& lanes) {
  for (Lane lane : lanes) {
    for (Lane other : lanes)
      state_of(lane).known[static_cast<std::size_t>(other)] = state_of(other).launched;
  }
}

void Launcher::launch(const Instance& at, std::int64_t step) {
  const Node& node = rank_.node(at);
  for (const Edge& edge : rank_.program().after(node)) {
    if (const auto needed = rank_.index.resolve(edge, at.iterations)) wait_for(node.lane, *needed);
  }
  if (!is_skipped(state_, rank_, at.node, step)) execute(at, step);
  follow(at);
}

void Launcher::execute(const Instance& at, std::int64_t step) {
  const Node& node = rank_.node(at);
  const StepPlace& place = state_.services.steps()[step];
  const BoundOperands operands(rank_, at);
  if (!state_.options->record_timeline || place.validates()) {
    execute(at, step, operands);
  } else {
    const EventId start = timing_[2 * timed_.size()], end = timing_[2 * timed_.size() + 1];
    queues_.record(node.lane, start);
    execute(at, step, operands);
    queues_.record(node.lane, end);
    timed_.push_back(
        {state_of(node.lane).run, place.trained, op_id(rank_.program(), node, at.env), start, end});
  }
}

void Launcher::wait_for(Lane lane, const Threshold& needed) {
  if (needed.lane == lane) return;
  std::int64_t& known = state_of(lane).known[static_cast<std::size_t>(needed.lane)];
  if (known >= needed.completed) return;
  known = needed.completed;
  if (!is_launched(needed.lane)) {
    Flag& flag = host_.progress[static_cast<std::size_t>(needed.lane)]->flag();
    return queues_.wait_flag(lane, flag, static_cast<std::uint64_t>(needed.completed));
  }
  queues_.wait_event(lane, event_of(needed));
}

// There is one: the edge's node is followed by one, unless it is part of a segment.
EventId Launcher::event_of(const Threshold& needed) const {
  const auto lane = static_cast<std::size_t>(needed.lane);
  if (const auto event = lanes_[lane].ring.event_of(needed.completed)) return *event;
  for (std::size_t back = segment_ends_.size(); back > 0; --back) {
    const std::size_t i = (next_segment_end_ + segment_ends_.size() - back) % segment_ends_.size();
    if (segment_ends_[i].counts[lane] >= needed.completed) return segment_ends_[i].event;
  }
  ZPLAN_ASSERT(false);
  return {};
}

// The oldest event that stands for so many.
std::optional<EventId> Launcher::EventRing::event_of(std::int64_t completed) const {
  std::optional<EventId> found;
  for (std::size_t back = 1; back <= events.size(); ++back) {
    const std::size_t i = (next + events.size() - back) % events.size();
    if (counts[i] < completed) break;
    found = events[i];
  }
  return found;
}

void Launcher::execute(const Instance& at, std::int64_t step, const BoundOperands& operands) {
  const Node& node = rank_.node(at);
  switch (node.kind) {
    case OpKind::kKernel:
    case OpKind::kCopy:
    case OpKind::kMark:
      return execute_local(state_, rank_, at, step, operands);
    case OpKind::kCollective:
      return comm_.collective(rank_.number, at, collective_call(rank_, node, operands));
    case OpKind::kSend:
      return comm_.send(rank_.number, at, operands[0].data, operands[0].view->bytes());
    case OpKind::kReceive:
      return comm_.receive(rank_.number, at, operands[0].data, operands[0].view->bytes());
  }
}

void Launcher::follow(const Instance& at) {
  state_.pulse.count(std::chrono::steady_clock::now());
  const Lane lane = rank_.node(at).lane;
  const std::int64_t completed = at.lane_sequence + 1;
  EventRing& ring = state_of(lane).ring;
  if (event_follows_[at.node]) {
    queues_.record(lane, ring.events[ring.next]);
    ring.counts[ring.next] = completed;
    ring.next = (ring.next + 1) % ring.events.size();
  }
  if (flag_follows_[at.node]) {
    Flag& flag = host_.progress[static_cast<std::size_t>(lane)]->flag();
    queues_.write_flag(lane, flag, static_cast<std::uint64_t>(completed));
  }
}

void Launcher::end_step(std::int64_t step) {
  for (Lane lane : queue_lanes_)
    queues_.record(lane, state_of(lane).step_end[static_cast<std::size_t>(step % kStepsAhead)]);
}

// An event is recorded again when what it stood for is done: two batches at most are under way.
void Launcher::await_room(Lane lane, std::int64_t ops) {
  LaneState& here = state_of(lane);
  here.ops += ops;
  if (here.ops < kOpsAhead) return;
  here.ops = 0;
  const EventId end = here.ops_end[here.next_ops_end];
  here.next_ops_end = 1 - here.next_ops_end;
  await(end);
  queues_.record(lane, end);
}

void Launcher::await(EventId event) {
  Pauses pauses(std::chrono::microseconds(50));  // [assumed] little beside a step
  const auto start = std::chrono::steady_clock::now();
  while (!queues_.reached(event)) {
    if (host_.signal->stopped()) throw Stopped{};
    comm_.check();
    check_deadline(std::chrono::steady_clock::now() - start);
    pauses.sleep();
  }
}

// Between processes `comm_` does that.
void Launcher::check_deadline(TimePoint::duration waited) const {
  const std::chrono::seconds deadline = state_.options->comm_deadline;
  if (state_.ranks.size() < 2 || waited <= deadline) return;
  throw Error(ExitCode::kDevice,
              fmt::format("rank {}: its queues have stood still for {} s: ranks that share the "
                          "device wait for each other, or for the host",
                          rank_.number, deadline.count()));
}

// All before `end`.
void Launcher::await_steps(std::int64_t end) {
  for (; awaited_ < end; ++awaited_) await_step(awaited_);
}

void Launcher::await_step(std::int64_t step) {
  for (Lane lane : queue_lanes_) {
    const EventId end = state_of(lane).step_end[static_cast<std::size_t>(step % kStepsAhead)];
    await(end);
    state_.log.lane_done(step, queues_.time_of(end));
  }
}

void Launcher::report_times() {
  for (const TimedOperation& timed : timed_) {
    const TimePoint start = queues_.time_of(timed.start);
    record_span(state_, *timed.run, timed.op, timed.step,
                {start, start, queues_.time_of(timed.end)});
  }
}

}  // namespace zplan::exec
