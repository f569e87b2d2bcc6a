// All groups and channels of a job whose ranks are threads, made before the run: one group per
// (kind, lane, members), one channel per (lane, sender, receiver).
#pragma once

#include <map>
#include <memory>
#include <tuple>
#include <vector>

#include "exec/comm/channel.h"
#include "exec/comm/comm.h"
#include "exec/comm/thread_group.h"
#include "planner/program/job/job.h"

namespace zplan::exec {

class ThreadComm : public Comm {
 public:
  ThreadComm(const Job& job, StopSignal& signal);

  TimePoint collective(std::int32_t rank, NodeIndex node, const CollectiveCall& call) override;
  TimePoint send(std::int32_t rank, NodeIndex node, const std::byte* from, Bytes bytes) override;
  TimePoint receive(std::int32_t rank, NodeIndex node, std::byte* to, Bytes bytes) override;

 private:
  // Where a communicating node of a rank meets its partners; null for other nodes.
  struct Endpoint {
    ThreadGroup* group = nullptr;
    int index = 0;  // of the rank in the group
    Channel* channel = nullptr;
  };
  Endpoint make_endpoint(const Job& job, std::int32_t rank, const Node& node, StopSignal& signal);
  const Endpoint& endpoint(std::int32_t rank, NodeIndex node) const {
    return endpoints_[static_cast<std::size_t>(rank)][node];
  }

  using GroupKey = std::tuple<Group, Lane, std::int32_t>;           // and the first member
  using ChannelKey = std::tuple<Lane, std::int32_t, std::int32_t>;  // from, to
  std::map<GroupKey, ThreadGroup> groups_;
  std::map<ChannelKey, Channel> channels_;
  std::vector<std::vector<Endpoint>> endpoints_;  // by rank, by node
};

}  // namespace zplan::exec
