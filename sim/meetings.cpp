#include "sim/meetings.h"

#include <map>
#include <utility>

#include "planner/program/job/meetings.h"

namespace zplan::sim {
namespace {

Slot slot_of(std::int32_t stage, Lane lane) {
  return static_cast<Slot>(stage) * kLaneCount + static_cast<Slot>(lane);
}

// Empty: the node needs no other class.
std::vector<Slot> lanes_of(const Mesh& mesh, std::int32_t stage, const Node& node) {
  std::vector<Slot> lanes;
  if (is_transfer(node.kind)) {
    const bool sends = node.kind == OpKind::kSend;
    const std::int32_t peer = *peer_stage(mesh, stage, node.peer);
    const Lane sender = sending_lane(node.lane);
    lanes = {slot_of(sends ? stage : peer, sender), slot_of(sends ? peer : stage, partner(sender))};
  } else if (node.kind == OpKind::kCollective && spans_stages(mesh, node.group)) {
    for (const std::int32_t member : stages_of(mesh, node.group, stage))
      lanes.push_back(slot_of(member, node.lane));
  }
  return lanes;
}

}  // namespace

MeetingTable::MeetingTable(const Job& job) : members_(1) {
  std::map<std::pair<Group, std::vector<Slot>>, std::uint32_t> numbers;
  for (std::size_t stage = 0; stage < job.classes.size(); ++stage) {
    std::vector<std::uint32_t>& own = of_node_.emplace_back();
    for (const Node& node : job.classes[stage].program.nodes) {
      std::vector<Slot> lanes = lanes_of(job.mesh, static_cast<std::int32_t>(stage), node);
      if (lanes.empty()) {
        own.push_back(0);
        continue;
      }
      const auto next = static_cast<std::uint32_t>(members_.size());
      const auto [at, is_new] = numbers.try_emplace({node.group, lanes}, next);
      if (is_new) members_.push_back(std::move(lanes));
      own.push_back(at->second);
    }
  }
}

}  // namespace zplan::sim
