// TCP connections between the processes of a job, IPv4. Nothing here waits but connect() and
// accept(), which have deadlines: bytes are sent and received as far as the system takes or has
// them at once. Connections do not gather small messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "exec/comm/barrier.h"
#include "planner/core/units.h"

namespace zplan::exec {

TimePoint after(Seconds delay);  // from now
Seconds seconds_since(TimePoint moment);
// What is left until then in milliseconds, rounded up, for poll(); 0: it has passed.
int milliseconds_until(TimePoint moment, int most);

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  Socket& operator=(Socket&& other) noexcept;

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  void close() noexcept;
  // Tells the other side that nothing more comes; what it sends can still be received.
  void end_sending() const noexcept;

  // How many bytes went; closed: the other side has ended, for `reason` ("" for an orderly end).
  struct Moved {
    std::size_t bytes = 0;
    bool closed = false;
    std::string reason;
  };
  Moved send(const std::byte* data, std::size_t size) const;
  Moved receive(std::byte* data, std::size_t size) const;

  int own_port() const;
  std::string own_address() const;
  std::string other_address() const;  // "" once the other side is gone

 private:
  int descriptor_ = -1;
};

inline constexpr const char* kLoopback = "127.0.0.1";
// Whether this text means the own host and nothing that others reach.
bool is_loopback(const std::string& address);

// Accepts connections at this port (0: a free one) of an own address, "": of all of them. A host
// whose address is not this machine's own, or is the loopback under the name of the machine, is met
// at all addresses. Throws Error: kBadInput for a host that has no address, kDevice when the port
// cannot be had.
Socket listen_at(const std::string& address, int port);
// Whether accept() or receive() has something at once.
bool is_readable(const Socket& socket);
// Nothing when none has come until then.
std::optional<Socket> accept(const Socket& listener, TimePoint deadline);
// Tries again until somebody listens there; `before_retry` may give up by an exception. Throws
// Error: kBadInput for a host that has no address, kDevice at the deadline.
Socket connect_to(const std::string& address, int port, TimePoint deadline,
                  const std::function<void()>& before_retry = {});

// An address of this host that is not the loopback; "" when there is none.
std::string outward_address();

}  // namespace zplan::exec
