// A job of several processes on this host, for tests: where to meet, and what each one does.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "exec/comm/rendezvous.h"
#include "exec/comm/socket.h"
#include "planner/core/error.h"

namespace zplan::exec::testing {

// Nobody listens there; the system hands out others until it has gone round.
inline int free_port() { return listen_at(kLoopback, 0).own_port(); }

inline RendezvousOptions options_of(int rank, int world, int port) {
  RendezvousOptions options;
  options.at = {.rank = rank, .world = world, .local_rank = rank, .port = port};
  options.alike = {{"version", "1"}, {"plan", "abc"}};
  options.start_deadline = Seconds{20};
  options.heartbeat = Seconds{0.1};
  options.token.given = "a token of the unit tests";
  return options;
}

// Threads stand for processes. What each was told by an Error, by rank; "" of those without.
inline std::vector<std::string> on_ranks(int world, const std::function<void(int rank)>& body) {
  std::vector<std::string> errors(static_cast<std::size_t>(world));
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < world; ++rank) {
      threads.emplace_back([&, rank] {
        try {
          body(rank);
        } catch (const Error& error) {
          errors[static_cast<std::size_t>(rank)] = error.what();
        }
      });
    }
  }
  return errors;
}

}  // namespace zplan::exec::testing
