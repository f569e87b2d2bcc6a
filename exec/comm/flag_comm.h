// Communication between ranks whose lanes are queues of one device, all in this process: for
// checking plans of several ranks on a single card. Flags bring the queues of the members together,
// then each queue does its member's share (collective.h); nothing waits inside a kernel, and the
// threads that launch never wait for each other, just as if the ranks were processes.
//
// A collective of a group, the k-th on its lane, in the queue of member i:
//   arrived[i] = k;  wait arrived[j] >= k for all j;  share i;  done[i] = k;  wait done[j] >= k
// A transfer: the sender writes ready = k and waits for copied >= k; the receiver waits for
// ready >= k, copies and writes copied = k.
// Where the partner's operands lie is read from its program: its k-th node of that kind, without
// those that a step passes over.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "exec/comm/queued_comm.h"
#include "exec/schedule/queues.h"
#include "exec/schedule/rank.h"

namespace zplan::exec {

class FlagComm : public QueuedComm {
 public:
  // Refers to the state; the backends of all ranks have queues, of one device.
  explicit FlagComm(const RunState& state);

  void collective(std::int32_t rank, const Instance& at, const CollectiveCall& call) override;
  void send(std::int32_t rank, const Instance& at, const std::byte* from, Bytes bytes) override;
  void receive(std::int32_t rank, const Instance& at, std::byte* to, Bytes bytes) override;
  // Flags count on from step to step, a graph would write the same values again.
  bool may_be_captured() const override { return false; }
  void check() override {}
  void abort() noexcept override {}  // it waits on flags alone

 private:
  struct MeetingFlags {
    std::span<Flag> arrived, done;  // by member
  };
  // A rank's place in a group, for one lane.
  struct Seat {
    MeetingFlags* flags = nullptr;
    std::vector<const Rank*> members;
    std::size_t own = 0;
    std::uint64_t sequence = 0;
    std::vector<Cursor> cursors;  // of each member's lane: at its next collective of the group
    std::vector<CollectiveCall> calls;
  };
  struct Channel {
    std::span<Flag> flags;  // ready, copied
  };
  struct Sender {
    Channel* channel = nullptr;
    std::uint64_t sequence = 0;
  };
  struct Receiver {
    Channel* channel = nullptr;
    const Rank* from = nullptr;
    std::uint64_t sequence = 0;
    std::vector<Cursor> cursor;  // one: the sender's lane, at its next send to this rank
  };
  using GroupKey = std::tuple<Group, Lane, std::int32_t>;  // and the first member
  using SeatKey = std::tuple<std::int32_t, Group, Lane>;
  using ChannelKey = std::tuple<Lane, std::int32_t, std::int32_t>;  // from, to

  template <typename Wanted>
  const Instance& find_next(Cursor& cursor, const Rank& rank, const Wanted& is_wanted) const;
  void seat(const Rank& rank, const Node& node);
  void connect(const Rank& rank, const Node& node);
  const Rank& rank_of(std::int32_t number) const {
    return state_.ranks[static_cast<std::size_t>(number)];
  }
  std::span<Flag> make_flags(std::size_t count);

  const RunState& state_;
  std::map<GroupKey, MeetingFlags> groups_;
  std::map<SeatKey, Seat> seats_;
  std::map<ChannelKey, Channel> channels_;
  std::map<ChannelKey, Sender> senders_;
  std::map<ChannelKey, Receiver> receivers_;
};

}  // namespace zplan::exec
