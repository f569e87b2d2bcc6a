#include "planner/search/stack_memory_use.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "hwprofiles/memory_quantity.h"
#include "planner/cost/module_kernels.h"
#include "planner/place/held_besides.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

using enum MemoryQuantity;

constexpr double kOneSided95 = 1.645;
// [assumed] of context, communicators and workspaces of a device: none has been measured
constexpr double kReserveUncertainty = 0.2;
// [assumed] of what an allocator reserves: streams of communication have pools of their own, which
// are not replayed
constexpr double kCacheUncertainty = 0.04;

double square(double x) { return x * x; }
double number(Bytes bytes) { return static_cast<double>(bytes.value); }
Bytes rounded(double bytes) { return {std::llround(bytes)}; }

bool has_kernel(const Program& program, KernelId kernel) {
  return std::any_of(program.nodes.begin(), program.nodes.end(), [&](const Node& node) {
    return node.kind == OpKind::kKernel && node.kernel == kernel;
  });
}

// Groups that collectives and transfers between stages of the class meet in.
std::int32_t communicators_of(const Job& job, const Program& program) {
  std::set<Group> groups;
  bool between_stages = false;
  for (const Node& node : program.nodes) {
    if (node.kind == OpKind::kCollective && job.mesh.size(node.group) > 1)
      groups.insert(node.group);
    between_stages |= is_transfer(node.kind);
  }
  return static_cast<std::int32_t>(groups.size()) + (between_stages ? 1 : 0);
}

// What a stack holds on the devices of a Job's kernel set.
class Held {
 public:
  Held(const Job& job, const RankClass& own, const Cluster& cluster)
      : job_(job),
        own_(own),
        cluster_(cluster),
        memory_(cluster.memory),
        capability_(find_kernel_set(job.kernel_set).capability) {}

  double at(MemoryQuantity q) const { return memory_.at(q, capability_); }

  HeldBesides besides() const {
    if (!memory_.given) return {};
    return {.always = rounded(at(kLibraries) + at(kOverlapLibraries) + grouped_libraries() +
                              buckets() + reducer() + token_pairs() + weight_codes()),
            .loss = at(kLoss),
            .residual = has_kernel(own_.program, KernelId::kDropoutResidualAdd) ? 0 : at(kResidual),
            .attention = at(kAttention),
            .update = at(update_quantity()),
            .gradients_stay = at(kGradientsStay) > 0,
            .own_workspace = !memory_.has(kLibraries),
            .rms_norm = at(kRmsNorm),
            .gated = at(kGated),
            .gelu = at(kGelu),
            .scores = in_fp32(kScores),
            .repeated = at(kRepeated),
            .passes = in_fp32(kPasses),
            .fused_qkv = at(kFusedQkv),
            .ends_stay = at(kEndsStay) > 0,
            .gather = at(kGather),
            .reduced_stay = at(kReducedStay) > 0,
            .early_weights = at(kEarlyWeights) > 0,
            .gather_buffers = static_cast<std::int32_t>(at(kGatherBuffers)),
            .update_gather = at(kUpdateGather),
            .launches = launches(),
            .queue = static_cast<double>(cluster_.node.device.launch_queue_depth),
            .gives_back = at(kGivesBack) > 0};
  }

  // Of the bytes from the allocator.
  double variance(const ReplayedMemory& replay) const {
    const auto part = [&](double bytes, MemoryQuantity q) {
      return square(bytes * memory_[q].uncertainty);
    };
    const auto held = [&](Holder holder) {
      return number(replay.at_peak[static_cast<std::size_t>(holder)]);
    };
    return part(at(kLibraries), kLibraries) + part(at(kOverlapLibraries), kOverlapLibraries) +
           part(buckets(), kBuckets) + part(reducer(), kReducer) +
           part(token_pairs(), kTokenPairs) + part(weight_codes(), kWeightCodes) +
           part(held(Holder::kLoss), kLoss) + part(held(Holder::kResidual), kResidual) +
           part(held(Holder::kAttention), kAttention) + of_modules(held) +
           part(held(Holder::kUpdate), update_quantity()) +
           part(grouped_libraries(), kGroupedLibraries) +
           square(held(Holder::kExperts) * at(kUnevenExperts)) +
           square(number(replay.live) * at(kResidualError));
  }

 private:
  // Of what modules keep, by holder.
  template <typename HeldBytes>
  double of_modules(const HeldBytes& held) const {
    constexpr std::pair<Holder, MemoryQuantity> kOf[] = {
        {Holder::kRmsNorm, kRmsNorm},   {Holder::kGated, kGated},
        {Holder::kGelu, kGelu},         {Holder::kScores, kScores},
        {Holder::kRepeated, kRepeated}, {Holder::kPasses, kPasses},
        {Holder::kEnds, kEndsStay},     {Holder::kGather, kGather},
        {Holder::kFusedQkv, kFusedQkv}};
    double sum = 0;
    for (const auto& [holder, quantity] : kOf)
      sum += square(held(holder) * memory_[quantity].uncertainty);
    return sum;
  }
  double grouped_libraries() const {
    const bool any = has_kernel(own_.program, KernelId::kGroupedForward) ||
                     has_kernel(own_.program, KernelId::kGroupedLinearForward);
    return any ? at(kGroupedLibraries) : 0;
  }
  // Matrices of layers that a gather brings are cast anew. Codes with blocks along rows exist both
  // ways, whatever the device can transpose [TransformerEngine].
  double weight_codes() const {
    const KernelSet& kernels = find_kernel_set(job_.kernel_set);
    if (kernels.layer_products != LayerProducts::kFp8 || at(kWeightCodes) == 0) return 0;
    double elements = 0;
    for (const UnitHome& home : own_.homes) {
      const Unit& unit = job_.units[home.unit];
      if (!unit.per_layer || !home.param.shards.empty()) continue;
      elements +=
          static_cast<double>(unit.decay_elements) * own_.program.buffers[home.param.buffer].slots;
    }
    constexpr std::int64_t kRow = 1 << 20;  // a row so long that its scales count as in any
    const double bytes = number(kernels.codes.row_bytes(kRow)) / kRow;
    constexpr double kBothWays = 2;
    return elements * bytes * (kernels.codes.block > 0 ? kBothWays : at(kWeightCodes));
  }
  // Gradients that are cut over ranks or go to the host do so through buckets.
  double buckets() const {
    const auto& buffers = own_.program.buffers;
    const bool leave = std::any_of(buffers.begin(), buffers.end(), [](const Buffer& buffer) {
      return buffer.category == Category::kGradients &&
             (buffer.shards > 1 || buffer.tier != Tier::kGpu);
    });
    return leave ? at(kBuckets) + unit_buckets() : 0;
  }
  // Of the mean unit of a layer.
  double unit_buckets() const {
    double elements = 0, units = 0;
    bool is_sharded = false;
    for (const UnitHome& home : own_.homes) {
      if (!job_.units[home.unit].per_layer) continue;
      elements += static_cast<double>(job_.units[home.unit].elements);
      units += 1;
      is_sharded |= !home.param.shards.empty();
    }
    const double each = at(is_sharded ? kUnitBuckets : kWholeUnitBuckets);
    return units == 0 ? 0 : each * elements / units;
  }
  // Buckets hold the gradients that ranks with copies of them sum while backward runs.
  double reducer() const {
    const bool sums =
        std::any_of(own_.program.nodes.begin(), own_.program.nodes.end(), [](const Node& node) {
          return node.kind == OpKind::kCollective && node.role.phase == Phase::kBackward &&
                 node.role.action == Action::kReduce;
        });
    const bool is_sharded = update_quantity() == kUpdateShard;
    return sums && !is_sharded ? at(kReducer) * static_cast<double>(updated_parameters(own_)) : 0;
  }
  // Kernels that each node starts on the device.
  std::vector<double> launches() const {
    std::vector<double> each;
    if (at(kCollectivesLag) <= 0) return each;
    for (const Node& node : own_.program.nodes)
      each.push_back(node.kind == OpKind::kKernel
                         ? module_kernels(node.kernel, cluster_.stack.modules).launches
                         : 1);
    return each;
  }
  // Of softmax, which modules with LayerNorms work out in 16 bits.
  double in_fp32(MemoryQuantity q) const {
    return has_kernel(own_.program, KernelId::kRmsNormForward) ? at(q) : 0;
  }
  double token_pairs() const {
    const auto tokens = static_cast<double>(job_.sequence);
    return at(kTokenPairs) * static_cast<double>(job_.micro_batch) * tokens * tokens;
  }
  MemoryQuantity update_quantity() const {
    const bool sharded =
        std::any_of(own_.homes.begin(), own_.homes.end(),
                    [](const UnitHome& home) { return !home.updated().shards.empty(); });
    return sharded ? kUpdateShard : kUpdateWhole;
  }

  const Job& job_;
  const RankClass& own_;
  const Cluster& cluster_;
  const StackMemory& memory_;
  int capability_;
};

MemoryEstimate estimate(double central, double variance) {
  return {rounded(central), rounded(central + kOneSided95 * std::sqrt(variance))};
}

// A shift holds what a measured run adds to each figure of a GPU that needs `needed` bytes.
struct Shift {
  Shift(const std::optional<MeasuredMemory>& measured, double needed) {
    if (!measured) return;
    const double offset = number(measured->offset);
    device = offset;
    if (measured->reading != MemoryReading::kDevice) reserved = offset;
    if (measured->reading == MemoryReading::kAllocated) allocated = offset;
    growth = needed / number(measured->predicted) - 1;
  }
  double variance_of(double offset) const { return square(offset * growth); }
  double allocated = 0, reserved = 0, device = 0;  // bytes
  double growth = 0;                               // over the measured plan
};

}  // namespace

Bytes measured_reserve(const StackMemory& memory) {
  if (!memory.measured) return {0};
  return memory.given ? std::min(memory.measured->offset, Bytes{0}) : memory.measured->offset;
}

Bytes reserve_margin(const DeviceProfile& device) {
  return rounded(kOneSided95 * kReserveUncertainty * number(device.reserve()));
}

StackMemoryUse stack_memory_use(const Job& job, std::size_t rank_class, const Cluster& cluster) {
  const RankClass& own = job.classes[rank_class];
  const DeviceProfile& device = cluster.node.device;
  const StackMemory& memory = cluster.memory;
  const Held held(job, own, cluster);
  StackMemoryUse use;
  use.stage = own.stage;
  use.replay = replay_allocator(job, rank_class, held.besides(), memory.says(kExpandable));
  use.communicators = communicators_of(job, own.program);
  use.context = memory.has(kContext) ? rounded(held.at(kContext)) : device.reserve_context;
  use.communicator_bytes = memory.has(kCommunicator)
                               ? rounded(held.at(kCommunicator) * use.communicators)
                               : device.reserve_communicators;
  const Bytes slab = own.placement.slab[static_cast<std::size_t>(Tier::kGpu)];
  double allocated = number(slab + device.reserve_workspace);
  double reserved = allocated, least = allocated;
  double variance = square(kReserveUncertainty * number(device.reserve_workspace));
  if (memory.given && use.replay) {
    allocated = number(use.replay->allocated);
    reserved = number(use.replay->reserved);
    least = number(use.replay->least);
    variance = held.variance(*use.replay);
  }
  if (memory.graphs) {
    allocated += number(*memory.graphs);
    reserved += number(*memory.graphs);
    least = reserved;
  }
  const double beside = number(use.context + use.communicator_bytes);
  const Shift shift(memory.measured, least + beside);
  const double all =
      variance + square(kReserveUncertainty * beside) + shift.variance_of(shift.device);
  reserved += shift.reserved;
  least += shift.device;
  use.allocated =
      estimate(allocated + shift.allocated, variance + shift.variance_of(shift.allocated));
  const double cached = memory.given ? square(kCacheUncertainty * reserved) : 0;
  use.reserved = estimate(reserved, variance + cached + shift.variance_of(shift.reserved));
  use.device = estimate(least + beside, memory.graphs ? all + cached : all);
  // An allocator gives back what it only caches before the device runs out [PyTorch].
  const double most = std::max(number(device.memory), least + beside);
  const double shown = reserved + beside + shift.device - shift.reserved;
  use.shown = estimate(std::min(shown, most), all + cached);
  return use;
}

StackMemoryUse stack_memory_use(const Job& job, const Cluster& cluster) {
  constexpr auto kGpu = static_cast<std::size_t>(Tier::kGpu);
  std::size_t fullest = 0;
  for (std::size_t i = 1; i < job.classes.size(); ++i)
    if (job.classes[i].placement.slab[kGpu] > job.classes[fullest].placement.slab[kGpu])
      fullest = i;
  StackMemoryUse use = stack_memory_use(job, fullest, cluster);
  const std::size_t last = job.classes.size() - 1;
  if (last == fullest || !cluster.memory.given) return use;
  StackMemoryUse other = stack_memory_use(job, last, cluster);
  return other.device.bound > use.device.bound ? other : use;
}

std::optional<Infeasible> check_stack(const StackMemoryUse& use, const Cluster& cluster) {
  const Bytes memory = cluster.node.device.memory;
  const Bytes headroom = rounded(cluster.headroom * number(memory));
  const Bytes needed = std::max(use.device.bound, use.device.central + headroom);
  if (!cluster.memory.given || needed <= memory) return std::nullopt;
  Infeasible why;
  why.tier = Tier::kGpu;
  why.needed = needed;
  why.available = memory;
  why.peak_op = "in the allocator of the stack";
  return why;
}

}  // namespace zplan
