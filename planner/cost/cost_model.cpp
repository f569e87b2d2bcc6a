#include "planner/cost/cost_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "planner/core/error.h"
#include "planner/cost/autocast.h"
#include "planner/cost/kernel_time.h"
#include "planner/cost/module_kernels.h"
#include "planner/cost/step_totals.h"
#include "planner/cost/token_exchange.h"
#include "planner/program/job/collectives.h"
#include "planner/program/job/meetings.h"

namespace zplan {
namespace {

constexpr BytesPerSecond kNoCap{std::numeric_limits<double>::infinity()};

// [derived] 2^60 ps, 13 days: a few such operations still fit a 64-bit clock.
constexpr SimTime kLongestOp{std::int64_t{1} << 60};

SimTime to_clock(Seconds time) {
  if (time < to_seconds(kLongestOp)) return to_sim_time(time);
  throw_bad_input(fmt::format("one operation would take {} s; the cost model counts up to {} s",
                              time.value, to_seconds(kLongestOp).value));
}

// A transfer that takes so many times as long holds its links for as many bytes.
Bytes scaled(Bytes bytes, double factor) {
  return {std::llround(static_cast<double>(bytes.value) * factor)};
}

// The rate of a host kernel's time over that of its bytes at the rate of the host's memory; none:
// that.
double StackRates::*host_rate(KernelId kernel) {
  if (kernel_def(kernel).traffic == Traffic::kOptimizer) return &StackRates::cpu_update;
  return kernel == KernelId::kAccumulate ? &StackRates::cpu_accumulate : nullptr;
}

// The first kernel of each pass through a layer.
bool begins_layer(const Node& node) {
  return node.role.part == Part::kAttentionNorm && node.kernel != KernelId::kFillZero;
}

// Returns whether the node brings rows of tokens to experts on other ranks.
bool exchanges_rows(const Node& node) {
  return node.kind == OpKind::kCollective && node.role.part == Part::kDispatch &&
         node.role.action == Action::kExchange;
}

// Returns whether the host has to know how many rows come before it goes on: sizes of buffers and
// parts of an exchange in PyTorch [MegatronCore transformer/moe/token_dispatcher.py], and without
// an exchange of the products of each expert where it launches these one by one.
bool waits_for_counts(const Node& node, bool is_exchanged, Modules modules) {
  const bool forward = node.role.phase == Phase::kForward || node.role.phase == Phase::kRecompute;
  if (modules == Modules::kNative || !forward) return false;
  if (is_exchanged) return exchanges_rows(node);
  return modules == Modules::kMegatron && node.role.part == Part::kExpertUp &&
         node.kind == OpKind::kKernel;
}

// [derived] 80 and 160 products, one after the other on B200, take 8.8 us each whatever they
// compute [SimuMax grouped_gemm_train_b200_sxm.csv]: the host launches no faster.
constexpr Seconds kProductLaunch{8.8e-6};

// [DeepSpeed] Gradients on their way down and checkpoints both ways are what early offload kept in
// pageable memory; parameters and optimizer states have pinned buffers.
bool is_staged(const Node& node, const StackRates& stack) {
  if (stack.staged_copies <= 1 || node.kind != OpKind::kCopy) return false;
  const bool down = node.lane == Lane::kD2h, up = node.lane == Lane::kH2d;
  return (down && node.role.phase == Phase::kBackward) ||
         ((down || up) && node.role.part == Part::kBoundary);
}

// Of the time of a transfer of drives that part in which they wait for the host.
double share_of_waits(const Cluster& cluster, bool writes) {
  const TopologySpec& wires = cluster.node.topology;
  const double part = 1.0 / std::max(1, wires.nvme_drives), waits = drive_waits(cluster);
  const double slower = wires.nvme_read.effective().value / wires.nvme_write.effective().value;
  return waits / (waits + (writes ? part * slower : part));
}

// Whether a collective stands between the products of a layer: products wait for it.
bool between_products(const Node& node) { return node.lane == Lane::kCommTensor; }

// Stacks hide gathers and sums behind pieces of the products beside them.
bool may_be_hidden(const Node& node) {
  return between_products(node) && !hands_on(node.collective);
}

// Tensor parallel ranks join or cut parts of the sequence, and the batch may be in front of it.
bool moves_sequence(const Node& node) {
  return may_be_hidden(node) && !sums_for_all(node.collective);
}

// The method of members that meet in one node.
struct MethodWords {
  std::string_view plain, through_host;
};
MethodWords words_of(CollectiveKind kind) {
  if (exchanges(kind)) return {"pairs", "pairs through host memory"};
  if (shifts(kind)) return {"shift", "shift through host memory"};
  return {"ring", "ring through host memory"};
}

// Returns whether tokens come to experts or back: beside what does not wait for them.
bool moves_tokens(const Node& node) {
  return node.role.part == Part::kDispatch || node.role.part == Part::kCombine;
}

// What a transfer takes from the compute beside it.
double slowdown_of(const Node& node, const StackRates& stack) {
  constexpr double kStands = 1e4;  // [derived] all but standing still: one part in ten thousand
  if (is_staged(node, stack)) return kStands;
  if (node.kind == OpKind::kCollective && (!between_products(node) || moves_tokens(node)))
    return stack.overlap_slowdown;
  return node.lane == Lane::kH2d || node.lane == Lane::kD2h ? stack.copy_slowdown : 0;
}

// Of the gradients of an input over tensor parallel ranks.
bool is_sum_of_input(const Node& node) {
  return node.role.phase == Phase::kBackward && node.role.action == Action::kSumRanks;
}

// Share of a collective that products do not hide. The sum of an input gradient can run beside the
// product of the weight gradient [Korthikanti22 sec 4.2].
double exposed_share(const Node& node, const StackRates& stack) {
  if (!may_be_hidden(node)) return 1;
  return stack.tensor_exposed * (is_sum_of_input(node) ? stack.backward_exposed : 1);
}

// The time of a tensor parallel collective is in proportion to what products do not hide of it.
void add_exposed(const Node& node, Reliances& rests) {
  if (!may_be_hidden(node)) return;
  rests.add(constant_of(&StackRates::tensor_exposed), 1);
  if (is_sum_of_input(node)) rests.add(constant_of(&StackRates::backward_exposed), 1);
}

// How the transfer of a collective follows the network's rate: 1 where nothing else limits it.
template <typename Met>
double network_share(const CollectiveCall& call, const CollectiveTime& time, const Met& met) {
  constexpr double kStep = 0.01;
  if (call.nodes == 1 || time.transfer.value == 0) return 0;
  CollectiveCall slow = call;
  slow.border = call.border / (1 + kStep);
  const Seconds moved = met(slow).transfer;
  return std::clamp((moved.value / time.transfer.value - 1) / kStep, 0.0, 1.0);
}

// What the ring of one group gathers updated parameters with, out of a node. [derived] A group over
// all of 32 GPUs of DGX-2s gathers 20 GB in 2.1 s (deepspeed_log), the rate of one port of the
// eight that its rings of gradients use; groups beside each other, each with ports of its own, have
// them all: 100B parameters on 400 GPUs in 16 groups keep 15 PFLOP/s [Rajbhandari20 sec 10.2].
BytesPerSecond ring_of_update(const Cluster& cluster) {
  const TopologySpec& wires = cluster.node.topology;
  return wires.nic.effective() *
         (wires.nics() * cluster.stack.network * cluster.stack.gather_network);
}

// Of what a collective takes after its start; `by_network`: network_share().
Reliances rests_of_transfer(bool by_few_ports, double by_network) {
  Reliances rests;
  rests.add(constant_of(HardwareTime::kNetwork), by_network);
  rests.add(constant_of(HardwareTime::kPeerLinks), 1 - by_network);
  rests.add(constant_of(&StackRates::network), -by_network);
  if (by_few_ports) rests.add(constant_of(&StackRates::gather_network), -by_network);
  return rests;
}

bool gathers_update(const Node& node) {
  return node.role.phase == Phase::kUpdate && node.role.action == Action::kGather;
}

bool sums_gradients(const Node& node) {
  return node.kind == OpKind::kCollective && node.lane == Lane::kCommReduce &&
         node.role.phase == Phase::kBackward && node.role.action == Action::kReduce;
}

// The messages of the software's transport, where they take longer than those of the hardware's.
LatencyProfile latency_of(const Cluster& cluster) {
  LatencyProfile latency = cluster.node.latency;
  latency.transport = std::max(latency.transport, Seconds{cluster.stack.transport});
  return latency;
}

// Counts the ports to the network of the nodes that fast links join.
int ports_of_island(const Cluster& cluster) {
  const TopologySpec& wires = cluster.node.topology;
  const int gpus = std::max(1, cluster.node.devices_per_node);
  return std::min(wires.nics(), gpus) * std::max(1, cluster.domain() / gpus);
}

// `part` of a collective of `whole` bytes.
void take_part(CollectiveTime& time, Bytes part, Bytes whole) {
  if (whole == part) return;
  const double share = static_cast<double>(part.value) / static_cast<double>(whole.value);
  time.latency = time.latency * share;
  time.transfer = time.transfer * share;
  time.moved = scaled(time.moved, share);
  time.crossing = scaled(time.crossing, share);
}

// [PyTorch torch/csrc/autograd/engine.cpp] Backward runs no Python but in functions of the
// software: the engine, in C++, dispatches the operators of a gradient. That it takes half of what
// modules in Python take is [assumed].
constexpr double kEngineShare = 0.5;

// Host time of one operation: the stack's where it says one, for each operator that its modules
// dispatch. What is launched as a graph is not dispatched again.
RestingTime launch_time(const Node& node, int ranks, Seconds plain, bool as_graph,
                        const StackRates& stack) {
  const auto of_stack = [&](double StackRates::*rate, double share) {
    return RestingTime{Seconds{stack.*rate * share}, {{constant_of(rate), 1}}};
  };
  const bool forward = node.role.phase == Phase::kForward || node.role.phase == Phase::kRecompute;
  const bool backward = node.role.phase == Phase::kBackward;
  RestingTime time{plain, {{constant_of(HardwareTime::kLaunch), 1}}};
  if (as_graph) return time;
  const double calls = host_calls(node, stack.modules);
  if (forward) time = slower(time, of_stack(&StackRates::host_forward, calls));
  if (backward && stack.host_backward > 0) {
    time = slower(time, of_stack(&StackRates::host_backward, calls));
  } else if (backward) {
    time = slower(time, of_stack(&StackRates::host_forward, calls * kEngineShare));
  }
  const bool meets = node.kind == OpKind::kCollective || node.kind == OpKind::kSend ||
                     node.kind == OpKind::kReceive;
  constexpr double kRanks = 8;  // of the collective that the rate is for
  return meets ? both(time, of_stack(&StackRates::host_collective, ranks / kRanks)) : time;
}

// Whether stages have several chunks of layers: only then does the first one receive activations.
bool has_chunks(const Program& first) {
  return std::ranges::any_of(first.nodes, [](const Node& node) {
    return node.kind == OpKind::kReceive && node.role.phase == Phase::kForward;
  });
}

// Counts the tensors in the unit of parameters that the node gathers.
double tensors_of(const Job& job, const RankClass& own, const Node& node) {
  const BufferId gathered = own.program.operands(node).front().buffer;
  const auto home = std::ranges::find_if(own.homes, [&](const UnitHome& one) {
    return std::ranges::count(one.param.buffers(), gathered) > 0;
  });
  return home == own.homes.end() ? 1 : static_cast<double>(job.units[home->unit].tensors.size());
}

// [MegatronCore pipeline_parallel/p2p_communication.py] Without chunks, the host waits for the
// device after what it has exchanged with the next stages, so that it launches nothing ahead of a
// receive.
bool follows_receive(const Program& program, const Node& node) {
  return std::ranges::any_of(program.after(node), [&](const Edge& edge) {
    return !edge.reuse && program.nodes[edge.node].kind == OpKind::kReceive;
  });
}

}  // namespace

CostModel::CostModel(const Job& job, const Cluster& cluster, SharedWires* shared)
    : job_(job),
      cluster_(cluster),
      latency_(latency_of(cluster)),
      wiring_(job.mesh, cluster, shared) {
  if (job.world() <= wiring_.ranks_per_node()) cores_ = cluster.node.cores.get();
  kernels_ = built_in_kernels(job);
  for (int stage = 0; stage < static_cast<int>(job.classes.size()); ++stage) {
    costs_.emplace_back();
    unaligned_head_.push_back(has_unaligned_head(program(stage)));
    travels_.push_back(travel_of_tokens(stage));
    for (const Node& node : program(stage).nodes) costs_.back().push_back(cost_of(stage, node));
    add_software(stage);
  }
}

// The stack adds host time for each operation, once per step after the device has done all that was
// launched, and at each layer of a pass after the compute stream has. Where updated parameters come
// in lists it adds each one's copies, which are more than the launch queue holds, so that the host
// waits for the device there. Compute is slower beside collectives. [derived] A host that waited at
// a layer for a send, too, would wait for the host of the next stage, and in a ring of stages that
// one in the end for this one.
void CostModel::add_software(int stage) {
  const auto at = static_cast<std::size_t>(stage);
  const bool as_graph = job_.launch == LaunchMode::kGraph;
  const bool waits =
      cluster_.stack.modules == Modules::kMegatron && !as_graph && !has_chunks(program(0));
  bool first = true, received = false;
  for (std::size_t i = 0; i < program(stage).nodes.size(); ++i) {
    const Node& node = program(stage).nodes[i];
    OpCost& cost = costs_.back()[i];
    if (cores_ != nullptr) {
      cost.wake = to_clock(cores_->wake);
      continue;
    }
    received = received || (waits && follows_receive(program(stage), node));
    if (cost.bytes.value > 0) cost.slowdown = slowdown_of(node, cluster_.stack);
    if (!is_launched(node.lane) || node.kind == OpKind::kMark) continue;
    RestingTime time =
        launch_time(node, ranks_of(node), launch_overhead(), as_graph, cluster_.stack);
    const auto wait_and_spend = [&](double StackRates::*rate, HostWait wait, double times = 1) {
      if (cluster_.stack.*rate == 0 || as_graph) return;
      time = both(time, {Seconds{cluster_.stack.*rate * times}, {{constant_of(rate), 1}}});
      cost.host_waits = std::max(cost.host_waits, wait);
    };
    if (first) wait_and_spend(&StackRates::host_step, HostWait::kDevice);
    const Modules modules = cluster_.stack.modules;
    const auto products =
        static_cast<double>(products_launched(node, program(stage).operands(node), modules));
    if (products > 0 && !as_graph)
      time = slower(time, {kProductLaunch * products, {{constant_of(HardwareTime::kLaunch), 1}}});
    if (!as_graph && waits_for_counts(node, travels_[at].is_exchanged, modules))
      cost.host_waits = std::max(cost.host_waits, HostWait::kCompute);
    if (begins_layer(node)) wait_and_spend(&StackRates::host_sync, HostWait::kCompute);
    if (cluster_.stack.list_copy > 0 && gathers_update(node))
      wait_and_spend(&StackRates::list_copy, HostWait::kDevice,
                     ranks_of(node) * tensors_of(job_, job_.classes[at], node));
    if (std::exchange(received, false))
      cost.host_waits = std::max(cost.host_waits, HostWait::kCompute);
    cost.launch = to_clock(time.time * cluster_.stack.overall);
    cost.launch_rests = time.rests;
    first = false;
  }
}

// That meet in a collective; in others two.
int CostModel::ranks_of(const Node& node) const {
  return node.kind == OpKind::kCollective ? job_.mesh.size(node.group) : 2;
}

int CostModel::peer(int stage, const Node& node) const {
  return *peer_stage(job_.mesh, stage, node.peer);
}

const Program& CostModel::program(int stage) const {
  return job_.classes[static_cast<std::size_t>(stage)].program;
}

OpCost CostModel::cost_of(int stage, const Node& node) {
  if (cores_ != nullptr) return on_cores(stage, node);
  switch (node.kind) {
    case OpKind::kKernel:
      return kernel(stage, node);
    case OpKind::kCopy:
      return copy(stage, node);
    case OpKind::kCollective:
      return collective(stage, node);
    case OpKind::kSend:
      return between(stage, peer(stage, node), program(stage).operands(node)[0]);
    case OpKind::kReceive:
      return between(peer(stage, node), stage, program(stage).operands(node)[0]);
    case OpKind::kMark:
      return {.method = "mark"};
  }
  ZPLAN_ASSERT(false);
  return {};
}

// The first rows that come to experts in the stage stand for all.
TokenTravel CostModel::travel_of_tokens(int stage) const {
  TokenTravel travel;
  for (const Node& node : program(stage).nodes) {
    constexpr std::size_t kCounts = 2;
    if (node.kind == OpKind::kKernel && node.kernel == KernelId::kDispatchRows)
      travel.experts = program(stage).operands(node)[kCounts].shape[1];
    if (!exchanges_rows(node)) continue;
    const auto choices = rows_travel_together(program(stage).attributes_of(node));
    if (choices) travel.ranks = reach_of(*choices, job_.mesh.size(node.group), 1).ranks;
    travel.is_exchanged = true;
    break;
  }
  return travel;
}

OpCost CostModel::kernel(int stage, const Node& node) {
  const Demand demand = demand_of(program(stage), node);
  if (is_host(node.lane)) {
    double StackRates::*const rate = host_rate(node.kernel);
    const double factor = rate != nullptr ? cluster_.stack.*rate : 1;
    Reliances rests{{constant_of(HardwareTime::kHostMemory), 1}};
    if (rate != nullptr) rests.add(constant_of(rate), 1);
    const BytesPerSecond cap = core_rate(demand, cluster_.node.host, wiring_.place(stage).ranks);
    return transfer({}, scaled(demand.bytes, factor), {PatternKind::kHost, stage, 0, 0, node.group},
                    "host stream", cap, rests);
  }
  const auto at = static_cast<std::size_t>(stage);
  const bool unaligned_head = unaligned_head_[at];
  RestingTime time = device_time(program(stage), node, demand, kernels_, unaligned_head, cluster_);
  const std::span<const View> operands = program(stage).operands(node);
  const Modules modules = cluster_.stack.modules;
  const Bytes epilogue = epilogue_bytes(node, operands, modules) +
                         sorting_bytes(node, operands, travels_[at], modules);
  time = both(time, epilogue_time(epilogue, cluster_.node.device, cluster_.stack));
  if (cluster_.stack.autocast) {
    time = both(time, stream(autocast_bytes(node, operands)));
  } else if (cluster_.stack.sums_apart) {
    time = both(time, stream(accumulation_bytes(node, operands)));
  }
  if (demand.kind == WorkKind::kGemm) return fixed_time(time, "gemm");
  return fixed_time(time, demand.kind == WorkKind::kAttention ? "attention" : "stream");
}

OpCost CostModel::copy(int stage, const Node& node) {
  const std::span<const View> views = program(stage).operands(node);
  const auto tier_of = [&](const View& v) { return program(stage).buffers[v.buffer].tier; };
  const Tier from = tier_of(views[0]), to = tier_of(views[1]);
  const Bytes bytes = views[0].bytes();
  if (from == Tier::kGpu && to == Tier::kGpu) {
    return fixed_time(stream(bytes * 2), "stream");
  }
  if (from == Tier::kCpu && to == Tier::kCpu) {
    return transfer({}, bytes * 2, {PatternKind::kHost, stage, 0, 0, node.group}, "host stream",
                    kNoCap, {{constant_of(HardwareTime::kHostMemory), 1}});
  }
  if (from != Tier::kCpu && to != Tier::kCpu) {
    throw_bad_input(fmt::format("expected copies between {} and {} to go through cpu, got {}",
                                name(from), name(to), name(node.role)));
  }
  const bool drive = from == Tier::kNvme || to == Tier::kNvme;
  const Seconds latency = drive ? cluster_.node.nvme.latency : cluster_.node.device.copy_latency;
  const Pattern pattern{PatternKind::kCopy, stage, static_cast<int>(from), static_cast<int>(to),
                        node.group};
  double StackRates::*const rate = drive ? &StackRates::drives : &StackRates::host_copies;
  const Bytes carried = scaled(bytes, cluster_.stack.*rate);
  Reliances rests{{constant_of(rate), 1}};
  const double waiting = drive ? share_of_waits(cluster_, to == Tier::kNvme) : 0;
  rests.add(constant_of(&StackRates::host_drives), waiting);
  rests.add(constant_of(drive ? HardwareTime::kDrives : HardwareTime::kHostLink), 1 - waiting);
  if (is_staged(node, cluster_.stack)) {
    rests.add(constant_of(&StackRates::staged_copies), 1);
    const BytesPerSecond link = cluster_.node.topology.gpu_pcie.effective();
    return transfer(latency, carried, pattern, "staged copy", link / cluster_.stack.staged_copies,
                    rests);
  }
  return transfer(latency, carried, pattern, drive ? "drives" : "copy", kNoCap, rests);
}

PatternKind CostModel::pattern_of(CollectiveKind kind) {
  if (exchanges(kind)) return PatternKind::kPairs;
  return shifts(kind) ? PatternKind::kShift : PatternKind::kRing;
}

OpCost CostModel::collective(int stage, const Node& node) {
  const std::span<const View> views = program(stage).operands(node);
  const Bytes full = std::max(views[0].bytes(), views[1].bytes());
  const int n = job_.mesh.size(node.group);
  if (n == 1) {
    const bool in_place = views[0].buffer == views[1].buffer;
    return fixed_time(stream(in_place ? Bytes{0} : full * 2), "alone");
  }
  const int at = stages_of(job_.mesh, node.group, stage).front();
  const Pattern pattern{pattern_of(node.collective), at, 0, 0, node.group};
  const Reach reach = wiring_.reach(node.group, stage);
  CollectiveCall call{meets_as(node), full, n, reach.islands};
  call.whole_links = reach.peers == PeerUse::kWhole || !wiring_.has_peer_link();
  find_rates(pattern, reach.peers != PeerUse::kNone, call);
  call.ports = ports_of_island(cluster_);
  if (reach.islands > 1) call.border_alone = border_alone(pattern, call);
  const StackRates& stack = cluster_.stack;
  call.border = call.border * stack.network;
  const auto& ring_out = cluster_.node.topology.ring_out;
  if (ring_out && pattern.kind == PatternKind::kRing)
    call.border = std::min(call.border, *ring_out);
  const bool by_few_ports =
      gathers_update(node) && call.nodes > 1 && ring_of_update(cluster_) <= call.border;
  if (by_few_ports) call.border = ring_of_update(cluster_);
  const CollectiveProfile* profile = cluster_.node.device.collectives.get();
  call.bytes = at_once(stage, node, full);
  const auto choices = rows_travel_together(program(stage).attributes_of(node));
  const auto met = [&](const CollectiveCall& one) {
    const CollectiveTime all = collective_time(one, profile, latency_);
    return choices ? token_exchange_time(one, *choices, all.latency, stack.token_links) : all;
  };
  CollectiveTime time = met(call);
  const double by_network = network_share(call, time, met);
  take_part(time, full, call.bytes);
  const bool through_host = reach.peers == PeerUse::kNone && call.nodes == 1;
  const MethodWords words = words_of(node.collective);
  if (through_host && (wiring_.has_peer_link() || time.method == words.plain))
    time.method = words.through_host;
  if (stack.batch_first && moves_sequence(node))
    time.latency += stream_time(full * 2, cluster_.node.device).time;
  const double exposed = exposed_share(node, stack);
  const Bytes sent = sent_bytes(call.kind, full, n);
  const Bytes moved = call.nodes == 1 ? std::min(sent, time.moved) : sent;
  OpCost cost = paced({time.latency * exposed, time.transfer * exposed}, scaled(moved, exposed),
                      pattern, time.method, rests_of_transfer(by_few_ports, by_network));
  add_exposed(node, cost.rests);
  return cost;
}

CollectiveKind CostModel::meets_as(const Node& node) const {
  const bool whole = cluster_.stack.summed_whole == 1 && sums_gradients(node);
  return whole && node.collective == CollectiveKind::kReduceScatter ? CollectiveKind::kAllReduce
                                                                    : node.collective;
}

// Of what the software puts into one collective.
Bytes CostModel::at_once(int stage, const Node& node, Bytes full) {
  const StackRates& stack = cluster_.stack;
  const bool shards = !sums_for_all(node.collective);
  if (stack.summed_whole == 1 && (gathers_update(node) || (sums_gradients(node) && shards)))
    return std::max(full, alike(stage, node));
  if (!sums_gradients(node)) return full;
  return std::max(full, {std::llround(stack.bucket)});
}

// All bytes of a step in collectives of the same action.
Bytes CostModel::alike(int stage, const Node& node) {
  const auto [at, added] = alike_.try_emplace({stage, node.role.action});
  if (!added) return at->second;
  const Program& all = program(stage);
  const std::vector<std::int64_t> instances = instances_per_step(all);
  for (std::size_t i = 0; i < all.nodes.size(); ++i) {
    const Node& other = all.nodes[i];
    if (other.kind != OpKind::kCollective || other.role.action != node.role.action ||
        other.role.phase != node.role.phase)
      continue;
    const std::span<const View> views = all.operands(other);
    at->second += std::max(views[0].bytes(), views[1].bytes()) * instances[i];
  }
  return at->second;
}

// The rates of a ring by its links: of its steps within an island, over peer links or through host
// memory, and over the island's border. Of an all-to-all what its links carry within an island and
// over the border, of the parts that a member sends to the others.
void CostModel::find_rates(const Pattern& pattern, bool peers, CollectiveCall& call) {
  const auto [begin, end] = shares_of(pattern);
  for (std::uint32_t i = begin; i < end; ++i) {
    const CostLink& link = wiring_.links()[shares_[i].link];
    const BytesPerSecond rate = link.capacity / shares_[i].weight;
    const bool within = peers ? link.kind == kPeerLink : call.nodes == 1;
    BytesPerSecond& slowest = within ? call.local : call.border;
    slowest = std::min(slowest, rate);
    if (!peers) call.local = std::min(call.local, rate);
  }
  if (pattern.kind != PatternKind::kPairs) return;
  const double n = call.ranks, k = std::ceil(n / call.nodes);
  if (k > 1) call.local = call.local * ((k - 1) / (n - 1));
  if (k < n) call.border = call.border * (k * (n - k) / (n - 1));
}

// Only measured times over nodes ask for it.
BytesPerSecond CostModel::border_alone(const Pattern& pattern, const CollectiveCall& call) {
  const CollectiveProfile* profile = cluster_.node.device.collectives.get();
  if (profile == nullptr || !profile->reaches_over_nodes()) return call.border;
  CollectiveCall alone{.ranks = call.ranks, .nodes = call.nodes};
  Pattern of_one = pattern;
  of_one.first = kAlone;
  find_rates(of_one, true, alone);
  return alone.border;
}

// A flow that takes `time.transfer` alone. Where the links' rates would not do, that is where a
// measured transfer is faster than they are said to be, it carries fewer bytes: contention is in
// proportion to the time, and what is measured stands.
OpCost CostModel::paced(const Pace& time, Bytes bytes, const Pattern& pattern,
                        std::string_view method, const Reliances& rests) {
  if (bytes.value == 0) return transfer(time.latency, {}, pattern, method, kNoCap, rests);
  const auto [begin, end] = shares_of(pattern);
  double most = static_cast<double>(bytes.value);
  for (std::uint32_t i = begin; i < end; ++i) {
    const LinkShare& share = shares_[i];
    const BytesPerSecond rate = wiring_.links()[share.link].capacity / share.weight;
    most = std::min(most, rate.value * time.transfer.value);
  }
  const Bytes carried{std::max<std::int64_t>(1, std::llround(most))};
  return transfer(time.latency, carried, pattern, method,
                  {static_cast<double>(carried.value) / time.transfer.value}, rests);
}

// Tensor parallel ranks that all hold the whole boundary may send a slice each [Narayanan21
// sec 4.1]; the all-gather at the receiver, over a faster link, is left out.
OpCost CostModel::between(int from_stage, int to_stage, const View& boundary) {
  // Of the ranks of a stage that work on the same sequences.
  const std::int64_t held = boundary.shape[0] * (job_.replicas() / job_.mesh.size(kDataAxis));
  const bool whole = held > job_.micro_batch * job_.sequence;
  const int tp = job_.mesh.size(kTensorAxis);
  const double sliced = whole && tp > 1 ? cluster_.stack.sliced_boundary : 0;
  const double share = 1 - sliced + sliced / tp;
  const Bytes bytes = scaled(boundary.bytes(), share);
  const Way way = wiring_.way(from_stage, to_stage);
  const bool crosses = way == Way::kNetwork;
  const LatencyProfile& latency = latency_;
  const std::string_view near = way == Way::kPeerLink ? "peer link" : "through host memory";
  return transfer(crosses ? latency.p2p_inter + latency.transport : latency.p2p_intra, bytes,
                  {PatternKind::kBetween, from_stage, to_stage, 0, {}}, crosses ? "network" : near,
                  kNoCap,
                  {{constant_of(crosses ? HardwareTime::kNetwork : HardwareTime::kPeerLinks), 1}});
}

RestingTime CostModel::stream(Bytes bytes) const {
  RestingTime time = stream_time(bytes, cluster_.node.device);
  time.time = time.time * cluster_.stack.overall;
  return time;
}

OpCost CostModel::fixed_time(const RestingTime& time, std::string_view method) const {
  const SimTime rounded = to_clock(time.time);
  return {.fixed = rounded, .alone = rounded, .method = method, .rests = time.rests};
}

OpCost CostModel::transfer(Seconds latency, Bytes bytes, const Pattern& pattern,
                           std::string_view method, BytesPerSecond cap, const Reliances& rests) {
  const double overall = cluster_.stack.overall;
  bytes = scaled(bytes, overall);
  OpCost cost{.fixed = to_clock(latency * overall), .bytes = bytes, .cap = cap, .method = method};
  cost.alone = cost.fixed;
  if (bytes.value == 0) return cost;
  std::tie(cost.shares_begin, cost.shares_end) = shares_of(pattern);
  BytesPerSecond rate = cap;
  for (const LinkShare& share : shares(cost)) {
    rate = std::min(rate, wiring_.links()[share.link].capacity / share.weight);
  }
  cost.alone += to_clock(bytes / rate);
  if (cost.alone.value == 0) return cost;
  cost.rests = rests;
  cost.rests.scale(to_seconds(cost.alone - cost.fixed).value / to_seconds(cost.alone).value);
  return cost;
}

std::pair<std::uint32_t, std::uint32_t> CostModel::shares_of(const Pattern& pattern) {
  const auto [at, added] = known_.try_emplace(pattern);
  if (added) {
    const std::vector<LinkShare> found = wiring_.shares(pattern);
    at->second.first = static_cast<std::uint32_t>(shares_.size());
    shares_.insert(shares_.end(), found.begin(), found.end());
    at->second.second = static_cast<std::uint32_t>(shares_.size());
  }
  return at->second;
}

}  // namespace zplan
