// Point-to-point transfers from one thread to another: a rendezvous. The sender publishes its
// address and waits; the receiver copies. The k-th send meets the k-th receive.
#pragma once

#include <cstddef>

#include "exec/comm/barrier.h"
#include "planner/core/units.h"

namespace zplan::exec {

class Channel {
 public:
  explicit Channel(StopSignal& signal) : monitor_(signal) {}

  // Both return when the bytes are copied; the value is when the later of the two came. receive
  // throws Error when the sizes differ.
  TimePoint send(const std::byte* source, Bytes bytes);
  TimePoint receive(std::byte* destination, Bytes bytes);

 private:
  Monitor monitor_;
  bool sender_waits_ = false, receiver_waits_ = false, copied_ = false;
  const std::byte* source_ = nullptr;
  Bytes bytes_{0};
  TimePoint met_;
};

// Throws Error when a send meets a receive of another size.
void check_same_size(Bytes sent, Bytes received);

}  // namespace zplan::exec
