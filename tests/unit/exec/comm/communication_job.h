// Jobs that only communicate, for tests of what lies between ranks: node i is the i-th operation.
#pragma once

#include <cstdint>
#include <vector>

#include "exec/comm/collective.h"
#include "planner/program/job/job.h"
#include "tests/support/meshes.h"

namespace zplan::exec::testing {

inline void add_node(Program& program, Node node, const std::vector<View>& views) {
  node.operands_begin = static_cast<std::uint32_t>(program.views.size());
  program.views.insert(program.views.end(), views.begin(), views.end());
  node.operands_end = static_cast<std::uint32_t>(program.views.size());
  program.blocks[0].items.push_back({false, static_cast<std::uint32_t>(program.nodes.size())});
  program.nodes.push_back(node);
}

// Collectives of all ranks, on one lane.
inline Job communication_job(std::int32_t world, const std::vector<CollectiveCall>& calls) {
  Job job;
  job.mesh = testing_support::mesh_of({.dp = world});
  RankClass& c = job.classes.emplace_back();
  c.program.blocks.push_back({});
  for (const CollectiveCall& call : calls) {
    const CollectiveRow& row = row_of(call.kind);
    View input, output;
    input.dtype = output.dtype = call.dtype;
    input.shape = {call.elements * parts_of(row.input, world)};
    output.shape = {call.elements * parts_of(row.output, world)};
    Node node;
    node.role = {Phase::kBackward, Part::kHead, Action::kReduce};
    node.kind = OpKind::kCollective;
    node.lane = Lane::kCommReduce;
    node.collective = call.kind;
    node.group = testing_support::groups::kData;
    node.member = static_cast<std::uint8_t>(call.root);
    add_node(c.program, node, {input, output});
  }
  return job;
}

// Transfers of so many bytes from stage 0 to 1 on one lane, then from 1 to 0 on another.
inline Job transfer_job(const std::vector<std::int64_t>& sizes) {
  Job job;
  job.mesh = testing_support::mesh_of({.pp = 2});
  for (std::int32_t stage = 0; stage < 2; ++stage) {
    RankClass& c = job.classes.emplace_back();
    c.stage = stage;
    c.program.blocks.push_back({});
    for (int way = 0; way < 2; ++way) {
      for (std::int64_t bytes : sizes) {
        View view;
        view.shape = {bytes};
        const bool sends = stage == way;
        Node node;
        node.role = {Phase::kForward, Part::kBoundary, sends ? Action::kSend : Action::kReceive};
        node.kind = sends ? OpKind::kSend : OpKind::kReceive;
        const Lane lane = way == 0 ? Lane::kSendForwardUp : Lane::kSendBackwardDown;
        node.lane = sends ? lane : partner(lane);
        node.peer = testing_support::stage_at(stage == 0 ? 1 : -1);
        add_node(c.program, node, {view});
      }
    }
  }
  return job;
}

}  // namespace zplan::exec::testing
