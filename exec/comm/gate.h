// Where processes of a job come in and strangers do not. Whoever connects greets (greeting.h)
// beside all others within a short time. So many at most are listened to at once, and the one that
// has waited longest makes room for the next, but not before it has had a moment: those of a large
// job come all at once. A stranger costs the job nothing but that.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "exec/comm/greeting.h"
#include "exec/comm/socket.h"
#include "planner/core/units.h"

namespace zplan::exec {

struct GateOptions {
  std::string key;
  std::string purpose;   // of the connections; both sides name the same
  Seconds patience{5};   // for a greeting
  Seconds moment{0.25};  // before one makes room for another
  std::size_t most_waiting = 256;
  // Called for each that does not know the key or does not greet in time.
  std::function<void(const std::string& address)> on_stranger{};
};

class Gate {
 public:
  struct Guest {
    Caller caller;
    Socket socket;
  };

  Gate(Socket listener, GateOptions options);

  int port() const { return listener_.own_port(); }
  // The next that has proven to be of the job; nothing when none has until then. Throws
  // Error(kDevice) when no connection can be accepted though nobody waits.
  std::optional<Guest> admit(TimePoint deadline);

 private:
  struct Waiting {
    GateGreeting greeting;
    TimePoint sure;  // of its place
    TimePoint until;
  };

  bool is_full() const { return waiting_.size() >= options_.most_waiting; }
  bool has_room() const;
  std::optional<Guest> hear();
  void accept_all();
  void wait(TimePoint deadline);
  void turn_away(const Waiting& waiting);

  Socket listener_;
  GateOptions options_;
  std::deque<Waiting> waiting_;  // in order of their coming
};

// How a process comes in.
struct GateCall {
  std::string address;
  int port = 0;
  std::function<std::string()> key;  // asked for at each attempt; "": none yet
  std::string purpose;
  Caller caller;
  Seconds patience{60};  // while who answers does not know the key, or no key can be had
};

// Calls until the gate lets it in; `before_retry` may give up by an exception. Throws Error:
// kBadInput for a host without address and when the patience is at its end, kDevice at the
// deadline.
Socket call_gate(const GateCall& call, TimePoint deadline,
                 const std::function<void()>& before_retry = {});

}  // namespace zplan::exec
