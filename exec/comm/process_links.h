// Connections between the processes of a job, made ahead of the first step: one per (channel,
// pair), so that what runs on different channels does not meet.
#pragma once

#include <compare>
#include <map>
#include <set>

#include "exec/comm/rendezvous.h"
#include "exec/comm/socket.h"

namespace zplan::exec {

struct LinkKey {
  int channel = 0;
  int peer = 0;  // rank
  friend auto operator<=>(const LinkKey&, const LinkKey&) = default;
};

// Called by all processes; of each pair both want the same channels. Throws Error(kDevice) when
// one is lost or the connections are not there at the deadline.
std::map<LinkKey, Socket> connect_links(Rendezvous& rendezvous, const std::set<LinkKey>& wanted,
                                        Seconds deadline);

}  // namespace zplan::exec
