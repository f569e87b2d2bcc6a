#include "exec/comm/rendezvous_hub.h"

#include <algorithm>
#include <utility>

namespace zplan::exec {
namespace {

bool all(const std::vector<bool>& flags) {
  return std::find(flags.begin(), flags.end(), false) == flags.end();
}

bool any(const std::vector<bool>& flags) {
  return std::find(flags.begin(), flags.end(), true) != flags.end();
}

}  // namespace

RendezvousHub::RendezvousHub(int world, Send send)
    : world_(world),
      send_(std::move(send)),
      parts_(static_cast<std::size_t>(world)),
      has_part_(parts_.size()),
      finished_(parts_.size()) {}

void RendezvousHub::receive(int from, const Message& message) {
  switch (message.kind) {
    case MessageKind::kExchange:
      return exchange(from, message.body);
    case MessageKind::kGather:
      return gather(from, message);
    case MessageKind::kEnter:
      return enter(from, message.number / 2, message.number % 2 != 0);
    case MessageKind::kChange:
      return send_(from, {MessageKind::kChange, steps_.change(message.number) ? 1 : 0, ""});
    case MessageKind::kGiveUp:
      return give_up();
    case MessageKind::kFinish:
      return finish(from);
    case MessageKind::kAbort:
      return lose(from, message.body);
    case MessageKind::kHeartbeat:
      return;
    case MessageKind::kHello:
    case MessageKind::kWelcome:
    case MessageKind::kRefuse:
    case MessageKind::kLost:
      return lose(from, "it sent what it must not send");
  }
}

void RendezvousHub::lose(int from, const std::string& reason) {
  if (is_lost_ || finished_[static_cast<std::size_t>(from)]) return;
  is_lost_ = true;
  send_to_all({MessageKind::kLost, from, reason});
}

void RendezvousHub::send_to_all(const Message& message) {
  for (int rank = 0; rank < world_; ++rank) send_(rank, message);
}

bool RendezvousHub::has_all(int from, std::pair<MessageKind, int> asked, const std::string& part) {
  if (!any(has_part_)) asked_ = asked;
  if (asked != asked_) {
    lose(from, "it exchanges something else than the others");
    return false;
  }
  parts_[static_cast<std::size_t>(from)] = part;
  has_part_[static_cast<std::size_t>(from)] = true;
  if (!all(has_part_)) return false;
  std::fill(has_part_.begin(), has_part_.end(), false);
  return true;
}

// Nobody is within a step then, so that what was begun and ended before is of a run that is over.
void RendezvousHub::exchange(int from, const std::string& part) {
  if (!has_all(from, {MessageKind::kExchange, 0}, part)) return;
  steps_ = StepDecisions();
  send_to_all({MessageKind::kExchange, 0, join(parts_)});
}

void RendezvousHub::gather(int from, const Message& message) {
  const int root = static_cast<int>(message.number / 2);
  has_more_ |= message.number % 2 != 0;
  if (!has_all(from, {MessageKind::kGather, root}, message.body)) return;
  const std::int64_t more = std::exchange(has_more_, false) ? 1 : 0;
  for (int rank = 0; rank < world_; ++rank)
    send_(rank, {MessageKind::kGather, more, rank == root ? join(parts_) : ""});
}

void RendezvousHub::enter(int from, std::int64_t step, bool interrupted) {
  if (interrupted) steps_.interrupt();
  send_(from, {MessageKind::kEnter, steps_.enter(step) ? 1 : 0, ""});
}

// Who enters them later is refused.
void RendezvousHub::give_up() {
  if (const auto step = steps_.give_up()) send_to_all({MessageKind::kGiveUp, *step, ""});
}

void RendezvousHub::finish(int from) {
  if (is_lost_) return;  // all have been told
  finished_[static_cast<std::size_t>(from)] = true;
  if (all(finished_)) send_to_all({MessageKind::kFinish, 0, ""});
}

}  // namespace zplan::exec
