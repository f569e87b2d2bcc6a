#include "exec/schedule/serial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "exec/comm/channel.h"
#include "exec/memory/guard.h"
#include "exec/schedule/queues.h"
#include "planner/core/error.h"
#include "planner/core/random.h"
#include "planner/core/text.h"
#include "planner/program/job/meetings.h"

namespace zplan::exec {
namespace {

class SerialRun {
 public:
  explicit SerialRun(RunState& state) : state_(state), places_(state.ranks.size() * kLaneCount) {
    for (LaneRun& lane : state.lanes) place(*lane.rank, lane.lane).run = &lane;
    if (!state.options->guard) return;
    for (Rank& rank : state.ranks) guards_.emplace_back(*rank.memory);
  }

  void run() {
    state_.start = std::chrono::steady_clock::now();
    state_.log.begin(static_cast<int>(state_.lanes.size()), state_.start);
    for (const Rank& rank : state_.ranks) rank.backend->prepare_thread();
    while (true) {
      collect_ready();
      if (ready_.empty()) break;
      execute(*pick());
    }
    for (const Place& p : places_)
      if (p.run != nullptr && !p.finished) throw_stuck();
    for (Guard& guard : guards_) guard.release();
  }

 private:
  struct Place {
    LaneRun* run = nullptr;  // null: the lane has no nodes
    std::int64_t completed = 0;
    std::int64_t entered = 0;  // steps
    bool finished = false;
  };

  Place& place(const Rank& rank, Lane lane) { return place(rank.number, lane); }
  Place& place(std::int32_t rank, Lane lane) {
    return places_[static_cast<std::size_t>(rank) * kLaneCount + static_cast<std::size_t>(lane)];
  }

  void collect_ready() {
    ready_.clear();
    for (Place& p : places_) {
      if (!may_start(p) || !find_members(p)) continue;
      ready_.push_back(&p);
      if (state_.options->schedule_seed == 0) return;
    }
  }

  Place* pick() {
    const std::uint64_t seed = state_.options->schedule_seed;
    if (seed == 0) return ready_.front();
    const std::uint64_t draw = data_draw(seed, draws_++);
    return ready_[draw % ready_.size()];
  }

  // Own dependencies are met, and the run has this step.
  bool may_start(Place& p) {
    if (p.run == nullptr || p.finished) return false;
    const Instance& at = *p.run->cursor;
    const std::int64_t begun = at.step() < p.entered ? at.step() : at.step() - 1;  // or just ended
    if (begun >= 0 && !state_.gate.goes_on(begun, false)) {
      p.finished = true;
      return false;
    }
    if (at.step() == p.entered) {
      if (!cross_border(at.step())) return false;
      if (!state_.gate.enter(at.step())) {
        p.finished = true;
        return false;
      }
      ++p.entered;
    }
    return !unmet(p);
  }

  // False while a lane has yet to end a step before this one.
  bool cross_border(std::int64_t step) {
    if (step <= crossed_ || !state_.border.at(step)) return true;
    for (const Place& p : places_)
      if (p.run != nullptr && !p.finished && p.run->cursor->step() < step) return false;
    state_.border.act(step);
    crossed_ = step;
    return true;
  }

  std::optional<Threshold> unmet(const Place& p) {
    const Rank& rank = *p.run->rank;
    for (const Edge& edge : rank.program().after(p.run->node())) {
      const auto needed = rank.index.resolve(edge, p.run->cursor->iterations);
      if (needed && place(rank, needed->lane).completed < needed->completed) return needed;
    }
    return std::nullopt;
  }

  // Fills members_ with the places that take part in the operation `p` stands on, in index order;
  // false when one of them has not come.
  bool find_members(const Place& p) {
    const Node& node = p.run->node();
    const std::int32_t rank = p.run->rank->number;
    members_.clear();
    if (is_transfer(node.kind)) {
      const std::int32_t peer = peer_rank(state_.job->mesh, rank, node.peer);
      const bool sends = node.kind == OpKind::kSend;
      Place &own = place(rank, node.lane), &other = place(peer, partner(node.lane));
      members_ = {sends ? &own : &other, sends ? &other : &own};
    } else if (node.kind == OpKind::kCollective) {
      for (std::int32_t member : members_of(state_.job->mesh, node.group, rank).ranks)
        members_.push_back(&place(member, node.lane));
    } else {
      members_.push_back(&place(rank, node.lane));
    }
    return std::all_of(members_.begin(), members_.end(), [&](Place* other) {
      return other == &p || (may_start(*other) && meets(p, *other));
    });
  }

  // Whether both stand on ends of the same operation.
  bool meets(const Place& p, const Place& other) const {
    const Node& a = p.run->node();
    const Node& b = other.run->node();
    if (a.kind == OpKind::kCollective) return b.kind == a.kind && b.group == a.group;
    const OpKind wanted = a.kind == OpKind::kSend ? OpKind::kReceive : OpKind::kSend;
    return b.kind == wanted &&
           peer_rank(state_.job->mesh, other.run->rank->number, b.peer) == p.run->rank->number;
  }

  void execute(Place& leader) {
    ZPLAN_ASSERT(find_members(leader));
    for (const Place* p : members_)
      if (!goes_on(state_, *p->run)) return;
    operands_.clear();
    const Instance& at = *leader.run->cursor;
    is_skipped_ = is_skipped(state_, *leader.run->rank, at.node, at.step());
    for (Place* p : members_) operands_.emplace_back(*p->run->rank, *p->run->cursor);
    open_guards();
    Times times;
    times.ready = times.start = std::chrono::steady_clock::now();
    if (!is_skipped_) compute();
    times.end = std::chrono::steady_clock::now();
    for_guards(
        [](Guard& guard, auto operands, const std::string& what) { guard.check(operands, what); });
    for (std::size_t i = 0; i < members_.size(); ++i)
      complete(state_, *members_[i]->run, operands_[i], times);
    state_.gate.poll(times.end);
    for (Place* p : members_) {
      ++p->completed;
      p->run->cursor.advance();
    }
  }

  // The ranks of the operation before that have no part in this one lose access to their memory.
  void open_guards() {
    for (const std::int32_t rank : open_)
      if (!has_member(rank)) guards_[static_cast<std::size_t>(rank)].close();
    open_.clear();
    if (guards_.empty() || is_skipped_) return;
    for (const Place* p : members_) open_.push_back(p->run->rank->number);
    for_guards(
        [](Guard& guard, auto operands, const std::string& what) { guard.open(operands, what); });
  }

  bool has_member(std::int32_t rank) const {
    return std::any_of(members_.begin(), members_.end(),
                       [rank](const Place* p) { return p->run->rank->number == rank; });
  }

  // Calls action(guard, operands, description) for each member, if there are guards.
  template <typename Action>
  void for_guards(const Action& action) {
    if (guards_.empty() || is_skipped_) return;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const LaneRun& lane = *members_[i]->run;
      action(guards_[static_cast<std::size_t>(lane.rank->number)],
             touched(*lane.rank, lane.node(), operands_[i]), describe(*lane.rank, *lane.cursor));
    }
  }

  void compute() {
    const LaneRun& lane = *members_.front()->run;
    switch (lane.node().kind) {
      case OpKind::kKernel:
      case OpKind::kCopy:
      case OpKind::kMark:
        execute_local(state_, *lane.rank, *lane.cursor, lane.cursor->step(), operands_.front());
        break;
      case OpKind::kCollective:
        compute_collective();
        break;
      case OpKind::kSend:
      case OpKind::kReceive:
        transfer(lane, operands_[0][0], operands_[1][0]);
        break;
    }
    for (const Place* p : members_)
      if (Queues* queues = p->run->rank->backend->queues()) queues->finish();
  }

  static void transfer(const LaneRun& lane, const Operand& from, const Operand& to) {
    const Bytes bytes = from.view->bytes();
    check_same_size(bytes, to.view->bytes());
    if (Queues* queues = lane.rank->backend->queues())
      return queues->copy_bytes(lane.lane, to.data, from.data, bytes);
    std::memcpy(to.data, from.data, static_cast<std::size_t>(bytes.value));
  }

  void compute_collective() {
    calls_.clear();
    for (std::size_t i = 0; i < members_.size(); ++i)
      calls_.push_back(
          collective_call(*members_[i]->run->rank, members_[i]->run->node(), operands_[i]));
    check_same_operation(calls_);
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      const LaneRun& member = *members_[i]->run;
      if (Queues* queues = member.rank->backend->queues()) {
        queues->run_share(member.lane, calls_, static_cast<int>(i));
        queues->finish();  // the shares are not ordered otherwise
      } else {
        run_share(calls_, static_cast<int>(i));
      }
    }
  }

  [[noreturn]] void throw_stuck() {
    std::vector<std::string> waiting;
    for (const Place& p : places_) {
      if (p.run == nullptr || p.finished) continue;
      const auto needed = unmet(p);
      const std::string why =
          needed ? fmt::format("for {} to complete {} more", name(needed->lane),
                               needed->completed - place(*p.run->rank, needed->lane).completed)
                 : "for its partners";
      waiting.push_back(fmt::format("{} waits {}", describe(*p.run->rank, *p.run->cursor), why));
    }
    throw Error(ExitCode::kCheckFailed, fmt::format("the job is stuck: {}", joined(waiting, "; ")));
  }

  RunState& state_;
  std::vector<Place> places_;       // by (rank, lane)
  std::vector<Guard> guards_;       // by rank; empty: none
  std::vector<std::int32_t> open_;  // ranks whose guards are
  std::uint64_t draws_ = 0;
  std::int64_t crossed_ = 0;  // the newest step whose border was
  // Of the operation at hand; kept so that a step allocates nothing.
  std::vector<Place*> ready_, members_;
  bool is_skipped_ = false;
  std::vector<BoundOperands> operands_;
  std::vector<CollectiveCall> calls_;
};

}  // namespace

void run_serial(RunState& state) { SerialRun(state).run(); }

}  // namespace zplan::exec
