// Messages over a connection, for what processes tell each other beside the data of the steps:
// small, rare, in order. A frame is magic, kind, number and size of the body, then the body; the
// machines of a job have the same byte order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "exec/comm/socket.h"

namespace zplan::exec {

enum class MessageKind : std::uint32_t {
  kHello,    // to rank 0: number = rank, body = world and what must be alike (rendezvous.cpp)
  kWelcome,  // from rank 0: all have come; number = 1: on one host, body = number of the meeting
  kRefuse,   // from rank 0: body = why
  kHeartbeat,
  kExchange,  // to rank 0: body = the own part; from it: those of all
  kGather,  // to rank 0: number = 2 * who gets the parts + more of the own one follows, body = the
            // own one; from it: number = more follow, body = those, or none
  kEnter,   // to rank 0: number = 2 * step + interrupted; from it: number = granted
  kChange,  // to rank 0: number = step; from it: number = its states may be changed, it may end
  kGiveUp,  // to rank 0: what no state was changed in; from it: number = the first of those steps
  kAbort,   // to rank 0: body = why
  kLost,    // from rank 0: number = rank, body = why
  kFinish,  // to rank 0: nothing more to do; from it: nobody has
};
inline constexpr std::uint32_t kMessageKinds = 12;

// [assumed] anything larger is no message
inline constexpr std::int64_t kMostMessageBytes = std::int64_t{1} << 30;

struct Message {
  MessageKind kind = MessageKind::kHeartbeat;
  std::int64_t number = 0;
  std::string body;
};

// Texts one after the other, each behind its size.
std::string join(const std::vector<std::string>& parts);
// Nothing when the text is not of join().
std::vector<std::string> split(const std::string& text);

class MessageStream {
 public:
  explicit MessageStream(Socket socket) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.descriptor(); }
  std::string own_address() const { return socket_.own_address(); }
  std::string other_address() const { return socket_.other_address(); }
  void put(const Message& message);
  bool has_unsent() const { return !outgoing_.empty(); }
  // As far as goes without waiting.
  void flush();
  // The next one that has come; nothing when there is none yet.
  std::optional<Message> receive();
  void end_sending() const { socket_.end_sending(); }
  // The other side has ended, or sends what is no message; all it sent before was received.
  bool is_closed() const { return closed_; }
  const std::string& reason() const { return reason_; }  // "" for an orderly end

 private:
  std::optional<Message> take();

  Socket socket_;
  std::string outgoing_, incoming_;
  bool is_heard_ = true;  // by the other side
  bool closed_ = false;
  std::string reason_;
};

// Sends what is unsent and ends the connections, so that the other sides get all of it: waits until
// they have ended theirs, at most this long.
void end_streams(const std::vector<MessageStream*>& streams, Seconds patience);

}  // namespace zplan::exec
