// Bytes under way between one lane of this process and its partners, one connection each: all send
// and receive at once, so no order of the partners can block them. An operation begins with a
// header in both directions of each pair, by which partners that call different operations find
// out. Waits end when a partner is lost, the StopSignal stops, or nothing has moved for too long.
#pragma once

#include <poll.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "exec/comm/rendezvous.h"
#include "exec/comm/socket.h"
#include "exec/comm/stop_signal.h"
#include "planner/program/job/program.h"

namespace zplan::exec {

// What the lanes of a process share.
struct LaneContext {
  int rank = 0;
  const Rendezvous* rendezvous = nullptr;
  const StopSignal* signal = nullptr;
  Seconds deadline{600};  // without any byte from or to a partner
  std::function<std::string(NodeIndex node, std::int64_t earlier)> name;  // of an operation
};

// The connection of a lane to one other process.
struct Link {
  int peer = 0;
  Socket socket;
  std::int64_t operations = 0;  // begun
};

// An operation, and what partners must call alike.
struct LaneOp {
  NodeIndex node = 0;
  std::int64_t earlier = 0;  // instances of the node
  bool is_transfer = false;
  CollectiveKind kind = CollectiveKind::kAllReduce;  // not of a transfer
  DType dtype = DType::kF32;
  std::int64_t elements = 0;  // bytes of a transfer
  std::int32_t root = 0;
};

// A wait in progress.
struct LaneWait {
  NodeIndex node = 0;
  std::int64_t earlier = 0;
  int peer = 0;
  TimePoint since;
};

class LaneFlows {
 public:
  // Operations have at most so many members.
  LaneFlows(const LaneContext& context, std::size_t members);

  // Partners by member, the own one null: flow i is to partner i.
  void begin(const LaneOp& op, std::span<Link* const> partners);
  void send(std::size_t flow, const std::byte* data, std::int64_t bytes);
  void receive(std::size_t flow, std::byte* data, std::int64_t bytes);
  // Until all that was begun is sent and received. Throws Error: kCheckFailed when a partner calls
  // another operation, kDevice when one is lost or silent; Stopped.
  void move();
  // Of the operation; when the last partner had come.
  TimePoint end();

  // From any thread.
  std::optional<LaneWait> wait() const;

 private:
  struct Header {
    std::uint32_t magic;
    std::uint8_t kind;  // CollectiveKind, or kTransfer
    std::uint8_t dtype;
    std::uint16_t zero;
    std::int64_t number;  // of the pair's operations on this lane
    std::int64_t elements;
    std::int64_t root;
  };
  struct Flow {
    Link* link = nullptr;
    Header mine{}, theirs{};
    // What is left of it.
    std::span<const std::byte> header_out, out;
    std::span<std::byte> header_in, in;
    bool is_done() const {
      return header_out.empty() && out.empty() && header_in.empty() && in.empty();
    }
  };

  static std::string describe(const Header& header);
  bool advance(Flow& flow);
  bool advance_sending(Flow& flow);
  bool advance_receiving(Flow& flow);
  void check(const Flow& flow);
  void wait_for_any(TimePoint last_move);
  void note_wait(int peer);
  [[noreturn]] void fail(const std::string& what) const;
  std::optional<Loss> find_loss() const;
  [[noreturn]] void fail_lost(const Flow& flow, const std::string& reason);

  LaneContext context_;
  LaneOp op_;
  std::vector<Flow> flows_;
  std::size_t count_ = 0;  // of the operation
  std::vector<pollfd> polls_;
  TimePoint met_;

  mutable std::mutex mutex_;
  std::optional<LaneWait> wait_;
};

// "rank 1 was in step 3, forward.qkv.gather[m0,l3], waiting for rank 2 for 1.2 s"
std::string describe(const LaneContext& context, const LaneWait& wait);

}  // namespace zplan::exec
