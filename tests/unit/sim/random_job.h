// Random Jobs for properties of the simulator: nested loops, ops of all kinds on all lanes, edges
// of every form. Every edge reaches back in program order and all classes meet in the same order,
// so the program order itself is a schedule and nothing can get stuck. Call inside a rapidcheck
// property. Every op takes some time, so the spans of a lane have one order.
#pragma once

#include <gtest/gtest.h>
//
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/support/meshes.h"
#include "tests/unit/cost/small_machine.h"
#include "tests/unit/sim/job_builder.h"

namespace zplan {

inline int pick(int low, int high) { return *rc::gen::inRange(low, high + 1); }

class RandomJob {
 public:
  // A Job for small_machine(2).
  Job make() {
    choose_shape();
    fill(pick(1, 3), 0);
    if (stages_[0].next() == 0) add_local(0);
    return finish();
  }

  // One long loop around everything, with edges from each iteration to those before.
  Job make_looping() {
    choose_shape();
    if (pick(0, 1) == 0) fill(1, 1);
    repeat_all(
        pick(8, 60),
        [&] {
          for (ClassBuilder& out : stages_) {
            const NodeIndex first = out.stream(Lane::kCompute, 4 * pick(1, 1'000'000));
            add_edges(out, first);
          }
          fill(pick(1, 3), 1);
        },
        0);
    return finish();
  }

  static Cluster machine() {
    Cluster cluster = small_machine(2);
    cluster.node.device.launch_overhead = {pick(0, 3) * 0.7e-6};
    cluster.node.device.launch_queue_depth = pick(1, 6);
    cluster.node.device.copy_latency = {pick(0, 2) * 1e-6};
    cluster.node.nvme.latency = {pick(0, 2) * 1e-6};
    cluster.node.topology.nvme_write.capacity = {pick(1, 2) * 0.5e9};
    cluster.node.latency.collective_intra = cluster.node.latency.collective_inter = {1e-6};
    cluster.node.latency.p2p_intra = cluster.node.latency.p2p_inter = {pick(0, 1) * 1e-6};
    if (pick(0, 3) == 0) cluster.node.topology.gpu_peer.reset();
    cluster.stack.overlap_slowdown = pick(0, 2) * 0.2;
    cluster.stack.copy_slowdown = pick(0, 1) * 0.3;
    return cluster;
  }

 private:
  void choose_shape() {
    stages_.assign(static_cast<std::size_t>(pick(1, 3)), {});
    dp_ = stages_.size() == 3 ? pick(1, 2) : pick(1, 4);
    tp_ = dp_ <= 2 && stages_.size() < 3 ? pick(1, 2) : 1;
    shards_ = dp_ % 2 == 0 ? dp_ / pick(1, 2) : dp_;
  }

  Job finish() {
    Job job = make_job(stages_, dp_, tp_);
    job.mesh = testing_support::mesh_of({.dp = dp_,
                                         .tp = tp_,
                                         .pp = static_cast<std::int32_t>(stages_.size()),
                                         .shards = shards_,
                                         .pipeline_first = pick(0, 1) != 0});
    return job;
  }

  // The blocks of all stages are the same; their ops differ except where they meet.
  void fill(int items, int depth) {
    for (int i = 0; i < items; ++i) {
      const int what = pick(0, 9);
      if (what < 3 && depth < 3) {
        repeat_all(
            pick(1, 4), [&] { fill(pick(1, 3), depth + 1); }, depth);
      } else if (what == 3) {
        add_meeting();
      } else if (what == 4) {
        add_pipeline();
      } else {
        for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
          for (int n = pick(0, 2); n > 0; --n) add_local(stage);
        }
      }
    }
  }

  template <typename Body>
  void repeat_all(int count, const Body& body, int depth, std::size_t stage = 0) {
    if (stage == stages_.size()) return body();
    const Var var = depth == 0 ? Var::kMicro : Var::kLayer;
    stages_[stage].repeat(
        count, [&] { repeat_all(count, body, depth, stage + 1); }, var);
  }

  void add_local(std::size_t stage) {
    ClassBuilder& out = stages_[stage];
    const std::int64_t size = 4 * pick(1, 200'000);
    NodeIndex node = 0;
    switch (pick(0, 9)) {
      case 0:
        node = out.copy(Tier::kCpu, Tier::kGpu, size);
        break;
      case 1:
        node = out.copy(Tier::kGpu, Tier::kCpu, size);
        break;
      case 2:
        node = out.accumulate_on_cpu(size);
        break;
      case 3:
        node = out.copy(Tier::kNvme, Tier::kCpu, size / 8);
        break;
      case 4:
        node = out.copy(Tier::kCpu, Tier::kNvme, size / 8);
        break;
      case 5:
        node = add_collective(out, size);
        break;
      case 6:
        node = out.copy(Tier::kCpu, Tier::kCpu, size);
        break;
      default:
        node = out.stream(pick(0, 3) > 0 ? Lane::kCompute : Lane::kCommReduce, size * 8);
    }
    add_edges(out, node);
  }

  // Within the class. A group of one rank would take no time at all.
  NodeIndex add_collective(ClassBuilder& out, std::int64_t size) {
    struct Choice {
      Group group;
      int ranks;
      Lane lane;
    };
    const std::array<Choice, 4> choices{
        {{testing_support::groups::kData, dp_, Lane::kCommGather},
         {testing_support::groups::kShard, shards_, Lane::kCommGather},
         {testing_support::groups::kReplica, dp_ / shards_, Lane::kCommReduce},
         {testing_support::groups::kTensor, tp_, Lane::kCommTensor}}};
    const Choice& choice = choices[static_cast<std::size_t>(pick(0, 3))];
    if (choice.ranks == 1) return out.stream(choice.lane, size);
    const CollectiveKind kind =
        pick(0, 2) == 0 ? CollectiveKind::kAllToAll : CollectiveKind::kAllGather;
    return out.collective(kind, choice.group, size, {}, choice.lane);
  }

  void add_meeting() {
    if (stages_.size() == 1 && dp_ * tp_ == 1) return;
    const std::int64_t size = 4 * pick(1, 50'000);
    for (ClassBuilder& out : stages_) {
      add_edges(out, out.collective(CollectiveKind::kAllReduce, testing_support::groups::kWorld,
                                    size, {}, Lane::kCommReduce));
    }
  }

  // From stage to stage, received before sent.
  void add_pipeline() {
    const std::int64_t size = 4 * pick(1, 50'000);
    const auto last = static_cast<int>(stages_.size()) - 1;
    for (int s = 0; s <= last; ++s) {
      ClassBuilder& out = stages_[static_cast<std::size_t>(s)];
      if (s > 0) add_edges(out, out.receive(s - 1, size));
      if (s < last) add_edges(out, out.send(s + 1, size));
    }
  }

  void add_edges(ClassBuilder& out, NodeIndex node) {
    for (int n = pick(0, 3); n > 0; --n) {
      const auto target = static_cast<NodeIndex>(pick(0, static_cast<int>(node)));
      Edge edge;
      edge.node = target;
      edge.reuse = pick(0, 3) == 0;
      const int common = out.common_depth(node, target);
      edge.level = pick(0, common);
      // The same iteration only where the target comes before its loops part.
      edge.delta = edge.level == common && target < node ? pick(0, 2) : pick(1, 2);
      const int match = pick(0, 2);
      if (match > 0 && out.loops_match(node, target, edge.level + 1)) {
        edge.match = match == 1 ? Match::kSame : Match::kMirror;
        edge.from_depth = edge.level + 1;
      }
      out.add_edge(node, edge);
    }
  }

  std::vector<ClassBuilder> stages_;
  int dp_ = 1, tp_ = 1, shards_ = 1;
};

}  // namespace zplan
