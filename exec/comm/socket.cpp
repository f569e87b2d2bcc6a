#include "exec/comm/socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <memory>
#include <thread>

#include "planner/core/error.h"

namespace zplan::exec {
namespace {

constexpr int kBacklog = 4096;  // connections that may wait to be accepted; the system may cut it

std::string reason_of(int error) { return std::strerror(error); }

[[noreturn]] void throw_device(const std::string& what, int error) {
  throw Error(ExitCode::kDevice, fmt::format("{}: {}", what, reason_of(error)));
}

Socket make_socket() {
  Socket result(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!result.is_open()) throw_device("no socket can be had", errno);
  return result;
}

void send_at_once(const Socket& socket) {
  const int on = 1;
  ::setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

const sockaddr* any(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

using AddressOf = int (*)(int, sockaddr*, socklen_t*);
sockaddr_in address_of(const Socket& socket, AddressOf which) {
  sockaddr_in result{};
  socklen_t size = sizeof result;
  if (which(socket.descriptor(), reinterpret_cast<sockaddr*>(&result), &size) != 0) return {};
  return result;
}

std::string text_of(const sockaddr_in& address) {
  if (address.sin_family != AF_INET) return "";
  char text[INET_ADDRSTRLEN] = "";
  ::inet_ntop(AF_INET, &address.sin_addr, text, sizeof text);
  return text;
}

sockaddr_in resolve(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0)
    throw_bad_input(fmt::format("host '{}' has no address: {}", host, ::gai_strerror(error)));
  sockaddr_in result{};
  std::memcpy(&result, found->ai_addr, sizeof result);
  ::freeaddrinfo(found);
  result.sin_port = htons(static_cast<std::uint16_t>(port));
  return result;
}

sockaddr_in everywhere(int port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(static_cast<std::uint16_t>(port));
  result.sin_addr.s_addr = htonl(INADDR_ANY);
  return result;
}

// One attempt; nothing, or why it failed.
std::optional<std::string> try_connect(const Socket& socket, const sockaddr_in& to,
                                       TimePoint deadline) {
  if (::connect(socket.descriptor(), any(to), sizeof to) != 0) {
    if (errno != EINPROGRESS) return reason_of(errno);
    pollfd wait{socket.descriptor(), POLLOUT, 0};
    constexpr int kPatience = 5000;  // milliseconds for one attempt
    if (::poll(&wait, 1, milliseconds_until(deadline, kPatience)) != 1) return "no answer";
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return reason_of(error);
  }
  // Where nobody listens, a socket may be given the port it calls and meet itself.
  const sockaddr_in own = address_of(socket, ::getsockname);
  if (own.sin_port == to.sin_port && own.sin_addr.s_addr == to.sin_addr.s_addr)
    return "nobody listens";
  return std::nullopt;
}

Socket::Moved moved(ssize_t count) {
  if (count >= 0) return {static_cast<std::size_t>(count), false, ""};
  if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return {};
  return {0, true, reason_of(errno)};
}

}  // namespace

TimePoint after(Seconds delay) {
  return std::chrono::steady_clock::now() +
         std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(delay.value, 1e9) * 1e9));
}

Seconds seconds_since(TimePoint moment) {
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - moment).count()};
}

int milliseconds_until(TimePoint moment, int most) {
  const double left = -seconds_since(moment).value * 1e3;
  return static_cast<int>(std::ceil(std::clamp(left, 0.0, static_cast<double>(most))));
}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void Socket::close() noexcept {
  if (is_open()) ::close(descriptor_);
  descriptor_ = -1;
}

void Socket::end_sending() const noexcept { ::shutdown(descriptor_, SHUT_WR); }

Socket::Moved Socket::send(const std::byte* data, std::size_t size) const {
  return moved(::send(descriptor_, data, size, MSG_NOSIGNAL));
}

Socket::Moved Socket::receive(std::byte* data, std::size_t size) const {
  const ssize_t count = ::recv(descriptor_, data, size, 0);
  if (count == 0 && size > 0) return {0, true, ""};
  return moved(count);
}

int Socket::own_port() const { return ntohs(address_of(*this, ::getsockname).sin_port); }
std::string Socket::own_address() const { return text_of(address_of(*this, ::getsockname)); }
std::string Socket::other_address() const { return text_of(address_of(*this, ::getpeername)); }

bool is_loopback(const std::string& address) {
  return address == "localhost" || address.starts_with("127.");
}

bool is_readable(const Socket& socket) {
  pollfd look{socket.descriptor(), POLLIN, 0};
  return ::poll(&look, 1, 0) == 1;
}

Socket listen_at(const std::string& address, int port) {
  Socket socket = make_socket();
  const int on = 1;
  ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in at = address.empty() ? everywhere(port) : resolve(address, port);
  const bool is_named_loopback = is_loopback(text_of(at)) && !is_loopback(address);
  if (is_named_loopback) at = everywhere(port);
  bool is_bound = ::bind(socket.descriptor(), any(at), sizeof at) == 0;
  if (!is_bound && errno == EADDRNOTAVAIL) {
    at = everywhere(port);
    is_bound = ::bind(socket.descriptor(), any(at), sizeof at) == 0;
  }
  if (!is_bound || ::listen(socket.descriptor(), kBacklog) != 0)
    throw_device(fmt::format("port {} cannot be had", port), errno);
  return socket;
}

std::optional<Socket> accept(const Socket& listener, TimePoint deadline) {
  while (true) {
    Socket socket(::accept4(listener.descriptor(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket.is_open()) {
      send_at_once(socket);
      return socket;
    }
    const bool is_exhausted = errno == EMFILE || errno == ENFILE || errno == ENOMEM;
    if (is_exhausted) throw_device("no connection can be accepted", errno);
    constexpr int kLong = 1 << 30;
    const int left = milliseconds_until(deadline, kLong);
    if (left == 0) return std::nullopt;
    pollfd wait{listener.descriptor(), POLLIN, 0};
    ::poll(&wait, 1, left);
  }
}

Socket connect_to(const std::string& address, int port, TimePoint deadline,
                  const std::function<void()>& before_retry) {
  const sockaddr_in to = resolve(address, port);
  constexpr auto kPause = std::chrono::milliseconds(50);
  while (true) {
    Socket socket = make_socket();
    const std::optional<std::string> failure = try_connect(socket, to, deadline);
    if (!failure) {
      send_at_once(socket);
      return socket;
    }
    if (std::chrono::steady_clock::now() + kPause >= deadline)
      throw Error(ExitCode::kDevice,
                  fmt::format("no connection to {}:{}: {}", address, port, *failure));
    std::this_thread::sleep_for(kPause);
    if (before_retry) before_retry();
  }
}

std::string outward_address() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return "";
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    const bool is_up = (at->ifa_flags & IFF_UP) != 0 && (at->ifa_flags & IFF_LOOPBACK) == 0;
    if (!is_up || at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    sockaddr_in address{};
    std::memcpy(&address, at->ifa_addr, sizeof address);
    return text_of(address);
  }
  return "";
}

}  // namespace zplan::exec
