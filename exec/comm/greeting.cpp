#include "exec/comm/greeting.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "exec/comm/hmac.h"
#include "exec/comm/message.h"

namespace zplan::exec {
namespace {

constexpr char kMagic[] = "zplan/2\n";
constexpr std::size_t kMagicBytes = sizeof kMagic - 1;
constexpr std::size_t kRandomBytes = 32;
constexpr std::size_t kHelloBytes = kMagicBytes + kRandomBytes;
constexpr std::size_t kAnswerBytes = kRandomBytes + kDigestBytes;
constexpr std::size_t kProofBytes = sizeof(Caller) + kDigestBytes;
constexpr char kTaken = '+';

// `side` keeps the proof of one side from being that of the other.
std::string proof(const std::string& key, const char* side, const std::string& purpose,
                  const std::string& hello, const std::string& random, const std::string& caller) {
  return hmac_sha256(key, join({side, purpose, hello, random, caller}));
}

std::string bytes_of(const Caller& caller) {
  return {reinterpret_cast<const char*>(&caller), sizeof caller};
}

// Nothing is unsent on this connection, so the system takes this little at once.
bool send_all(const Socket& socket, const std::string& text) {
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return socket.send(bytes, text.size()).bytes == text.size();
}

// Fills `into` up to `size` bytes as far as they are there; whether the other side is still there.
bool receive_up_to(const Socket& socket, std::string& into, std::size_t size) {
  std::array<std::byte, kAnswerBytes> piece;
  while (into.size() < size) {
    const Socket::Moved got = socket.receive(piece.data(), size - into.size());
    into.append(reinterpret_cast<const char*>(piece.data()), got.bytes);
    if (got.closed) return false;
    if (got.bytes == 0) break;
  }
  return true;
}

// "" when they do not all come in time.
std::string wait_for(const Socket& socket, std::size_t size, TimePoint deadline) {
  std::string text;
  while (receive_up_to(socket, text, size)) {
    if (text.size() == size) return text;
    constexpr int kLong = 1000;  // milliseconds
    const int left = milliseconds_until(deadline, kLong);
    if (left == 0) break;
    pollfd wait{socket.descriptor(), POLLIN, 0};
    ::poll(&wait, 1, left);
  }
  return "";
}

}  // namespace

GateGreeting::GateGreeting(Socket socket, std::string key, std::string purpose)
    : socket_(std::move(socket)), key_(std::move(key)), purpose_(std::move(purpose)) {}

GreetingEnd GateGreeting::advance() {
  const std::size_t size = hello_.empty() ? kHelloBytes : kProofBytes;
  const bool is_there = receive_up_to(socket_, received_, size);
  if (hello_.empty() &&
      std::memcmp(received_.data(), kMagic, std::min(received_.size(), kMagicBytes)) != 0)
    return GreetingEnd::kStranger;
  if (received_.size() < size) return is_there ? GreetingEnd::kUnderWay : GreetingEnd::kSilent;
  return hello_.empty() ? answer_hello() : check_proof();
}

GreetingEnd GateGreeting::answer_hello() {
  hello_ = std::exchange(received_, "");
  random_ = random_bytes(kRandomBytes);
  const bool is_sent =
      send_all(socket_, random_ + proof(key_, "gate", purpose_, hello_, random_, ""));
  return is_sent ? GreetingEnd::kUnderWay : GreetingEnd::kSilent;
}

GreetingEnd GateGreeting::check_proof() {
  const std::string caller = received_.substr(0, sizeof caller_);
  const std::string expected = proof(key_, "caller", purpose_, hello_, random_, caller);
  if (!are_same(received_.substr(sizeof caller_), expected)) return GreetingEnd::kStranger;
  std::memcpy(&caller_, caller.data(), sizeof caller_);
  return send_all(socket_, {kTaken}) ? GreetingEnd::kProven : GreetingEnd::kSilent;
}

GreetingEnd greet(const Socket& socket, const std::string& key, const std::string& purpose,
                  const Caller& caller, TimePoint deadline) {
  const std::string hello = kMagic + random_bytes(kRandomBytes);
  if (!send_all(socket, hello)) return GreetingEnd::kSilent;
  const std::string answer = wait_for(socket, kAnswerBytes, deadline);
  if (answer.empty()) return GreetingEnd::kSilent;
  const std::string random = answer.substr(0, kRandomBytes);
  if (!are_same(answer.substr(kRandomBytes), proof(key, "gate", purpose, hello, random, "")))
    return GreetingEnd::kStranger;
  const std::string own = bytes_of(caller);
  if (!send_all(socket, own + proof(key, "caller", purpose, hello, random, own)))
    return GreetingEnd::kSilent;
  const bool is_taken = !wait_for(socket, 1, deadline).empty();
  return is_taken ? GreetingEnd::kProven : GreetingEnd::kSilent;
}

}  // namespace zplan::exec
