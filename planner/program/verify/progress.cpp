#include "planner/program/verify/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "planner/program/instances/cursor.h"
#include "planner/program/job/meetings.h"
#include "planner/program/verify/shorten.h"

namespace zplan {
namespace {

constexpr std::int64_t kQueueDepth = 1;  // operations of a lane launched and not completed

// One lane of one class and the instance at its head.
class LaneHead {
 public:
  LaneHead(const ProgramIndex& index, Lane lane) : index_(&index), cursor_(index, lane, false) {
    enter();
  }
  bool done() const { return cursor_.empty() || cursor_->step() >= kVerifiedSteps; }
  const Node& node() const { return index_->program().nodes[cursor_->node]; }
  std::int64_t completed() const { return completed_; }
  std::string label() const { return op_name(op_id(index_->program(), node(), cursor_->env)); }
  const std::vector<Threshold>& waits() const { return waits_; }
  void advance() {
    ++completed_;
    cursor_.advance();
    enter();
  }

 private:
  void enter() {
    waits_.clear();
    if (done()) return;
    for (const Edge& edge : index_->program().after(node()))
      if (const auto threshold = index_->resolve(edge, cursor_->iterations))
        waits_.push_back(*threshold);
  }

  const ProgramIndex* index_;
  Cursor cursor_;
  std::int64_t completed_ = 0;
  std::vector<Threshold> waits_;
};

// The lanes of one class and its host, which has launched what comes before launch_.
class ClassState {
 public:
  ClassState(std::int32_t stage, Program program)
      : stage_(stage),
        program_(std::move(program)),
        index_(program_),
        launch_(index_, std::nullopt, false) {
    for (std::size_t l = 0; l < kLaneCount; ++l) {
      const auto lane = static_cast<Lane>(l);
      if (!heads_.emplace_back(index_, lane).done()) used_.push_back(lane);
    }
    launch();
  }
  ClassState(const ClassState&) = delete;
  ClassState& operator=(const ClassState&) = delete;

  bool listed = false;  // among those to look at

  std::int32_t stage() const { return stage_; }
  const std::vector<Lane>& used() const { return used_; }
  const LaneHead& head(Lane lane) const { return heads_[static_cast<std::size_t>(lane)]; }
  bool launched(Lane lane) const {
    return !is_launched(lane) || head(lane).completed() < launched_[static_cast<std::size_t>(lane)];
  }
  // The head exists, is launched, and all its edges are met.
  bool ready(Lane lane) const {
    const LaneHead& at = head(lane);
    return !at.done() && launched(lane) &&
           std::all_of(at.waits().begin(), at.waits().end(),
                       [&](const Threshold& t) { return head(t.lane).completed() >= t.completed; });
  }
  void complete(Lane lane) {
    heads_[static_cast<std::size_t>(lane)].advance();
    launch();
  }

 private:
  void launch() {
    for (; !launch_.empty() && launch_->step() < kVerifiedSteps; launch_.advance()) {
      const Lane lane = program_.nodes[launch_->node].lane;
      if (!is_launched(lane)) continue;
      std::int64_t& launched = launched_[static_cast<std::size_t>(lane)];
      if (launched - head(lane).completed() >= kQueueDepth) return;
      ++launched;
    }
  }

  std::int32_t stage_;
  Program program_;
  ProgramIndex index_;
  Cursor launch_;
  std::array<std::int64_t, kLaneCount> launched_{};
  std::vector<LaneHead> heads_;
  std::vector<Lane> used_;  // those that have operations
};

class Replay {
 public:
  explicit Replay(const Job& job) : job_(job) {
    std::vector<Program> programs = shorten_together(job);
    for (std::size_t i = 0; i < programs.size(); ++i)
      classes_.emplace_back(job.classes[i].stage, std::move(programs[i]));
    of_stage_.resize(static_cast<std::size_t>(job.stages()));
    for (ClassState& at : classes_) of_stage_[static_cast<std::size_t>(at.stage())] = &at;
  }

  // What can go at all goes, in whatever order: nothing that is ready ever ceases to be. So only
  // classes of which something has moved since they were looked at need another look.
  void run() {
    for (ClassState& at : classes_) look_at(at);
    for (; !moved_.empty(); moved_.pop_front()) {
      ClassState& at = *moved_.front();
      at.listed = false;
      for (bool moves = true; moves;) {
        moves = false;
        for (const Lane lane : at.used())
          while (step(at, lane)) moves = true;
      }
    }
  }

  // What each unfinished lane stands at, one line per class.
  void report(std::vector<std::string>& findings) {
    for (ClassState& at : classes_) {
      std::string stuck;
      for (const Lane lane : at.used()) {
        if (at.head(lane).done()) continue;
        if (!stuck.empty()) stuck += ", ";
        const char* why = at.ready(lane)      ? " (waits for its partner)"
                          : at.launched(lane) ? ""
                                              : " (not launched)";
        stuck += fmt::format("{} at {}{}", name(lane), at.head(lane).label(), why);
      }
      if (!stuck.empty())
        findings.push_back(fmt::format("stage {}: waits in a circle: {}", at.stage(), stuck));
    }
  }

 private:
  void look_at(ClassState& at) {
    if (!std::exchange(at.listed, true)) moved_.push_back(&at);
  }
  ClassState* class_of(std::int32_t stage) const {
    const auto at = static_cast<std::size_t>(stage);
    return at < of_stage_.size() ? of_stage_[at] : nullptr;
  }

  // Completes the head of a lane if it can go.
  bool step(ClassState& at, Lane lane) {
    if (!at.ready(lane)) return false;
    const Node& node = at.head(lane).node();
    switch (node.kind) {
      case OpKind::kSend:
        return meet(at, lane, OpKind::kReceive);
      case OpKind::kReceive:
        return meet(at, lane, OpKind::kSend);
      case OpKind::kCollective:
        if (spans_stages(job_.mesh, node.group)) return gather(at, lane, node.group);
        break;
      case OpKind::kKernel:
      case OpKind::kCopy:
      case OpKind::kMark:
        break;
    }
    at.complete(lane);
    return true;
  }

  bool meet(ClassState& at, Lane lane, OpKind wanted) {
    const auto there = peer_stage(job_.mesh, at.stage(), at.head(lane).node().peer);
    ClassState* const peer = there ? class_of(*there) : nullptr;
    if (peer == nullptr || !peer->ready(partner(lane))) return false;
    const Node& other = peer->head(partner(lane)).node();
    const bool meets =
        other.kind == wanted && peer_stage(job_.mesh, peer->stage(), other.peer) == at.stage();
    if (!meets) return false;
    peer->complete(partner(lane));
    at.complete(lane);
    look_at(*peer);
    return true;
  }

  bool gather(const ClassState& at, Lane lane, const Group group) {
    const std::vector<std::int32_t> stages = stages_of(job_.mesh, group, at.stage());
    for (const std::int32_t stage : stages) {
      const ClassState* const c = class_of(stage);
      if (c == nullptr) continue;
      if (!c->ready(lane)) return false;
      const Node& other = c->head(lane).node();
      if (other.kind != OpKind::kCollective || other.group != group) return false;
    }
    for (const std::int32_t stage : stages) {
      ClassState* const c = class_of(stage);
      if (c == nullptr) continue;
      c->complete(lane);
      look_at(*c);
    }
    return true;
  }

  const Job& job_;
  std::deque<ClassState> classes_;
  std::vector<ClassState*> of_stage_;  // null: the Job has none
  std::deque<ClassState*> moved_;
};

}  // namespace

void check_progress(const Job& job, std::vector<std::string>& findings) {
  Replay replay(job);
  replay.run();
  replay.report(findings);
}

}  // namespace zplan
