#include "planner/cost/tier_traffic.h"

#include <array>
#include <map>
#include <optional>
#include <utility>

#include "planner/cost/step_totals.h"
#include "planner/program/job/model_end.h"

namespace zplan {
namespace {

constexpr std::string_view kStateNames[] = {"parameters, gradients", "optimizer states",
                                            "activations"};
constexpr std::string_view kHopNames[] = {"between GPUs", "GPU - CPU", "CPU - NVMe", "CPU memory"};

Tier tier_of(const Program& program, const View& view) { return program.buffers[view.buffer].tier; }

bool is_gather_or_sum(const Node& node) {
  return node.kind == OpKind::kCollective &&
         (node.lane == Lane::kCommGather || node.lane == Lane::kCommReduce);
}

// Nothing for what moves between no tiers, or within the device.
std::optional<Hop> hop_of(const Program& program, const Node& node) {
  if (is_gather_or_sum(node)) return Hop::kGpus;
  if (node.kind == OpKind::kKernel && is_host(node.lane)) return Hop::kCpuMemory;
  if (node.kind != OpKind::kCopy) return std::nullopt;
  const std::span<const View> views = program.operands(node);
  const Tier from = tier_of(program, views[0]), to = tier_of(program, views[1]);
  if (from == Tier::kNvme || to == Tier::kNvme) return Hop::kCpuNvme;
  if (from == to) return from == Tier::kCpu ? std::optional(Hop::kCpuMemory) : std::nullopt;
  return Hop::kGpuCpu;
}

std::optional<MovedState> state_of(const Node& node) {
  switch (node.role.part) {
    case Part::kBatch:
    case Part::kEncoderTokens:
    case Part::kImageRows:
    case Part::kScalars:
    case Part::kLoss:
    case Part::kGradientNorm:
      return std::nullopt;
    case Part::kBoundary:
    case Part::kKeptOnCpu:
    case Part::kKeptOnNvme:
      return MovedState::kActivations;
    default:
      break;
  }
  const bool of_update = node.role.phase == Phase::kNorm || node.role.phase == Phase::kUpdate ||
                         node.role.phase == Phase::kEnd;
  return of_update && !is_gather_or_sum(node) ? MovedState::kOptimizer : MovedState::kParameters;
}

// Whether the bytes come nearer to the GPU; of collectives, whether they are gathered.
bool comes_nearer(const Program& program, const Node& node) {
  if (is_gather_or_sum(node)) return node.lane == Lane::kCommGather;
  const std::span<const View> views = program.operands(node);
  return tier_of(program, views[1]) < tier_of(program, views[0]);
}

// A kernel or copy with a group is done by one of its ranks: each has so large a share on average.
double share_of_rank(const Job& job, const Node& node) {
  const bool by_one = node.kind == OpKind::kKernel || node.kind == OpKind::kCopy;
  return by_one ? 1.0 / job.mesh.size(node.group) : 1;
}

double sent(const Job& job, const Program& program, const Node& node) {
  const std::span<const View> views = program.operands(node);
  if (node.kind == OpKind::kCopy) return static_cast<double>(views[0].bytes().value);
  const int ranks = job.mesh.size(node.group);
  if (ranks == 1) return 0;
  const Bytes full = std::max(views[0].bytes(), views[1].bytes());
  return static_cast<double>(sent_bytes(node.collective, full, ranks).value);
}

// Kernels on the host and copies within it read and write: their bytes count half each way.
void add_bytes(const Job& job, const Program& program, const Node& node, double times,
               TierTraffic& sum) {
  if (node.kind == OpKind::kKernel) {
    const double bytes = static_cast<double>(demand_of(program, node).bytes.value) * times;
    sum.nearer += bytes / 2;
    sum.farther += bytes / 2;
    return;
  }
  const double bytes = sent(job, program, node) * times;
  const bool within =
      tier_of(program, program.operands(node)[0]) == tier_of(program, program.operands(node)[1]);
  const bool both_ways = within && node.kind == OpKind::kCopy;
  if (both_ways || comes_nearer(program, node)) sum.nearer += bytes;
  if (both_ways || !comes_nearer(program, node)) sum.farther += bytes;
}

// The link that leaves the transfer the least rate.
const CostLink* slowest_link(const CostModel& model, const OpCost& cost) {
  const CostLink* slowest = nullptr;
  double least = 0;
  for (const LinkShare& share : model.shares(cost)) {
    const CostLink& link = model.links()[share.link];
    const double rate = link.capacity.value / share.weight;
    if (slowest == nullptr || rate < least) std::tie(slowest, least) = std::pair(&link, rate);
  }
  return slowest;
}

double flops_of(const Job& job, const Program& program,
                const std::vector<std::int64_t>& instances) {
  double flops = 0;
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    if (program.nodes[i].kind != OpKind::kKernel) continue;
    const Demand demand = demand_of(program, program.nodes[i]);
    if (!multiplies(demand.kind)) continue;
    flops += static_cast<double>(demand.flops.value) * static_cast<double>(instances[i]) *
             share_of_rank(job, program.nodes[i]);
  }
  return flops;
}

using ByStateAndHop = std::array<std::array<TierTraffic, kHopCount>, kMovedStateCount>;

ByStateAndHop traffic_of_stage(const CostModel& model, int stage, Seconds compute) {
  const Job& job = model.job();
  const Program& program = job.classes[static_cast<std::size_t>(stage)].program;
  const std::vector<std::int64_t> instances = instances_per_step(program);
  ByStateAndHop sums;
  std::map<TierTraffic*, std::pair<double, const CostLink*>> limits;
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    const std::optional<Hop> hop = hop_of(program, node);
    const std::optional<MovedState> state = state_of(node);
    if (!hop || !state) continue;
    TierTraffic& sum = sums[static_cast<std::size_t>(*state)][static_cast<std::size_t>(*hop)];
    const OpCost& cost = model.costs(stage)[i];
    const auto times = static_cast<double>(instances[i]);
    add_bytes(job, program, node, times * share_of_rank(job, node), sum);
    const SimTime moving = cost.bytes.value > 0 ? cost.alone - cost.fixed : cost.alone;
    const double seconds = to_seconds(moving).value * times;
    sum.busy += Seconds{seconds};
    auto& [most, link] = limits[&sum];
    if (seconds > most) most = seconds, link = slowest_link(model, cost);
  }
  const double flops = flops_of(job, program, instances);
  for (std::size_t s = 0; s < sums.size(); ++s) {
    for (std::size_t h = 0; h < sums[s].size(); ++h) {
      TierTraffic& sum = sums[s][h];
      sum.state = static_cast<MovedState>(s);
      sum.hop = static_cast<Hop>(h);
      sum.stage = stage;
      sum.flops = flops;
      sum.compute = compute;
      sum.ranks_in_node = model.place(stage).members;
      if (const auto at = limits.find(&sum); at != limits.end() && at->second.second != nullptr)
        sum.link = *at->second.second;
    }
  }
  return sums;
}

// What `counts` says of the operations of layers, over a step.
template <typename Counts>
double sum_of_layers(const Program& program, const Counts& counts) {
  const std::vector<std::int64_t> instances = instances_per_step(program);
  double sum = 0;
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    if (model_end_of(node.role.part) == ModelEnd::kNone)
      sum += counts(node) * static_cast<double>(instances[i]);
  }
  return sum;
}

// Parameters of a stage's layers: where they are kept, elements of one rank, and of all ranks that
// share them.
struct LayerParameters {
  Tier tier = Tier::kGpu;
  double own = 0, whole = 0;
};

LayerParameters layer_parameters(const Job& job, int stage) {
  const RankClass& rank_class = job.classes[static_cast<std::size_t>(stage)];
  LayerParameters found;
  for (const UnitHome& home : rank_class.homes) {
    if (!job.units[home.unit].per_layer) continue;
    for (const BufferId id : home.param.buffers()) {
      const Buffer& buffer = rank_class.program.buffers[id];
      const auto elements = static_cast<double>(
          job.piece_elements(job.units[home.unit], home.param.shards) * buffer.slots);
      found.tier = buffer.tier;
      found.own += elements;
      found.whole += elements * job.mesh.size(home.param.shards);
    }
  }
  return found;
}

bool is_pass(const Node& node) {
  const Phase phase = node.role.phase;
  return phase == Phase::kForward || phase == Phase::kRecompute || phase == Phase::kBackward;
}

double per_micro_step(double elements, double of, const Job& job) {
  return of > 0 ? elements / of / static_cast<double>(job.micro_steps) : 0;
}

}  // namespace

std::string_view name(MovedState state) { return kStateNames[static_cast<std::size_t>(state)]; }
std::string_view name(Hop hop) { return kHopNames[static_cast<std::size_t>(hop)]; }

std::vector<TierTraffic> tier_traffic(const CostModel& model) {
  const StepTotals totals = step_totals(model);
  ByStateAndHop most;
  for (int stage = 0; stage < static_cast<int>(totals.classes.size()); ++stage) {
    const ClassTotals& own = totals.classes[static_cast<std::size_t>(stage)];
    const Seconds compute = to_seconds(own.lane[static_cast<std::size_t>(Lane::kCompute)]);
    const ByStateAndHop found = traffic_of_stage(model, stage, compute);
    for (std::size_t s = 0; s < found.size(); ++s) {
      for (std::size_t h = 0; h < found[s].size(); ++h) {
        const TierTraffic &one = found[s][h], &other = most[s][h];
        const bool has_more = one.bytes() * other.flops > other.bytes() * one.flops;
        if (one.bytes() > 0 && (other.bytes() == 0 || has_more)) most[s][h] = one;
      }
    }
  }
  std::vector<TierTraffic> traffic;
  for (const auto& hops : most)
    for (const TierTraffic& one : hops)
      if (one.bytes() > 0) traffic.push_back(one);
  return traffic;
}

const TierTraffic* longest(const std::vector<TierTraffic>& traffic, Hop hop) {
  const TierTraffic* found = nullptr;
  for (const TierTraffic& one : traffic)
    if (one.hop == hop && (found == nullptr || one.busy > found->busy)) found = &one;
  return found;
}

std::vector<CopiedBytes> copied_per_step(const Job& job) {
  std::array<TierTraffic, kHopCount> sums;
  for (const RankClass& c : job.classes) {
    const std::vector<std::int64_t> instances = instances_per_step(c.program);
    for (std::size_t i = 0; i < instances.size(); ++i) {
      const Node& node = c.program.nodes[i];
      const std::optional<Hop> hop = hop_of(c.program, node);
      if (!hop || !state_of(node) || node.kind != OpKind::kCopy) continue;
      const double times = static_cast<double>(instances[i]) * share_of_rank(job, node);
      add_bytes(job, c.program, node, times * job.replicas(), sums[static_cast<std::size_t>(*hop)]);
    }
  }
  std::vector<CopiedBytes> copied;
  for (const Hop hop : {Hop::kGpuCpu, Hop::kCpuNvme})
    if (const TierTraffic& sum = sums[static_cast<std::size_t>(hop)]; sum.bytes() > 0)
      copied.push_back({hop, sum.nearer, sum.farther});
  return copied;
}

double parameter_loads(const Job& job, int stage) {
  const Program& program = job.classes[static_cast<std::size_t>(stage)].program;
  const LayerParameters parameters = layer_parameters(job, stage);
  const bool at_home = parameters.tier == Tier::kGpu;
  const double elements = sum_of_layers(program, [&](const Node& node) {
    if (!is_pass(node) || state_of(node) != MovedState::kParameters) return 0.0;
    const std::span<const View> views = program.operands(node);
    const bool loads = at_home
                           ? is_gather_or_sum(node) && node.lane == Lane::kCommGather
                           : hop_of(program, node) == Hop::kGpuCpu && comes_nearer(program, node);
    if (!loads) return 0.0;
    const View& loaded = at_home ? views[1] : views[0];
    return static_cast<double>(loaded.shape.elements()) * share_of_rank(job, node);
  });
  return per_micro_step(elements, at_home ? parameters.whole : parameters.own, job);
}

double gradient_stores(const Job& job, int stage) {
  const Program& program = job.classes[static_cast<std::size_t>(stage)].program;
  const double elements = sum_of_layers(program, [&](const Node& node) {
    if (!is_pass(node) || state_of(node) != MovedState::kParameters) return 0.0;
    if (hop_of(program, node) != Hop::kGpuCpu || comes_nearer(program, node)) return 0.0;
    return static_cast<double>(program.operands(node)[0].shape.elements()) *
           share_of_rank(job, node);
  });
  return per_micro_step(elements, layer_parameters(job, stage).own, job);
}

}  // namespace zplan
