#include "planner/program/verify_communication.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/program/cursor.h"

namespace zplan {
namespace {

// One node of a lane that other classes take part in.
struct Message {
  NodeIndex node = 0;
  Env env;
  OpKind kind = OpKind::kSend;
  CollectiveKind collective = CollectiveKind::kAllReduce;
  DType dtype = DType::kF32;
  Bytes bytes{0};

  bool matches(const Message& other) const {
    return bytes == other.bytes && dtype == other.dtype && collective == other.collective;
  }
};

struct Sequence {
  const RankClass* owner = nullptr;
  std::vector<Message> messages;

  std::string describe(std::size_t k) const {
    const Message& m = messages[k];
    const Program& p = owner->program;
    return fmt::format("{} of {} bytes {} in '{}'", op_name(op_id(p.nodes[m.node].role, m.env)),
                       m.bytes.value, name(m.dtype),
                       p.buffers[p.operands(p.nodes[m.node])[0].buffer].name);
  }
};

// The nodes of a lane that `wanted` picks, over one step.
template <typename Wanted>
Sequence sequence_of(const RankClass& rank_class, Lane lane, const Wanted& wanted) {
  Sequence result{&rank_class, {}};
  const Program& p = rank_class.program;
  if (std::none_of(p.nodes.begin(), p.nodes.end(),
                   [&](const Node& n) { return n.lane == lane && wanted(n); }))
    return result;
  const ProgramIndex index(p);
  for (Cursor at(index, lane); at->step() == 0; at.advance()) {
    const Node& n = p.nodes[at->node];
    if (!wanted(n)) continue;
    const View& v = p.operands(n)[0];
    result.messages.push_back({at->node, at->env, n.kind, n.collective, v.dtype, v.bytes()});
  }
  return result;
}

class CommunicationCheck {
 public:
  CommunicationCheck(const Job& job, std::vector<std::string>& findings)
      : job_(job), findings_(findings) {}

  void run() {
    for (const RankClass& a : job_.classes)
      for (const RankClass& b : job_.classes)
        for (const Lane lane : {Lane::kP2pForward, Lane::kP2pBackward})
          if (&a != &b) check_pair(a, b, lane);
    for (const Lane lane : {Lane::kCommGather, Lane::kCommReduce}) {
      check_group(lane, GroupKind::kWorld, [](const RankClass&) { return true; });
      check_group(lane, GroupKind::kEmbedding,
                  [&](const RankClass& c) { return c.stage == 0 || c.stage == job_.pp - 1; });
    }
  }

 private:
  void check_pair(const RankClass& from, const RankClass& to, Lane lane) {
    const auto exchanges = [](OpKind kind, std::int32_t peer) {
      return [kind, peer](const Node& n) { return n.kind == kind && n.peer_stage == peer; };
    };
    compare(sequence_of(from, lane, exchanges(OpKind::kSend, to.stage)),
            sequence_of(to, lane, exchanges(OpKind::kReceive, from.stage)), lane,
            fmt::format("sends to stage {}", to.stage),
            fmt::format("receives from stage {}", from.stage));
  }

  template <typename Member>
  void check_group(Lane lane, GroupKind group, const Member& is_member) {
    const auto wanted = [group](const Node& n) {
      return n.kind == OpKind::kCollective && n.group == group;
    };
    const std::string what = fmt::format("{} collectives", name(group));
    const RankClass* first = nullptr;
    Sequence reference;
    for (const RankClass& member : job_.classes) {
      Sequence own = sequence_of(member, lane, wanted);
      if (!is_member(member)) {
        if (!own.messages.empty())
          add(own, lane, fmt::format("{}, but is not in that group", own.describe(0)));
      } else if (first == nullptr) {
        first = &member;
        reference = std::move(own);
      } else {
        compare(own, reference, lane, what, what);
      }
    }
  }

  void compare(const Sequence& a, const Sequence& b, Lane lane, const std::string& a_does,
               const std::string& b_does) {
    if (a.messages.size() != b.messages.size())
      return add(a, lane,
                 fmt::format("{} {} in a step, stage {} has {} {}{}", a.messages.size(), a_does,
                             b.owner->stage, b.messages.size(), b_does, example(a, b)));
    for (std::size_t k = 0; k < a.messages.size(); ++k)
      if (!a.messages[k].matches(b.messages[k]))
        return add(
            a, lane,
            fmt::format("{} meets {} of stage {}", a.describe(k), b.describe(k), b.owner->stage));
  }

  // The first message without a partner.
  static std::string example(const Sequence& a, const Sequence& b) {
    const Sequence& longer = a.messages.size() > b.messages.size() ? a : b;
    return ": " + longer.describe(std::min(a.messages.size(), b.messages.size())) + " is left over";
  }

  void add(const Sequence& at, Lane lane, const std::string& text) {
    findings_.push_back(fmt::format("stage {}: lane {}: {}", at.owner->stage, name(lane), text));
  }

  const Job& job_;
  std::vector<std::string>& findings_;
};

}  // namespace

void check_communication(const Job& job, std::vector<std::string>& findings) {
  CommunicationCheck(job, findings).run();
}

}  // namespace zplan
