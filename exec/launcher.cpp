#include "exec/launcher.h"

#include <algorithm>
#include <chrono>
#include <thread>

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
  }
  find_followers();
  make_events();
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
  for (; state_.gate.enter(step); ++step) {
    if (step >= kStepsAhead) await_step(step - kStepsAhead);
    launch_step(step);
    end_step(step);
  }
  for (std::int64_t last = std::max<std::int64_t>(0, step - kStepsAhead); last < step; ++last)
    await_step(last);
  report_times();
}

void Launcher::launch_step(std::int64_t step) {
  const bool is_known = has_graphs() && step > 0;  // its graphs were captured
  next_graph_ = 0;
  for (std::int64_t i = 0; i < rank_.index.all_nodes(); ++i, cursor_.advance()) {
    const Instance& at = *cursor_;
    const Lane lane = rank_.node(at).lane;
    if (!is_launched(lane)) continue;
    if (is_segment_node(at.node) != in_segment_) {
      if (in_segment_) {
        close_segment(is_known);
      } else {
        open_segment(is_known);
      }
    }
    if (!in_segment_) await_room(lane);
    if (!in_segment_ || !is_known) launch(at);
    state_of(lane).launched = at.lane_sequence + 1;
  }
  if (in_segment_) close_segment(is_known);
}

bool Launcher::is_segment_node(NodeIndex node) const {
  if (!has_graphs() || flag_follows_[node] || waits_for_host_[node]) return false;
  const OpKind kind = rank_.program().nodes[node].kind;
  const bool communicates =
      kind == OpKind::kCollective || kind == OpKind::kSend || kind == OpKind::kReceive;
  return !communicates || comm_.may_be_captured();
}

void Launcher::open_segment(bool is_known) {
  in_segment_ = true;
  everything_is_ordered();
  if (is_known) return queues_.launch(graphs_[next_graph_++]);
  queues_.begin_capture(queue_lanes_);
}

void Launcher::close_segment(bool is_known) {
  in_segment_ = false;
  if (!is_known) {
    graphs_.push_back(queues_.end_capture());
    queues_.launch(graphs_.back());
  }
  everything_is_ordered();
}

// Among the queues; their edges to what was launched so far are met.
void Launcher::everything_is_ordered() {
  for (Lane lane : queue_lanes_) {
    for (Lane other : queue_lanes_)
      state_of(lane).known[static_cast<std::size_t>(other)] = state_of(other).launched;
  }
}

void Launcher::launch(const Instance& at) {
  const Node& node = rank_.node(at);
  for (const Edge& edge : rank_.program().after(node)) {
    if (const auto needed = rank_.index.resolve(edge, at.iterations)) wait_for(node.lane, *needed);
  }
  const BoundOperands operands(rank_, at);
  if (!state_.options->record_timeline) {
    execute(at, operands);
  } else {
    const EventId start = timing_[2 * timed_.size()], end = timing_[2 * timed_.size() + 1];
    queues_.record(node.lane, start);
    execute(at, operands);
    queues_.record(node.lane, end);
    timed_.push_back(
        {state_of(node.lane).run, at.step(), op_id(rank_.program(), node, at.env), start, end});
  }
  follow(at);
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
  queues_.wait_event(lane, state_of(needed.lane).ring.event_of(needed.completed));
}

// The oldest event that stands for so many; there is one, for the edge's node is followed by one.
EventId Launcher::EventRing::event_of(std::int64_t completed) const {
  std::size_t found = events.size();
  for (std::size_t back = 1; back <= events.size(); ++back) {
    const std::size_t i = (next + events.size() - back) % events.size();
    if (counts[i] < completed) break;
    found = i;
  }
  ZPLAN_ASSERT(found < events.size());
  return events[found];
}

void Launcher::execute(const Instance& at, const BoundOperands& operands) {
  const Node& node = rank_.node(at);
  switch (node.kind) {
    case OpKind::kKernel:
    case OpKind::kCopy:
    case OpKind::kMark:
      return execute_local(state_, rank_, at, operands);
    case OpKind::kCollective:
      return comm_.collective(rank_.number, at, collective_call(node, operands));
    case OpKind::kSend:
      return comm_.send(rank_.number, at, operands[0].data, operands[0].view->bytes());
    case OpKind::kReceive:
      return comm_.receive(rank_.number, at, operands[0].data, operands[0].view->bytes());
  }
}

void Launcher::follow(const Instance& at) {
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
void Launcher::await_room(Lane lane) {
  LaneState& here = state_of(lane);
  if (++here.single_ops % kOpsAhead != 0) return;
  const EventId end = here.ops_end[static_cast<std::size_t>(here.single_ops / kOpsAhead % 2)];
  await(end);
  queues_.record(lane, end);
}

void Launcher::await(EventId event) {
  constexpr std::chrono::microseconds kPause{50};  // [assumed] little beside a step
  while (!queues_.reached(event)) {
    if (host_.signal->stopped()) throw Stopped{};
    comm_.check();
    std::this_thread::sleep_for(kPause);
  }
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
