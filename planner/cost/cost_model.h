// CostModel: what each node of a Job costs on a Cluster, as a fixed time or as a flow.
//
//   kernel on a GPU lane   fixed time (kernel_time.h)
//   kernel on a host lane  flow through host memory, capped by the rank's share of the cores
//   copy                   copy_latency (with a drive: its latency), then a flow of its bytes;
//                          within the GPU a fixed time, within the host a flow through its memory,
//                          read and written once; staged in pageable memory where the stack does
//                          so: at most a share of the device's link, and compute waits
//   collective             a start, then a flow of the bytes each rank sends, as fast as
//                          collective_time.h says when it is alone. The stack's share of the
//                          network slows what crosses nodes; of tensor parallel collectives the
//                          share that products do not hide counts
//   send, receive          latency, then a flow of the bytes; both ends carry the same cost
//   mark                   nothing
//   on cores               where devices are measured cores of the host: a flow of core time
//                          through the cores of the node, which all lanes of all ranks share
//                          (core_time.h)
//   by one owner           a kernel or copy that one rank does costs what that rank takes.
//                          [derived] The representative stands for the owner of every layer, so
//                          what successive owners do queues on one lane, and waits for what went
//                          before where both use one slot: one link works at a time
//                          [Rajbhandari21 sec 6.1]
//
// A flow is of one representative rank of the class; its weights stand for the siblings
// (mesh_wires.h). A group of one rank moves nothing. Rounded to picoseconds once per op.
// Left out: memory traffic of collectives on the GPU; other links of trees than those of rings;
// products that hide an all-to-all.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "hwprofiles/hw_profile.h"
#include "planner/core/units.h"
#include "planner/cost/collective_time.h"
#include "planner/cost/core_time.h"
#include "planner/cost/module_kernels.h"
#include "planner/cost/pattern.h"
#include "planner/cost/reliance.h"
#include "planner/cost/shared_wires.h"
#include "planner/cost/wiring.h"
#include "planner/program/job/job.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {

// What the host waits for before it launches an operation: that the compute stream, or the device,
// has done all that was launched on it before.
enum class HostWait : std::uint8_t { kNothing, kCompute, kDevice };

struct OpCost {
  SimTime fixed{0};   // device time; of a transfer, what passes before its first byte
  SimTime alone{0};   // whole duration when nothing else loads its links
  SimTime launch{0};  // host time to launch it
  Bytes bytes{0};     // to transfer; 0: none
  BytesPerSecond cap{std::numeric_limits<double>::infinity()};
  std::uint32_t shares_begin = 0, shares_end = 0;
  HostWait host_waits{};      // before it is launched
  SimTime wake{0};            // until it goes on after it has waited for another lane
  double slowdown = 0;        // compute beside it takes so much longer, as a share
  std::string_view method{};  // "gemm", "ring", "network" ..: the named algorithm, for traces
  Reliances rests{};          // of `alone`
  Reliances launch_rests{};   // of `launch`
};

class CostModel {
 public:
  // Throws Error when the cluster has too few devices, lacks a link or a number format the job
  // needs. `job` and `cluster` must outlive the model. `shared`: of this cluster; spares Jobs with
  // equal meshes the same walks over their ranks, and changes no cost.
  CostModel(const Job& job, const Cluster& cluster, SharedWires* shared = nullptr);

  const Job& job() const { return job_; }
  const Cluster& cluster() const { return cluster_; }
  // Host time per launched op of a compiled program.
  Seconds launch_overhead() const {
    const DeviceProfile& device = cluster_.node.device;
    return job_.launch == LaunchMode::kGraph ? device.graph_launch_overhead
                                             : device.launch_overhead;
  }
  // Operations of a lane that the launching thread may be ahead. Lanes on cores of the host are
  // threads, and nobody launches for them.
  int launch_depth() const {
    constexpr int kUnlimited = 1 << 12;  // [derived] more than the operations between two waits
    return cores_ ? kUnlimited : cluster_.node.device.launch_queue_depth;
  }
  // Costs of the nodes of one class (= stage), by node index.
  std::span<const OpCost> costs(int stage) const {
    const std::vector<OpCost>& costs = costs_[static_cast<std::size_t>(stage)];
    return {costs.data(), costs.size()};
  }
  // What the time and the launch of a node rest on, in place of what their formulas say.
  void set_rests(int stage, std::size_t node, const Reliances& time, const Reliances& launch) {
    OpCost& cost = costs_[static_cast<std::size_t>(stage)][node];
    cost.rests = time;
    cost.launch_rests = launch;
  }
  std::span<const LinkShare> shares(const OpCost& cost) const {
    return {shares_.data() + cost.shares_begin, cost.shares_end - cost.shares_begin};
  }
  const std::vector<CostLink>& links() const { return wiring_.links(); }
  const ClassPlace& place(int stage) const { return wiring_.place(stage); }

 private:
  static PatternKind pattern_of(CollectiveKind kind);
  TokenTravel travel_of_tokens(int stage) const;
  OpCost cost_of(int stage, const Node& node);
  void add_software(int stage);
  int ranks_of(const Node& node) const;
  OpCost kernel(int stage, const Node& node);
  OpCost copy(int stage, const Node& node);
  OpCost collective(int stage, const Node& node);
  OpCost on_cores(int stage, const Node& node);
  OpCost busy_cores(int stage, const CoreTime& time, int ranks, std::string_view method);
  OpCost drive_beside_cores(int stage, const Node& node, bool reads);
  OpCost between(int from_stage, int to_stage, const View& boundary);
  RestingTime stream(Bytes bytes) const;  // through the memory of the device
  OpCost fixed_time(const RestingTime& time, std::string_view method) const;
  // `rests`: of the time after the latency.
  OpCost transfer(Seconds latency, Bytes bytes, const Pattern& pattern, std::string_view method,
                  BytesPerSecond cap, const Reliances& rests);
  struct Pace {
    Seconds latency, transfer;
  };
  OpCost paced(const Pace& time, Bytes bytes, const Pattern& pattern, std::string_view method,
               const Reliances& rests);
  CollectiveKind meets_as(const Node& node) const;
  Bytes at_once(int stage, const Node& node, Bytes full);
  Bytes alike(int stage, const Node& node);
  void find_rates(const Pattern& pattern, bool peers, CollectiveCall& call);
  BytesPerSecond border_alone(const Pattern& pattern, const CollectiveCall& call);
  std::pair<std::uint32_t, std::uint32_t> shares_of(const Pattern& pattern);
  const Program& program(int stage) const;
  int peer(int stage, const Node& node) const;

  const Job& job_;
  const Cluster& cluster_;
  const LatencyProfile latency_;  // of the software's messages
  Wiring wiring_;
  const CoreProfile* cores_ = nullptr;  // what devices that are cores take; none: rates
  const KernelSet* kernels_ = nullptr;  // the job's; none: of a set that is not built in
  std::vector<std::vector<OpCost>> costs_;
  std::vector<bool> unaligned_head_;  // by stage
  std::vector<TokenTravel> travels_;  // by stage
  std::vector<LinkShare> shares_;
  std::map<Pattern, std::pair<std::uint32_t, std::uint32_t>> known_;
  std::map<std::pair<int, Action>, Bytes> alike_;  // by stage
};

}  // namespace zplan
