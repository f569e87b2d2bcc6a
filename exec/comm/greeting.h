// What a connection between processes of a job begins with: each side proves that it knows a key,
// without telling it, by HMAC-SHA256 over fresh random numbers of both, the purpose of the
// connection and who calls. Sizes are fixed:
//
//   caller -> gate   magic[8], random[32]
//   gate -> caller   random[32], proof[32]
//   caller -> gate   rank[4], channel[4], proof[32]
//   gate -> caller   1 byte: taken
//
// Whoever does not know the key is told nothing but random numbers and one proof of them, and no
// more than 80 bytes of it are taken. What follows on the connection is neither encrypted nor
// proven byte by byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "exec/comm/socket.h"

namespace zplan::exec {

// The process that calls, and what for.
struct Caller {
  std::int32_t rank = 0;
  std::int32_t channel = 0;
};

enum class GreetingEnd : std::uint8_t {
  kUnderWay,
  kProven,
  kSilent,    // the other side ended or did not answer in time
  kStranger,  // it does not know the key
};

// Of the side that is called. Never waits.
class GateGreeting {
 public:
  GateGreeting(Socket socket, std::string key, std::string purpose);

  int descriptor() const { return socket_.descriptor(); }
  std::string other_address() const { return socket_.other_address(); }
  GreetingEnd advance();  // as far as goes
  // When proven.
  const Caller& caller() const { return caller_; }
  Socket take() { return std::move(socket_); }

 private:
  GreetingEnd answer_hello();
  GreetingEnd check_proof();

  Socket socket_;
  std::string key_, purpose_;
  std::string received_, hello_, random_;
  Caller caller_;
};

// Of the side that calls; waits until `deadline` at most.
GreetingEnd greet(const Socket& socket, const std::string& key, const std::string& purpose,
                  const Caller& caller, TimePoint deadline);

}  // namespace zplan::exec
