// The part of CostModel that is for devices which are measured cores of the host.
#include <algorithm>
#include <cmath>

#include "planner/core/error.h"
#include "planner/cost/cost_model.h"
#include "planner/cost/kernel_time.h"
#include "planner/program/job/meetings.h"

namespace zplan {
namespace {

constexpr BytesPerSecond kPicosecondsOfWork{1e12};  // per second, one core

Bytes at_least_one(double bytes) { return {std::max<std::int64_t>(1, std::llround(bytes))}; }

}  // namespace

OpCost CostModel::on_cores(int stage, const Node& node) {
  const std::span<const View> views = program(stage).operands(node);
  const bool meets = node.kind == OpKind::kCollective;
  const AxisSet owners = meets ? AxisSet{} : node.group.axes;
  const int beside = wiring_.ranks_beside(stage, owners);
  switch (node.kind) {
    case OpKind::kMark:
      return {.method = "mark"};
    case OpKind::kKernel: {
      const Demand demand = demand_of(program(stage), node);
      const Seconds rates =
          device_time(program(stage), node, demand, kernels_, false, cluster_).time;
      const CoreTime time = kernel_on_cores(node.kernel, demand, cluster_, rates);
      return busy_cores(stage, time, beside, time.product ? "product" : "stream");
    }
    case OpKind::kCopy: {
      const auto tier = [&](const View& v) { return program(stage).buffers[v.buffer].tier; };
      const bool reads = tier(views[0]) == Tier::kNvme;
      if (reads || tier(views[1]) == Tier::kNvme) return drive_beside_cores(stage, node, reads);
      return busy_cores(stage, copy_on_cores(views[0].bytes(), *cores_), beside, "copy");
    }
    case OpKind::kCollective: {
      const Bytes full = std::max(views[0].bytes(), views[1].bytes());
      const int n = job_.mesh.size(node.group);
      const bool in_place = n == 1 && views[0].buffer == views[1].buffer;
      if (in_place) return busy_cores(stage, {}, beside, "alone");
      if (n == 1) return busy_cores(stage, copy_on_cores(full, *cores_), beside, "alone");
      const Seconds rates = full * 2 / cluster_.node.host.memory_bandwidth;
      const CoreTime time = collective_on_cores(node.collective, n, full, *cores_, rates);
      const int all = beside * static_cast<int>(stages_of(job_.mesh, node.group, stage).size());
      return busy_cores(stage, time, all, "threads");
    }
    case OpKind::kSend:
    case OpKind::kReceive:
      return busy_cores(stage, transfer_on_cores(views[0].bytes(), *cores_), beside, "threads");
  }
  ZPLAN_ASSERT(false);
  return {};
}

// `ranks` of the node do the same at once.
OpCost CostModel::busy_cores(int stage, const CoreTime& time, int ranks, std::string_view method) {
  const Pattern pattern{
      PatternKind::kCores, stage, ranks, 2 * time.threads + (time.product ? 1 : 0), {}};
  const Bytes work = at_least_one(time.work.value * kPicosecondsOfWork.value);
  return transfer(cores_->operation, work, pattern, method, kPicosecondsOfWork,
                  {{constant_of(time.rests), 1}});
}

// A flow of bytes through the drives, at the rate that a transfer of its size has alone.
OpCost CostModel::drive_beside_cores(int stage, const Node& node, bool reads) {
  const auto views = program(stage).operands(node);
  const Bytes bytes = views[0].bytes();
  const auto alone = reads ? cores_->read(bytes) : cores_->write(bytes);
  if (!alone) return copy(stage, node);
  const Tier from = reads ? Tier::kNvme : Tier::kCpu, to = reads ? Tier::kCpu : Tier::kNvme;
  const Pattern pattern{PatternKind::kCopy, stage, static_cast<int>(from), static_cast<int>(to),
                        node.group};
  return paced({cores_->operation, *alone}, bytes, pattern, "drives",
               {{constant_of(HardwareTime::kDrives), 1}});
}

}  // namespace zplan
