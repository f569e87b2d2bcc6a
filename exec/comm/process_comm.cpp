#include "exec/comm/process_comm.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "exec/comm/instance_name.h"
#include "planner/program/job/collectives.h"
#include "planner/program/job/meetings.h"

namespace zplan::exec {
namespace {

const Program& program_of(const Job& job, std::int32_t rank) { return job.class_of(rank).program; }

// Of a group by index; of a transfer the other rank; of other nodes none.
Members partners_of(const Job& job, std::int32_t rank, const Node& node) {
  if (node.kind == OpKind::kCollective) return members_of(job.mesh, node.group, rank);
  if (is_transfer(node.kind)) return {{peer_rank(job.mesh, rank, node.peer)}, 1};
  return {};
}

// Both ends of a transfer name its connection alike: by the lane that sends, and whether that is of
// the rank of the lesser number.
int channel_of(std::int32_t rank, std::int32_t peer, const Node& node) {
  if (!is_transfer(node.kind)) return static_cast<int>(node.lane);
  const bool sends = node.kind == OpKind::kSend;
  return static_cast<int>(sending_lane(node.lane)) + (sends == (rank < peer) ? 0 : kLaneCount);
}

// Its sizes, without addresses.
CollectiveCall shape_of(const Program& program, const Node& node, std::size_t members) {
  const auto views = program.operands(node);
  const std::int64_t parts =
      parts_of(row_of(node.collective).input, static_cast<std::int64_t>(members));
  return {.kind = node.collective,
          .dtype = views[0].dtype,
          .elements = views[0].shape.elements() / parts};
}

}  // namespace

ProcessComm::ProcessComm(const Job& job, Rendezvous& rendezvous, const StopSignal& signal,
                         Seconds deadline)
    : index_(program_of(job, rendezvous.rank())),
      context_{.rank = rendezvous.rank(),
               .rendezvous = &rendezvous,
               .signal = &signal,
               .deadline = deadline,
               .name = [this](NodeIndex node, std::int64_t earlier) {
                 return instance_name(index_, node, earlier);
               }} {
  connect(job, rendezvous);
  make_lanes(job);
}

void ProcessComm::connect(const Job& job, Rendezvous& rendezvous) {
  std::set<LinkKey> wanted;
  for (const Node& node : index_.program().nodes) {
    for (std::int32_t peer : partners_of(job, context_.rank, node).ranks)
      if (peer != context_.rank) wanted.insert({channel_of(context_.rank, peer, node), peer});
  }
  for (auto& [key, socket] : connect_links(rendezvous, wanted, context_.deadline))
    links_.emplace(key, Link{key.peer, std::move(socket)});
}

void ProcessComm::make_lanes(const Job& job) {
  struct Need {
    std::size_t members = 0;
    Bytes copy{0};
  };
  std::map<Lane, Need> needs;
  const Program& program = index_.program();
  sites_.resize(program.nodes.size());
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    const Node& node = program.nodes[i];
    const Members members = partners_of(job, context_.rank, node);
    if (members.ranks.empty()) continue;
    for (std::int32_t peer : members.ranks) {
      const auto link = links_.find({channel_of(context_.rank, peer, node), peer});
      sites_[i].partners.links.push_back(link == links_.end() ? nullptr : &link->second);
    }
    sites_[i].partners.own_index = members.own_index;
    Need& need = needs[node.lane];
    need.members = std::max(need.members, members.ranks.size());
    if (node.kind == OpKind::kCollective) {
      need.copy =
          std::max(need.copy, LaneComm::copy_bytes(shape_of(program, node, members.ranks.size()),
                                                   members.ranks.size()));
    }
  }
  for (const auto& [lane, need] : needs)
    lanes_.try_emplace(lane, context_, need.members, need.copy);
}

ProcessComm::Site& ProcessComm::site(std::int32_t rank, NodeIndex node) {
  ZPLAN_ASSERT(rank == context_.rank);
  return sites_[node];
}

LaneComm& ProcessComm::lane(NodeIndex node) {
  return lanes_.find(index_.program().nodes[node].lane)->second;
}

TimePoint ProcessComm::collective(std::int32_t rank, NodeIndex node, const CollectiveCall& call) {
  Site& at = site(rank, node);
  return lane(node).collective(node, at.calls++, at.partners, call);
}

TimePoint ProcessComm::send(std::int32_t rank, NodeIndex node, const std::byte* from, Bytes bytes) {
  Site& at = site(rank, node);
  return lane(node).send(node, at.calls++, rank, *at.partners.links[0], from, bytes);
}

TimePoint ProcessComm::receive(std::int32_t rank, NodeIndex node, std::byte* to, Bytes bytes) {
  Site& at = site(rank, node);
  return lane(node).receive(node, at.calls++, *at.partners.links[0], to, bytes);
}

Error ProcessComm::lost(const Loss& loss) const {
  std::optional<LaneWait> longest;
  for (const auto& [lane, comm] : lanes_) {
    const std::optional<LaneWait> wait = comm.wait();
    if (wait && (!longest || wait->since < longest->since)) longest = wait;
  }
  return {ExitCode::kDevice,
          fmt::format("{}; {}", describe(loss),
                      longest ? describe(context_, *longest)
                              : fmt::format("rank {} was waiting for nobody", context_.rank))};
}

}  // namespace zplan::exec
