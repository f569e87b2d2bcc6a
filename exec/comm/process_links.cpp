#include "exec/comm/process_links.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/error.h"

namespace zplan::exec {
namespace {

constexpr Seconds kSlice{0.1};  // between looks for a loss

// What the calling side says first.
struct Greeting {
  char secret[32];
  std::int32_t rank;
  std::int32_t channel;
};

Greeting greeting(const Rendezvous& rendezvous, int channel) {
  Greeting result{{}, rendezvous.rank(), channel};
  const std::string& secret = rendezvous.secret();
  std::memcpy(result.secret, secret.data(), std::min(secret.size(), sizeof result.secret));
  return result;
}

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
  if (peer == 0) return rendezvous.host_address();
  const Place& place = places[static_cast<std::size_t>(peer)];
  const bool is_far = is_loopback(place.near) && !is_loopback(rendezvous.own_address());
  return is_far && !place.far.empty() ? place.far : place.near;
}

bool receive_greeting(const Socket& socket, Greeting& into, TimePoint deadline) {
  auto* bytes = reinterpret_cast<std::byte*>(&into);
  for (std::size_t at = 0; at < sizeof into;) {
    const Socket::Moved got = socket.receive(bytes + at, sizeof into - at);
    at += got.bytes;
    if (got.closed) return false;
    if (got.bytes > 0) continue;
    constexpr int kLong = 1000;  // milliseconds
    const int left = milliseconds_until(deadline, kLong);
    if (left == 0) return false;
    pollfd wait{socket.descriptor(), POLLIN, 0};
    ::poll(&wait, 1, left);
  }
  return true;
}

}  // namespace

std::map<LinkKey, Socket> connect_links(Rendezvous& rendezvous, const std::set<LinkKey>& wanted,
                                        Seconds deadline) {
  const TimePoint end = after(deadline);
  const Socket listener = listen_at(0, rendezvous.is_on_one_host());
  const std::vector<Place> places = exchange_places(rendezvous, listener.own_port());
  const auto throw_if_lost = [&] {
    if (const auto loss = rendezvous.loss()) throw Error(ExitCode::kDevice, describe(*loss));
  };
  std::map<LinkKey, Socket> links;
  // Of a pair the greater rank calls: all listen already, so no call waits for another.
  for (const LinkKey& key : wanted) {
    if (key.peer > rendezvous.rank()) continue;
    const int port = places[static_cast<std::size_t>(key.peer)].port;
    Socket socket = connect_to(address_of(rendezvous, places, key.peer), port, end, throw_if_lost);
    const Greeting own = greeting(rendezvous, key.channel);
    const auto sent = socket.send(reinterpret_cast<const std::byte*>(&own), sizeof own);
    if (sent.bytes != sizeof own) {
      throw Error(ExitCode::kDevice,
                  fmt::format("rank {} does not take the connection of rank {}: {}", key.peer,
                              rendezvous.rank(), sent.reason));
    }
    links.emplace(key, std::move(socket));
  }
  while (links.size() < wanted.size()) {
    throw_if_lost();
    std::optional<Socket> socket = accept(listener, std::min(end, after(kSlice)));
    Greeting theirs{};
    if (socket && receive_greeting(*socket, theirs, end)) {
      const LinkKey key{theirs.channel, theirs.rank};
      const bool knows_us =
          std::memcmp(theirs.secret, greeting(rendezvous, 0).secret, sizeof theirs.secret) == 0;
      if (knows_us && wanted.contains(key)) links.emplace(key, std::move(*socket));
    }
    if (milliseconds_until(end, 1) == 0) {
      const auto missing = std::find_if(wanted.begin(), wanted.end(),
                                        [&](const LinkKey& key) { return !links.contains(key); });
      if (missing == wanted.end()) break;
      throw Error(ExitCode::kDevice,
                  fmt::format("rank {} has waited {:g} s for the connection of rank {}",
                              rendezvous.rank(), deadline.value, missing->peer));
    }
  }
  return links;
}

}  // namespace zplan::exec
