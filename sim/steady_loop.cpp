#include "sim/steady_loop.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "planner/cost/step_totals.h"
#include "planner/program/job/tree.h"

namespace zplan::sim {
namespace {

constexpr std::int32_t kLeastCount = 8;  // [assumed] shorter loops are not worth a look
constexpr std::int64_t kNone = -1;
// [assumed] of a pace; who gets ahead by more soon has to wait.
constexpr double kMostLead = 0.01;

std::int64_t iteration_of(const Instance& at) { return at.iterations[1]; }

bool stands_still(HeadState state) {
  return state == HeadState::kBlocked || state == HeadState::kMeeting || state == HeadState::kDone;
}

}  // namespace

SteadyLoop::SteadyLoop(std::deque<ClassState>& classes, double tolerance)
    : classes_(classes),
      tolerance_(tolerance),
      watches_(classes.size() * kLaneCount),
      pace_(classes.size()) {
  for (std::size_t stage = 0; stage < classes.size(); ++stage) {
    const Loop& loop = loops_.emplace_back(find_loop(classes[stage].program()));
    const auto compute = static_cast<std::size_t>(Lane::kCompute);
    if (loop.block == 0 || loop.ops[compute] == 0) continue;
    watched_ = static_cast<std::uint32_t>(stage * kLaneCount + compute);
    watches_[*watched_] = tolerance > 0;
    pace_.take_part(stage);
  }
  if (watched_) watches_[*watched_] = true;
}

SteadyLoop::Loop SteadyLoop::find_loop(const Program& program) {
  Loop loop;
  std::int32_t longest = kLeastCount - 1;
  for (BlockIndex b = 1; b < program.blocks.size(); ++b) {
    const Block& block = program.blocks[b];
    if (block.depth != 1 || block.var != Var::kMicro || block.count <= longest) continue;
    longest = block.count;
    loop.block = b;
  }
  if (loop.block == 0) return loop;
  const std::vector<std::int64_t> instances = instances_per_step(program);
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    if (ancestor(program, node.block, 1) != loop.block) continue;
    loop.ops[static_cast<std::size_t>(node.lane)] += instances[i] / longest;
  }
  return loop;
}

bool SteadyLoop::in_block(std::size_t stage, const Instance& at) const {
  const Program& program = classes_[stage].program();
  return loops_[stage].block != 0 &&
         ancestor(program, program.nodes[at.node].block, 1) == loops_[stage].block;
}

bool SteadyLoop::in_loop(std::size_t stage, const Instance& at) const {
  return at.step() == step_ && in_block(stage, at);
}

bool SteadyLoop::moved(std::uint32_t slot, const Instance& before, const Instance& at,
                       SimTime now) {
  const std::size_t stage = slot / kLaneCount;
  if (iteration_of(before) == iteration_of(at) || !in_loop(stage, before) || !in_loop(stage, at))
    return false;
  if (tolerance_ > 0) pace_.pass(stage, now);
  return slot == watched_;
}

void SteadyLoop::next_step() {
  ++step_;
  restart();
}

void SteadyLoop::restart() {
  beats_ = kept_at_ = 0;
  pace_.restart();
  earlier_.places.clear();
}

std::optional<SteadyLoop::Jump> SteadyLoop::beat(SimTime now, std::int64_t ops,
                                                 FlowNetwork& network,
                                                 std::span<const std::uint32_t> flow_leader,
                                                 CriticalPath& path) {
  if (!write_beat(now, network, flow_leader)) return std::nullopt;
  latest_.ops = ops;
  latest_.path = path.state();
  ++beats_;
  if (beats_ > 1 && latest_.state == kept_.state) {
    if (const std::int64_t times = repetitions(); times > 0) {
      restart();
      path.repeat_since(kept_.path, times);
      return skip(times, latest_.now - kept_.now, network);
    }
  }
  if (tolerance_ > 0) {
    if (const auto jump = skip_at_one_pace(network, path)) return jump;
  }
  if (beats_ > 2 * kept_at_) {  // [Brent80]
    kept_at_ = beats_;
    std::swap(kept_, latest_);
  }
  return std::nullopt;
}

// Looks after every window, at the beat and at the one that began it.
std::optional<SteadyLoop::Jump> SteadyLoop::skip_at_one_pace(FlowNetwork& network,
                                                             CriticalPath& path) {
  const auto window = static_cast<std::int64_t>(LoopPace::kWindow);
  const std::int64_t since = earlier_.places.empty() ? window : iterations_since_earlier();
  if (since < window) return std::nullopt;
  const auto range = pace_.range();
  const bool one_pace = range && range->within(tolerance_);
  const bool own_paces = range && range->within(kMostLead) && pace_.all_keep_pace(tolerance_);
  if (!earlier_.places.empty() && (one_pace || own_paces) && moved_together(since)) {
    std::swap(kept_, earlier_);
    for (std::size_t stage = 0; stage < classes_.size(); ++stage) {
      if (latest_.places[stage].iteration != kNone)
        kept_.places[stage].iteration = latest_.places[stage].iteration - since;
    }
    if (const std::int64_t times = repetitions(); times > 0) {
      path.repeat_since(kept_.path, times);
      latest_.ops = kept_.ops + ops_of_iterations(since);
      Jump jump;
      if (one_pace) {
        jump = skip(times, latest_.now - kept_.now, network);
        jump.spread = range->spread() * ((times * since + window - 1) / window);
      } else {
        jump = skip_at_own_paces(times, since, network);
      }
      restart();
      return jump;
    }
    std::swap(kept_, earlier_);
  }
  earlier_ = latest_;
  return std::nullopt;
}

SteadyLoop::Jump SteadyLoop::skip_at_own_paces(std::int64_t times, std::int64_t since,
                                               FlowNetwork& network) {
  const auto of_one = [&](SimTime pace) {
    return pace * since / static_cast<std::int64_t>(LoopPace::kWindow);
  };
  SimTime fastest = kHorizon, spread{0};
  for (std::size_t stage = 0; stage < classes_.size(); ++stage) {
    if (!pace_.takes_part(stage)) continue;
    fastest = std::min(fastest, pace_.pace(stage));
    spread = std::max(spread, pace_.range(stage).spread());
  }
  Jump jump = skip(times, of_one(fastest), network);
  jump.spread = of_one(spread) * times;
  jump.late.resize(classes_.size());
  for (std::size_t stage = 0; stage < classes_.size(); ++stage)
    if (pace_.takes_part(stage))
      jump.late[stage] = (of_one(pace_.pace(stage)) - of_one(fastest)) * times;
  return jump;
}

std::int64_t SteadyLoop::iterations_since_earlier() const {
  const std::size_t watched = *watched_ / kLaneCount;
  return latest_.places[watched].iteration - earlier_.places[watched].iteration;
}

// Of all lanes that are in a loop.
std::int64_t SteadyLoop::ops_of_iterations(std::int64_t iterations) const {
  std::int64_t ops = 0;
  for (std::size_t stage = 0; stage < classes_.size(); ++stage) {
    for (std::size_t l = 0; l < kLaneCount; ++l)
      if ((latest_.places[stage].lanes >> l & 1u) != 0) ops += loops_[stage].ops[l] * iterations;
  }
  return ops;
}

// Whether since the earlier beat all classes have moved by so many iterations, but for one in which
// they just are or just are not, and nothing but what is in their loops has moved.
bool SteadyLoop::moved_together(std::int64_t iterations) const {
  for (std::size_t stage = 0; stage < classes_.size(); ++stage) {
    const Place &before = earlier_.places[stage], &place = latest_.places[stage];
    if (before.lanes != place.lanes || before.launches != place.launches) return false;
    if (!place.still || before.others != place.others) return false;
    if (before.launch.step() != place.launch.step()) return false;
    const bool thread_moved = before.launch.node != place.launch.node ||
                              before.launch.iterations != place.launch.iterations;
    if (thread_moved && !place.launches) return false;
    if (place.iteration == kNone) continue;
    if (std::abs(place.iteration - before.iteration - iterations) > 1) return false;
  }
  return true;
}

bool SteadyLoop::write_beat(SimTime now, FlowNetwork& network,
                            std::span<const std::uint32_t> flow_leader) {
  latest_.now = now;
  latest_.state.clear();
  if (!network.append_state(now, flow_leader, latest_.state)) return false;
  latest_.links.clear();
  for (std::uint32_t link = 0; link < network.link_count(); ++link) {
    latest_.links.push_back(network.usage({link}));
  }
  latest_.places.resize(classes_.size());
  for (std::size_t stage = 0; stage < classes_.size(); ++stage) write_class(stage, now);
  return true;
}

void SteadyLoop::write_class(std::size_t stage, SimTime now) {
  const ClassState& own = classes_[stage];
  Place& place = latest_.places[stage];
  place = {.clock = own.clock};
  for (std::size_t l = 0; l < kLaneCount; ++l) {
    const LaneState& lane = own.lanes[l];
    if (lane.per_step == 0) continue;
    place.times[l] = lane.times[static_cast<std::size_t>(step_)];
    if (!in_loop(stage, *lane.cursor)) {
      place.others += lane.completed;
      place.still = place.still && stands_still(lane.state);
      continue;
    }
    if (place.lanes == 0) place.iteration = iteration_of(*lane.cursor);
    place.lanes |= 1u << l;
  }
  std::vector<std::int64_t>& out = latest_.state;
  out.insert(out.end(), {place.lanes, own.busy, own.launch_waiters});
  out.insert(out.end(), own.waiters.begin(), own.waiters.end());
  const Instance& launch = own.launches.place();
  place.launches = place.lanes != 0 && in_block(stage, launch);
  place.launch = launch;
  out.insert(out.end(), launch.iterations.begin(), launch.iterations.end());
  if (place.launches) out[out.size() - kMaxDepth + 1] -= place.iteration;
  out.insert(out.end(), {launch.node, place.launches});
  own.launches.append_state(now, place.launches, out);
  for (std::size_t l = 0; l < kLaneCount; ++l) write_lane(own, place, l, now);
}

void SteadyLoop::write_lane(const ClassState& own, const Place& place, std::size_t lane,
                            SimTime now) {
  const LaneState& at = own.lanes[lane];
  std::vector<std::int64_t>& out = latest_.state;
  const auto moves = [&](std::size_t l) { return (place.lanes >> l & 1u) != 0; };
  out.push_back(static_cast<std::int64_t>(at.state));
  if (at.per_step == 0) return;
  if (!moves(lane)) {  // stands still: as it is
    out.insert(out.end(), {at.completed, at.ready.value, at.start.value});
    const bool will_move = at.state == HeadState::kLatency || at.state == HeadState::kRunning;
    if (will_move) out.push_back(now.value);  // equals no other beat
    return;
  }
  out.push_back(at.cursor->node);
  out.insert(out.end(), at.cursor->iterations.begin() + 1, at.cursor->iterations.end());
  out[out.size() - kMaxDepth + 1] -= place.iteration;
  for (const Wait& wait : at.waits) {
    const std::int64_t completed = moves(wait.lane) ? own.lanes[wait.lane].completed : 0;
    out.insert(out.end(), {wait.lane, wait.completed - completed});
  }
  out.push_back(static_cast<std::int64_t>(at.reuse_waits));
  out.push_back(at.wake.value);
  const bool blocked = at.state == HeadState::kBlocked;
  const bool started = at.state == HeadState::kRunning || at.state == HeadState::kLatency;
  const auto launched = own.launches.launched_at(static_cast<Lane>(lane), at.completed);
  if (blocked) out.push_back((at.data_ready - now).value);
  if (blocked && launched) out.push_back((std::max(*launched, at.data_ready) - now).value);
  if (!blocked) out.push_back(((started ? at.start : at.ready) - now).value);
  const bool has_end = at.state == HeadState::kRunning && at.due > now;  // else it is a flow
  out.push_back(has_end ? (at.due - now).value : 0);
}

// Whether the thresholds in the loop move on with the lanes they name, or are met for good since
// the first of the two beats.
bool SteadyLoop::edges_repeat(std::size_t stage) const {
  const ClassState& own = classes_[stage];
  const Program& program = own.program();
  const Loop& loop = loops_[stage];
  const Place &before = kept_.places[stage], &place = latest_.places[stage];
  for (NodeIndex n = 0; n < program.nodes.size(); ++n) {
    if (ancestor(program, program.nodes[n].block, 1) != loop.block) continue;
    const std::vector<BlockIndex> path = own.index.path(program.nodes[n].block);
    for (const Requirement& r : own.requirements.of(n)) {
      const auto lane = static_cast<std::size_t>(r.lane);
      const bool moves = (place.lanes >> lane & 1u) != 0;
      if (moves && r.coefficients[1] == loop.ops[lane]) continue;
      std::int64_t most = r.constant + r.coefficients[0] * step_;
      for (std::size_t d = 1; d < path.size(); ++d) {
        most += std::max<std::int64_t>(0, r.coefficients[d]) * (program.blocks[path[d]].count - 1);
      }
      const std::int64_t since = moves ? loop.ops[lane] * (place.iteration - before.iteration) : 0;
      if (own.lanes[lane].completed - since < most) return false;
    }
  }
  return true;
}

// How often what happened between the two beats is sure to happen again.
std::int64_t SteadyLoop::repetitions() const {
  std::int64_t times = std::numeric_limits<std::int64_t>::max();
  for (std::size_t stage = 0; stage < classes_.size(); ++stage) {
    const ClassState& own = classes_[stage];
    const Place &before = kept_.places[stage], &place = latest_.places[stage];
    if (place.iteration == kNone) continue;
    const Loop& loop = loops_[stage];
    const std::int64_t last = own.program().blocks[loop.block].count - 1;
    const std::int64_t moved = place.iteration - before.iteration;
    if (moved < 1 || !edges_repeat(stage)) return 0;
    if (place.launches) {
      times = std::min(times, (last - iteration_of(own.launches.place())) / moved);
    }
    for (std::size_t l = 0; l < kLaneCount; ++l) {
      const LaneState& lane = own.lanes[l];
      if (lane.per_step == 0) continue;
      if ((place.lanes >> l & 1u) != 0) {
        times = std::min(times, (last - iteration_of(*lane.cursor)) / moved);
      } else if (lane.state == HeadState::kBlocked && !lane.waits.empty()) {
        const Wait& wait = lane.waits.back();
        const std::int64_t rate =
            (place.lanes >> wait.lane & 1u) != 0 ? loop.ops[wait.lane] * moved : 0;
        const std::int64_t missing = wait.completed - own.lanes[wait.lane].completed;
        if (rate > 0) times = std::min(times, (missing - 1) / rate);
      }
    }
  }
  return times;
}

// Of which each takes so long.
SteadyLoop::Jump SteadyLoop::skip(std::int64_t times, SimTime of_one, FlowNetwork& network) {
  const SimTime time = of_one * times;
  std::vector<LinkUsage> more;
  for (std::size_t i = 0; i < latest_.links.size(); ++i) {
    const double carried = latest_.links[i].carried_bytes - kept_.links[i].carried_bytes;
    const SimTime busy = latest_.links[i].busy - kept_.links[i].busy;
    more.push_back({carried * static_cast<double>(times), busy * times});
  }
  network.skip(time, more);
  for (std::size_t stage = 0; stage < classes_.size(); ++stage) {
    ClassState& own = classes_[stage];
    const Place &before = kept_.places[stage], &place = latest_.places[stage];
    own.clock.repeat_since(before.clock, times);
    if (place.iteration == kNone) continue;
    const std::int64_t iterations = (place.iteration - before.iteration) * times;
    std::array<std::int64_t, kLaneCount> ops = loops_[stage].ops;
    for (std::size_t l = 0; l < kLaneCount; ++l)
      if ((place.lanes >> l & 1u) == 0) ops[l] = 0;
    own.launches.skip(iterations, ops, time, place.launches);
    for (std::size_t l = 0; l < kLaneCount; ++l) {
      LaneState& lane = own.lanes[l];
      if ((place.lanes >> l & 1u) == 0) continue;
      lane.cursor.skip(1, iterations);
      lane.completed += iterations * loops_[stage].ops[l];
      lane.data_ready += time;
      lane.ready += time;
      lane.start += time;
      lane.due += time;
      lane.times[static_cast<std::size_t>(step_)].repeat_since(before.times[l], times);
      for (Wait& wait : lane.waits) {
        if ((place.lanes >> wait.lane & 1u) != 0)
          wait.completed += iterations * loops_[stage].ops[wait.lane];
      }
    }
  }
  return {time, (latest_.ops - kept_.ops) * times};
}

}  // namespace zplan::sim
