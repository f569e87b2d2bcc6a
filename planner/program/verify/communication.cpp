#include "planner/program/verify/communication.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "planner/program/instances/cursor.h"
#include "planner/program/job/meetings.h"
#include "planner/program/job/tree.h"
#include "planner/program/verify/shorten.h"

namespace zplan {
namespace {

using Wanted = std::function<bool(const Node&)>;

// What one class does on a lane that other classes take part in: the nodes that `wanted` picks.
struct Side {
  const RankClass* owner;
  const Program* cut;  // see shorten.h
  Lane lane;
  Wanted wanted;

  // Instances of one step.
  std::int64_t count(const Program& p) const {
    std::int64_t sum = 0;
    for (const Node& n : p.nodes)
      if (n.lane == lane && wanted(n)) sum += instances(p, n.block);
    return sum;
  }
};

// The messages of a Side, one after the other.
class Messages {
 public:
  Messages(const Program& program, const Side& side)
      : program_(&program), side_(&side), index_(program), at_(index_, side.lane) {
    skip();
  }
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  void advance() {
    at_.advance();
    skip();
  }
  bool done() const { return at_.empty() || at_->step() > 0; }
  bool matches(const Messages& other) const {
    const View &mine = operand(), &theirs = other.operand();
    return mine.bytes() == theirs.bytes() && mine.dtype == theirs.dtype &&
           node().collective == other.node().collective;
  }
  std::string describe() const {
    return fmt::format("{} of {} bytes {} in '{}'", op_name(op_id(*program_, node(), at_->env)),
                       operand().bytes().value, name(operand().dtype),
                       program_->buffers[operand().buffer].name);
  }

 private:
  const Node& node() const { return program_->nodes[at_->node]; }
  const View& operand() const { return program_->operands(node())[0]; }
  void skip() {
    while (!done() && !side_->wanted(node())) at_.advance();
  }

  const Program* program_;
  const Side* side_;
  ProgramIndex index_;
  Cursor at_;
};

class CommunicationCheck {
 public:
  CommunicationCheck(const Job& job, std::vector<std::string>& findings)
      : job_(job), cut_(shorten_together(job)), findings_(findings) {}

  void run() {
    for (const auto& [from, to, lane] : exchanges()) check_pair(from, to, lane);
    for (const auto& [lane, group] : meetings()) check_group(lane, group);
  }

 private:
  // Which class sends to which, and on which lane, as either of them has it.
  std::set<std::tuple<std::size_t, std::size_t, Lane>> exchanges() const {
    std::set<std::tuple<std::size_t, std::size_t, Lane>> all;
    for (std::size_t own = 0; own < cut_.size(); ++own)
      for (const Node& n : job_.classes[own].program.nodes) {
        if (!is_transfer(n.kind)) continue;
        const auto peer =
            static_cast<std::size_t>(*peer_stage(job_.mesh, job_.classes[own].stage, n.peer));
        const bool sends = n.kind == OpKind::kSend;
        all.emplace(sends ? own : peer, sends ? peer : own, sending_lane(n.lane));
      }
    return all;
  }

  // On which lanes what groups of several stages meet.
  std::set<std::pair<Lane, Group>> meetings() const {
    std::set<std::pair<Lane, Group>> all;
    for (const RankClass& c : job_.classes)
      for (const Node& n : c.program.nodes)
        if (n.kind == OpKind::kCollective && spans_stages(job_.mesh, n.group))
          all.emplace(n.lane, n.group);
    return all;
  }

  Side side(std::size_t index, Lane lane, Wanted wanted) const {
    return {&job_.classes[index], &cut_[index], lane, std::move(wanted)};
  }

  void check_pair(std::size_t from, std::size_t to, Lane lane) {
    const auto exchanges = [&](OpKind kind, std::size_t own, std::size_t peer) {
      return [this, kind, own, peer](const Node& n) {
        return n.kind == kind &&
               peer_stage(job_.mesh, job_.classes[own].stage, n.peer) == job_.classes[peer].stage;
      };
    };
    compare(side(from, lane, exchanges(OpKind::kSend, from, to)),
            side(to, partner(lane), exchanges(OpKind::kReceive, to, from)),
            fmt::format("sends to stage {}", to), fmt::format("receives from stage {}", from));
  }

  void check_group(Lane lane, const Group& group) {
    const auto wanted = [group](const Node& n) {
      return n.kind == OpKind::kCollective && n.group == group;
    };
    const std::string what = fmt::format("{} collectives", name(job_.mesh, group));
    std::optional<Side> first;
    for (std::size_t i = 0; i < cut_.size(); ++i) {
      const Side own = side(i, lane, wanted);
      if (!in_group(job_.mesh, group, own.owner->stage)) {
        if (own.count(own.owner->program) > 0)
          add(own, fmt::format("{}, but is not in that group",
                               Messages(own.owner->program, own).describe()));
      } else if (!first) {
        first = own;
      } else {
        compare(own, *first, what, what);
      }
    }
  }

  void compare(const Side& a, const Side& b, const std::string& a_does, const std::string& b_does) {
    const Program &whole_a = a.owner->program, &whole_b = b.owner->program;
    const std::int64_t sent = a.count(whole_a), met = b.count(whole_b);
    if (sent != met)
      return add(a, fmt::format("{} {} in a step, stage {} has {} {}: {} is left over", sent,
                                a_does, b.owner->stage, met, b_does,
                                left_over(sent > met ? a : b, std::min(sent, met))));
    if (sent == 0) return;
    const bool cut_alike = a.count(*a.cut) == b.count(*b.cut);
    Messages left(cut_alike ? *a.cut : whole_a, a), right(cut_alike ? *b.cut : whole_b, b);
    for (; !left.done(); left.advance(), right.advance())
      if (!left.matches(right))
        return add(a, fmt::format("{} meets {} of stage {}", left.describe(), right.describe(),
                                  b.owner->stage));
  }

  // The first message without a partner, of those beyond `matched`.
  static std::string left_over(const Side& longer, std::int64_t matched) {
    Messages at(longer.owner->program, longer);
    for (std::int64_t k = 0; k < matched; ++k) at.advance();
    return at.describe();
  }

  void add(const Side& at, const std::string& text) {
    findings_.push_back(fmt::format("stage {}: lane {}: {}", at.owner->stage, name(at.lane), text));
  }

  const Job& job_;
  std::vector<Program> cut_;  // of each class
  std::vector<std::string>& findings_;
};

}  // namespace

void check_communication(const Job& job, std::vector<std::string>& findings) {
  CommunicationCheck(job, findings).run();
}

}  // namespace zplan
