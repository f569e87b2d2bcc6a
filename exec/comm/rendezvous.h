// How the processes of a job find each other, agree, and learn of each other's end. Every process
// keeps one connection to rank 0 for the whole run; the data of the steps goes elsewhere
// (process_comm.h). Serves every backend: what they have to tell each other is exchanged as text.
//
// A process is lost when its connection closes or is silent for too long, or when it says so
// (abort). Rank 0 decides which loss was the first, and tells all processes that one; the loss of
// rank 0 everyone sees by itself. Nothing is a loss after finish().
//
// A thread of its own serves the connections. All calls throw Error(kDevice) once a process is
// lost.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exec/comm/job_token.h"
#include "exec/comm/launch_environment.h"
#include "exec/comm/message.h"
#include "planner/core/units.h"

namespace zplan::exec {

struct RendezvousOptions {
  LaunchEnvironment at;
  // What must be alike in all processes, by name: {"plan", fingerprint}, {"version", "0.1.0"} ..
  std::vector<std::pair<std::string, std::string>> alike;
  Seconds start_deadline{600};   // until all have come
  Seconds silence_deadline{30};  // after which a process counts as lost
  Seconds heartbeat{1};
  std::int64_t most_gathered = std::int64_t{256} << 20;  // [assumed] bytes of all at once
  // Called by rank 0 for each of the others that has come.
  std::function<void(int rank)> has_come{};
  // Called where some have not come after a few seconds: "ranks 1, 3 of 4" by rank 0, "rank 0 at
  // 10.0.0.1:29500" by the others.
  std::function<void(const std::string& absent)> on_waiting{};
  TokenSource token{};
  Seconds token_patience{60};  // while rank 0 does not know the token, or none can be had
  // Called for each connection of somebody who does not know the token.
  std::function<void(const std::string& address)> on_stranger{};
};

struct Loss {
  int rank = 0;
  std::string reason;
};
// "rank 2 is lost: it ended without a word"
std::string describe(const Loss& loss);

// Of a process that others reach at these of its addresses: the one that all of them know; "" where
// they know several, or the loopback, and it must listen at all.
std::string common_address(const std::vector<std::string>& own);

class Rendezvous {
 public:
  // Returns when all processes have come. Throws Error: kBadInput when they are not alike, two have
  // one rank or the number of them is not agreed on, kDevice at the deadline.
  explicit Rendezvous(const RendezvousOptions& options);
  // Without finish() or abort() before, the others learn that this process has ended.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  int rank() const { return options_.at.rank; }
  int world() const { return options_.at.world; }
  // Whether all processes are on this host.
  bool is_on_one_host() const { return on_one_host_; }
  // 32 bytes that only processes of this job know, others in each run.
  const std::string& secret() const { return secret_; }
  // Of this process and of rank 0, on the way between them.
  const std::string& own_address() const { return own_address_; }
  const std::string& host_address() const { return host_address_; }
  // Where this process can be reached by all others; "" when one address does not do.
  std::string listen_address() const;
  void note_stranger(const std::string& address) const {
    if (options_.on_stranger) options_.on_stranger(address);
  }

  // Called by all processes, in the same order: the parts of all, by rank.
  std::vector<std::string> exchange(const std::string& own);
  // The same, but rank `root` alone gets the parts, the others nothing; of any length.
  std::vector<std::string> gather(int root, const std::string& own);
  // Whether this process may begin the step; it asks for one after the other. An interruption of
  // any process ends the steps of all after the newest that one of them has begun.
  bool enter(std::int64_t step, bool interrupted);
  // Whether states may be changed in the step, which this process has entered, or it may end.
  bool change(std::int64_t step);
  // An interruption that gives up all steps which no process has ended or changed a state in.
  void give_up();
  // Returns when all processes have called it.
  void finish();
  // From any thread; the first call counts.
  void abort(const std::string& reason) noexcept;

  std::optional<Loss> loss() const;
  // The loss of another process, as soon as one is known; nothing when none is by then.
  std::optional<Loss> wait_for_loss(Seconds deadline) const;
  // Called once, by any thread, when another process is lost. An empty function ends that: it is
  // not called any more when this returns.
  void on_lost(std::function<void(const Loss&)> callback);
  // Called with the first step that is given up, before what is asked for later is answered; at
  // once where that is known.
  // An empty function ends that, likewise.
  void on_given_up(std::function<void(std::int64_t step)> callback);

 private:
  class Service;

  void post(Message message);
  Message ask(Message request);
  void take(const Message& message);  // that rank 0 sends to this process
  void lose(const Loss& loss);
  void tell_of_loss();  // with callback_mutex_ held

  RendezvousOptions options_;
  std::string secret_, own_address_, common_address_, host_address_;
  bool on_one_host_ = false;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::vector<Message> outgoing_;  // to rank 0
  std::optional<Message> answer_;
  std::optional<Loss> loss_;
  bool finished_ = false, aborted_ = false;

  std::mutex callback_mutex_;
  std::function<void(const Loss&)> callback_;
  std::function<void(std::int64_t)> given_up_callback_;
  std::optional<std::int64_t> given_up_;  // until an exchange

  std::unique_ptr<Service> service_;
  std::jthread thread_;
};

// on_lost() and on_given_up() for as long as what the callbacks use lives.
class LossWatch {
 public:
  LossWatch(Rendezvous& rendezvous, std::function<void(const Loss&)> lost,
            std::function<void(std::int64_t step)> given_up = {})
      : rendezvous_(&rendezvous) {
    rendezvous.on_given_up(std::move(given_up));
    rendezvous.on_lost(std::move(lost));
  }
  ~LossWatch() {
    rendezvous_->on_lost({});
    rendezvous_->on_given_up({});
  }
  LossWatch(const LossWatch&) = delete;
  LossWatch& operator=(const LossWatch&) = delete;

 private:
  Rendezvous* rendezvous_;
};

}  // namespace zplan::exec
