#include "exec/comm/flag_comm.h"

#include "exec/comm/channel.h"
#include "planner/core/error.h"
#include "planner/program/job/meetings.h"

namespace zplan::exec {

FlagComm::FlagComm(const RunState& state) : state_(state) {
  for (const Rank& rank : state.ranks) {
    for (const Node& node : rank.program().nodes) {
      if (node.kind == OpKind::kCollective) seat(rank, node);
      if (is_transfer(node.kind)) connect(rank, node);
    }
  }
}

// Moves the cursor to the first node, from where it stands, that `is_wanted` and not passed over.
template <typename Wanted>
const Instance& FlagComm::find_next(Cursor& cursor, const Rank& rank,
                                    const Wanted& is_wanted) const {
  const auto is_skipped_at = [&](const Instance& at) {
    return is_skipped(state_, rank, at.node, at.step());
  };
  while (!is_wanted(rank.node(*cursor)) || is_skipped_at(*cursor)) cursor.advance();
  return *cursor;
}

// All queues reach them, whichever they were made by.
std::span<Flag> FlagComm::make_flags(std::size_t count) {
  return state_.ranks.front().backend->queues()->make_flags(count);
}

void FlagComm::seat(const Rank& rank, const Node& node) {
  const auto [place, is_new] = seats_.try_emplace({rank.number, node.group, node.lane});
  if (!is_new) return;
  const Members members = members_of(state_.job->mesh, node.group, rank.number);
  const std::size_t size = members.ranks.size();
  MeetingFlags& flags = groups_[{node.group, node.lane, members.ranks.front()}];
  if (flags.arrived.empty()) flags = {make_flags(size), make_flags(size)};
  Seat& seat = place->second;
  seat.flags = &flags;
  seat.own = static_cast<std::size_t>(members.own_index);
  seat.calls.resize(size);
  for (std::int32_t number : members.ranks) {
    seat.members.push_back(&rank_of(number));
    seat.cursors.emplace_back(rank_of(number).index, node.lane);
  }
}

void FlagComm::connect(const Rank& rank, const Node& node) {
  const std::int32_t peer = peer_rank(state_.job->mesh, rank.number, node.peer);
  const bool sends = node.kind == OpKind::kSend;
  const ChannelKey key{sending_lane(node.lane), sends ? rank.number : peer,
                       sends ? peer : rank.number};
  Channel& channel = channels_[key];
  if (channel.flags.empty()) channel.flags = make_flags(2);
  if (sends) {
    senders_[key].channel = &channel;
    return;
  }
  Receiver& receiver = receivers_[key];
  receiver.channel = &channel;
  receiver.from = &rank_of(peer);
  if (receiver.cursor.empty())
    receiver.cursor.emplace_back(rank_of(peer).index, sending_lane(node.lane));
}

void FlagComm::collective(std::int32_t rank, const Instance& at, const CollectiveCall&) {
  const Node& node = rank_of(rank).node(at);
  const Lane lane = node.lane;
  Queues& queues = *rank_of(rank).backend->queues();
  Seat& seat = seats_.at({rank, node.group, lane});
  const std::uint64_t k = ++seat.sequence;
  for (std::size_t j = 0; j < seat.members.size(); ++j) {
    const Rank& member = *seat.members[j];
    const Instance& there = find_next(seat.cursors[j], member, [&](const Node& other) {
      return other.kind == OpKind::kCollective && other.group == node.group;
    });
    seat.calls[j] = collective_call(member, member.node(there), BoundOperands(member, there));
    seat.cursors[j].advance();
  }
  check_same_operation(seat.calls);
  const auto meet = [&](std::span<Flag> flags) {
    queues.write_flag(lane, flags[seat.own], k);
    for (std::size_t j = 0; j < flags.size(); ++j)
      if (j != seat.own) queues.wait_flag(lane, flags[j], k);
  };
  meet(seat.flags->arrived);
  queues.run_share(lane, seat.calls, static_cast<int>(seat.own));
  meet(seat.flags->done);
}

void FlagComm::send(std::int32_t rank, const Instance& at, const std::byte*, Bytes) {
  const Node& node = rank_of(rank).node(at);
  const std::int32_t peer = peer_rank(state_.job->mesh, rank, node.peer);
  Sender& sender = senders_.at({node.lane, rank, peer});
  const std::uint64_t k = ++sender.sequence;
  Queues& queues = *rank_of(rank).backend->queues();
  queues.write_flag(node.lane, sender.channel->flags[0], k);
  queues.wait_flag(node.lane, sender.channel->flags[1], k);
}

void FlagComm::receive(std::int32_t rank, const Instance& at, std::byte* to, Bytes bytes) {
  const Node& node = rank_of(rank).node(at);
  const std::int32_t peer = peer_rank(state_.job->mesh, rank, node.peer);
  Receiver& receiver = receivers_.at({sending_lane(node.lane), peer, rank});
  const std::uint64_t k = ++receiver.sequence;
  Cursor& cursor = receiver.cursor.front();
  const Instance& there = find_next(cursor, *receiver.from, [&](const Node& other) {
    return other.kind == OpKind::kSend && peer_rank(state_.job->mesh, peer, other.peer) == rank;
  });
  const BoundOperands sent(*receiver.from, there);
  check_same_size(sent[0].view->bytes(), bytes);
  Queues& queues = *rank_of(rank).backend->queues();
  queues.wait_flag(node.lane, receiver.channel->flags[0], k);
  queues.copy_bytes(node.lane, to, sent[0].data, bytes);
  queues.write_flag(node.lane, receiver.channel->flags[1], k);
  cursor.advance();
}

}  // namespace zplan::exec
