#include "exec/comm/process_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "exec/comm/gate.h"
#include "planner/core/error.h"

namespace zplan::exec {
namespace {

constexpr Seconds kLook{0.1};  // between looks for a loss

using Links = std::map<LinkKey, Socket>;

// A caller that means another process is not let in.
std::string purpose_of(int called) { return fmt::format("link to {}", called); }

// How others reach a process.
struct Place {
  std::string near;  // on its way to rank 0
  std::string far;   // from other hosts, when the way to rank 0 is the loopback
  int port = 0;
};

std::vector<Place> exchange_places(Rendezvous& rendezvous, int port) {
  std::vector<Place> places;
  const std::string own = join({rendezvous.own_address(), outward_address(), std::to_string(port)});
  for (const std::string& text : rendezvous.exchange(own)) {
    const std::vector<std::string> parts = split(text);
    ZPLAN_ASSERT(parts.size() == 3);
    Place place{parts[0], parts[1], 0};
    std::from_chars(parts[2].data(), parts[2].data() + parts[2].size(), place.port);
    places.push_back(place);
  }
  return places;
}

// Only a process on the host of rank 0 reaches it by the loopback.
std::string address_of(const Rendezvous& rendezvous, const std::vector<Place>& places, int peer) {
  if (rendezvous.is_on_one_host()) return kLoopback;
  if (peer == 0) return rendezvous.host_address();
  const Place& place = places[static_cast<std::size_t>(peer)];
  const bool is_far = is_loopback(place.near) && !is_loopback(rendezvous.own_address());
  return is_far && !place.far.empty() ? place.far : place.near;
}

// Calls those of lesser rank: of a pair the greater one calls.
Links call_all(Rendezvous& rendezvous, const std::set<LinkKey>& wanted,
               const std::vector<Place>& places, TimePoint end) {
  const auto throw_if_lost = [&] {
    if (const auto loss = rendezvous.loss()) throw Error(ExitCode::kDevice, describe(*loss));
  };
  Links links;
  for (const LinkKey& key : wanted) {
    if (key.peer > rendezvous.rank()) continue;
    const GateCall call{.address = address_of(rendezvous, places, key.peer),
                        .port = places[static_cast<std::size_t>(key.peer)].port,
                        .key = [&] { return rendezvous.secret(); },
                        .purpose = purpose_of(key.peer),
                        .caller = {rendezvous.rank(), key.channel}};
    try {
      links.emplace(key, call_gate(call, end, throw_if_lost));
    } catch (const Error& error) {
      throw_if_lost();
      throw Error(ExitCode::kDevice, fmt::format("rank {} does not reach rank {}: {}",
                                                 rendezvous.rank(), key.peer, error.what()));
    }
  }
  return links;
}

// Lets those of greater rank in, until all have come or `stop`.
Links admit_all(Rendezvous& rendezvous, const std::set<LinkKey>& wanted, Gate& gate,
                const std::atomic<bool>& stop, Seconds deadline) {
  const TimePoint end = after(deadline);
  std::set<LinkKey> missing;
  for (const LinkKey& key : wanted)
    if (key.peer > rendezvous.rank()) missing.insert(key);
  Links links;
  while (!missing.empty() && !stop) {
    if (const auto loss = rendezvous.loss()) throw Error(ExitCode::kDevice, describe(*loss));
    if (auto guest = gate.admit(std::min(end, after(kLook)))) {
      const LinkKey key{guest->caller.channel, guest->caller.rank};
      if (missing.erase(key) > 0) links.emplace(key, std::move(guest->socket));
    } else if (milliseconds_until(end, 1) == 0) {
      throw Error(ExitCode::kDevice,
                  fmt::format("rank {} has waited {:g} s for the connection of rank {}",
                              rendezvous.rank(), deadline.value, missing.begin()->peer));
    }
  }
  return links;
}

}  // namespace

Links connect_links(Rendezvous& rendezvous, const std::set<LinkKey>& wanted, Seconds deadline) {
  Gate gate(listen_at(rendezvous.listen_address(), 0),
            {.key = rendezvous.secret(),
             .purpose = purpose_of(rendezvous.rank()),
             .on_stranger = [&](const std::string& at) { rendezvous.note_stranger(at); }});
  const std::vector<Place> places = exchange_places(rendezvous, gate.port());
  std::atomic<bool> stop = false;
  // Beside the own calls, so that no call waits for another one.
  auto coming = std::async(std::launch::async,
                           [&] { return admit_all(rendezvous, wanted, gate, stop, deadline); });
  Links links;
  try {
    links = call_all(rendezvous, wanted, places, after(deadline));
  } catch (...) {
    stop = true;  // `coming` is waited for
    throw;
  }
  links.merge(coming.get());
  return links;
}

}  // namespace zplan::exec
