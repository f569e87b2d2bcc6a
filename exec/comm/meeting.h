// The start of a rendezvous (rendezvous.h): rank 0 waits for all others, which call it until it
// listens; it takes them when all are alike, or refuses all of them with one line that says why.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exec/comm/message.h"
#include "exec/comm/rendezvous.h"

namespace zplan::exec {

struct Meeting {
  std::vector<std::unique_ptr<MessageStream>> streams;  // of rank 0: to rank i + 1; else: to rank 0
  std::string secret;
  bool on_one_host = false;
};

// Throws Error as Rendezvous does.
Meeting meet(const RendezvousOptions& options);

}  // namespace zplan::exec
