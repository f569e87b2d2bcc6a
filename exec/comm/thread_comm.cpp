#include "exec/comm/thread_comm.h"

#include "planner/program/job/meetings.h"

namespace zplan::exec {

ThreadComm::ThreadComm(const Job& job, StopSignal& signal) {
  for (std::int32_t rank = 0; rank < job.world(); ++rank) {
    std::vector<Endpoint>& list = endpoints_.emplace_back();
    for (const Node& node : job.class_of(rank).program.nodes)
      list.push_back(make_endpoint(job, rank, node, signal));
  }
}

ThreadComm::Endpoint ThreadComm::make_endpoint(const Job& job, std::int32_t rank, const Node& node,
                                               StopSignal& signal) {
  Endpoint end;
  if (node.kind == OpKind::kCollective) {
    const Members members = members_of(job.mesh, node.group, rank);
    const GroupKey key{node.group, node.lane, members.ranks.front()};
    end.group =
        &groups_.try_emplace(key, static_cast<int>(members.ranks.size()), signal).first->second;
    end.index = members.own_index;
  } else if (is_transfer(node.kind)) {
    const std::int32_t peer = peer_rank(job.mesh, rank, node.peer);
    const bool sends = node.kind == OpKind::kSend;
    const ChannelKey key{sending_lane(node.lane), sends ? rank : peer, sends ? peer : rank};
    end.channel = &channels_.try_emplace(key, signal).first->second;
  }
  return end;
}

TimePoint ThreadComm::collective(std::int32_t rank, NodeIndex node, const CollectiveCall& call) {
  const Endpoint& end = endpoint(rank, node);
  return end.group->run(end.index, call);
}

TimePoint ThreadComm::send(std::int32_t rank, NodeIndex node, const std::byte* from, Bytes bytes) {
  return endpoint(rank, node).channel->send(from, bytes);
}

TimePoint ThreadComm::receive(std::int32_t rank, NodeIndex node, std::byte* to, Bytes bytes) {
  return endpoint(rank, node).channel->receive(to, bytes);
}

}  // namespace zplan::exec
