#include "exec/comm/channel.h"

#include <fmt/format.h>

#include <cstring>

#include "planner/core/error.h"

namespace zplan::exec {

void check_same_size(Bytes sent, Bytes received) {
  if (sent == received) return;
  throw Error(ExitCode::kCheckFailed, fmt::format("a send of {} bytes meets a receive of {} bytes",
                                                  sent.value, received.value));
}

TimePoint Channel::send(const std::byte* source, Bytes bytes) {
  auto lock = monitor_.lock();
  source_ = source;
  bytes_ = bytes;
  sender_waits_ = true;
  if (receiver_waits_) met_ = std::chrono::steady_clock::now();
  monitor_.notify_all();
  monitor_.wait(lock, [this] { return copied_; });
  sender_waits_ = copied_ = false;
  return met_;
}

TimePoint Channel::receive(std::byte* destination, Bytes bytes) {
  auto lock = monitor_.lock();
  receiver_waits_ = true;
  if (sender_waits_ && !copied_) met_ = std::chrono::steady_clock::now();
  // A sender that has not yet left the previous transfer is no new sender.
  monitor_.wait(lock, [this] { return sender_waits_ && !copied_; });
  check_same_size(bytes_, bytes);
  const TimePoint met = met_;
  lock.unlock();
  std::memcpy(destination, source_, static_cast<std::size_t>(bytes.value));
  lock.lock();
  receiver_waits_ = false;
  copied_ = true;
  monitor_.notify_all();
  return met;
}

}  // namespace zplan::exec
