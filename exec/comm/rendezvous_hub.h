// What rank 0 decides for all processes (rendezvous.h), without any connection: a function from
// messages to messages. Its own process is rank 0 to it like every other.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "exec/comm/message.h"
#include "exec/comm/step_decisions.h"

namespace zplan::exec {

class RendezvousHub {
 public:
  using Send = std::function<void(int rank, const Message&)>;
  RendezvousHub(int world, Send send);

  void receive(int from, const Message& message);
  // Rank `from` is gone. The first loss is told to all; what it causes is not.
  void lose(int from, const std::string& reason);

 private:
  void send_to_all(const Message& message);
  // Keeps the part; whether all are there, of which the next one is then the first again.
  bool has_all(int from, std::pair<MessageKind, int> asked, const std::string& part);
  void exchange(int from, const std::string& part);
  void gather(int from, const Message& message);
  void enter(int from, std::int64_t step, bool interrupted);
  void give_up();
  void finish(int from);

  int world_;
  Send send_;
  std::vector<std::string> parts_;  // of the exchange or gathering under way, by rank
  std::vector<bool> has_part_, finished_;
  std::pair<MessageKind, int> asked_{};  // by the first of them, with the root
  bool has_more_ = false;                // of the parts that are gathered, some go on
  StepDecisions steps_;
  bool is_lost_ = false;
};

}  // namespace zplan::exec
