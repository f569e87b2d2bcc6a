#include "planner/lower/optimizer.h"

#include "planner/program/step_scalars.h"

namespace zplan {
namespace {

// Read the next piece and write the last while one is updated. [derived]
constexpr std::int32_t kRingSlots = 2;

}  // namespace

Optimizer::Optimizer(Stage& stage, Parameters& parameters, Gradients& gradients)
    : s_(stage),
      parameters_(parameters),
      gradients_(gradients),
      master_(stage.layout.units.size()),
      moment1_(stage.layout.units.size()),
      moment2_(stage.layout.units.size()) {
  const bool sharded = s_.plan.zero_stage >= 1;
  for (UnitIndex u = 0; u < master_.size(); ++u) {
    if (!s_.holds(u)) continue;
    const Unit& unit = s_.layout.units[u];
    const std::int32_t copies = unit.per_layer ? s_.layers : 1;
    const auto add = [&](const char* prefix, DType dtype) {
      return s_.out.add(
          {.name = prefix + unit.name,
           .slot_size = size_of(dtype) * (sharded ? unit.shard_elements : unit.flat_elements),
           .slots = copies,
           .tier = s_.plan.placement.optimizer,
           .category = Category::kOptimizer,
           .dtype = dtype,
           .persistent = true,
           .unpadded = size_of(dtype) * unit.elements * copies,
           .shards = sharded ? s_.dp() : 1});
    };
    if (separate_master()) master_[u] = add("master.", s_.plan.precision.master);
    moment1_[u] = add("moment1.", s_.plan.precision.moments);
    moment2_[u] = add("moment2.", s_.plan.precision.moments);
  }
  host_scalars_ = scalar("scalars.host", Tier::kCpu, kStepScalarCount);
  scalars_ = scalar("scalars", Tier::kGpu, kStepScalarCount);
  sum_ = scalar("norm.sum", Tier::kGpu, 1);
  if (gradients_.tier() == Tier::kCpu) host_sum_ = scalar("norm.sum.host", Tier::kCpu, 1);
  clip_ = scalar("clip", Tier::kGpu, kClipScalarCount);
  if (on_host() || s_.is_last()) host_clip_ = scalar("clip.host", Tier::kCpu, kClipScalarCount);
}

View Optimizer::scalar(const char* name, Tier tier, std::int64_t n) {
  const BufferId id = s_.out.add({.name = name,
                                  .slot_size = size_of(DType::kF64) * n,
                                  .tier = tier,
                                  .category = Category::kInput,
                                  .dtype = DType::kF64,
                                  .persistent = true});
  return view_of(id, DType::kF64, {n});
}

std::vector<UnitHome> Optimizer::homes() const {
  const bool sharded = s_.plan.zero_stage >= 1;
  std::vector<UnitHome> result;
  for (UnitIndex u = 0; u < master_.size(); ++u) {
    if (!s_.holds(u)) continue;
    const StateHome param = parameters_.home(u);
    const StateHome master = separate_master() ? StateHome{master_[u], sharded} : param;
    result.push_back({u, param, master, {moment1_[u], sharded}, {moment2_[u], sharded}});
  }
  return result;
}

void Optimizer::begin_step() {
  s_.out.kernel({Phase::kBegin, Part::kScalars, Action::kCompute}, Lane::kCpu,
                KernelId::kStepScalars, {write(host_scalars_)});
  s_.out.copy({Phase::kBegin, Part::kScalars, Action::kUpload}, host_scalars_, scalars_);
}

// All units of the stage in a fixed order; the ordinal counts uses within each loop.
void Optimizer::for_each_unit(const std::function<void(UnitIndex, Ordinal)>& body) {
  for (UnitIndex u = 0; u < s_.layout.units.size(); ++u)
    if (s_.holds(u) && !s_.layout.units[u].per_layer) body(u, {});
  const auto per_layer = static_cast<std::int32_t>(s_.layout.layer_units.size());
  s_.out.repeat(s_.layers_up(), [&] {
    std::int32_t use = -per_layer * s_.first_layer;
    for (UnitIndex u : s_.layout.layer_units) body(u, {use++, per_layer});
  });
}

void Optimizer::emit() {
  gradients_.sum_tied_embedding();
  norm();
  for_each_unit([&](UnitIndex u, Ordinal ordinal) { update_unit(u, ordinal); });
}

void Optimizer::norm() {
  const auto role = [](Action action) { return Role{Phase::kUpdate, Part::kGradientNorm, action}; };
  const bool host = gradients_.tier() == Tier::kCpu && needs_norm();
  const View sum = host ? host_sum_ : sum_;
  const Lane lane = host ? Lane::kCpu : Lane::kCompute;
  s_.out.kernel(role(Action::kZero), lane, KernelId::kFillZero, {write(sum)});
  if (needs_norm())
    for_each_unit([&](UnitIndex u, Ordinal) {
      const bool second_copy = s_.layout.part[u] == Part::kEmbedding && !s_.is_first();
      if (second_copy) return;
      s_.out.kernel({Phase::kUpdate, s_.layout.part[u], Action::kSquare}, lane,
                    KernelId::kSumSquares, {gradients_.norm_piece(u), update(sum)});
    });
  if (host) s_.out.copy(role(Action::kUpload), host_sum_, sum_);
  if (needs_norm() && s_.dp() * s_.plan.parallel.pp > 1)
    s_.out.collective(role(Action::kReduce), Lane::kCommReduce, CollectiveKind::kAllReduce,
                      GroupKind::kWorld, sum_, sum_);
  s_.out.kernel(role(Action::kClip), Lane::kCompute, KernelId::kClipCoefficient,
                {read(sum_), read(scalars_), write(clip_)});
  if (on_host() || s_.is_last()) s_.out.copy(role(Action::kDownload), clip_, host_clip_);
}

View Optimizer::state(UnitIndex unit, BufferId buffer, DType dtype) const {
  const Unit& info = s_.layout.units[unit];
  const std::int64_t n = s_.plan.zero_stage >= 1 ? info.shard_elements : info.flat_elements;
  return update(view_of(buffer, dtype, {n}, info.per_layer ? s_.layer_slot() : SlotExpr{}));
}

// Staging between tiers, in the optimizer's tier.
View Optimizer::ring(std::optional<BufferId>& id, const char* name, DType dtype,
                     std::int64_t elements, Ordinal ordinal) {
  if (!id) {
    std::int64_t largest = 0;
    for (UnitIndex u = 0; u < s_.layout.units.size(); ++u)
      largest = std::max(largest, s_.plan.zero_stage >= 1 ? s_.layout.units[u].shard_elements
                                                          : s_.layout.units[u].flat_elements);
    id = s_.out.add({.name = name,
                     .slot_size = size_of(dtype) * largest,
                     .slots = kRingSlots,
                     .tier = s_.plan.placement.optimizer,
                     .category = Category::kGathered,
                     .dtype = dtype});
  }
  return view_of(*id, dtype, {elements}, ordinal.slot());
}

void Optimizer::update_unit(UnitIndex unit, Ordinal ordinal) {
  const Unit& info = s_.layout.units[unit];
  const Part part = s_.layout.part[unit];
  const PrecisionRecipe& recipe = s_.plan.precision;
  const bool whole = s_.plan.zero_stage == 0;
  const Lane lane = on_host() ? Lane::kCpu : Lane::kCompute;

  View gradient = gradients_.piece(unit);
  if (on_host() && gradients_.tier() == Tier::kGpu) {
    const View staged =
        ring(gradient_ring_, "staged.gradient", recipe.grad, gradient.shape.elements(), ordinal);
    s_.out.copy({Phase::kUpdate, part, Action::kDownload}, gradient, staged);
    gradient = staged;
  }
  const View home = parameters_.piece(unit);
  const View moment1 = state(unit, moment1_[unit], recipe.moments);
  const View moment2 = state(unit, moment2_[unit], recipe.moments);
  const View scalars = read(on_host() ? host_scalars_ : scalars_);
  const View clip = read(on_host() ? host_clip_ : clip_);
  const Role adam{Phase::kUpdate, part, Action::kAdam};
  const Attributes attributes{0, whole ? 0 : info.shard_elements, info.decay_elements};
  const bool crosses = s_.plan.placement.optimizer != s_.plan.placement.params;
  if (!separate_master()) {
    s_.out.kernel(adam, lane, KernelId::kAdamW,
                  {update(home), moment1, moment2, read(gradient), scalars, clip}, attributes);
  } else {
    const View master = state(unit, master_[unit], recipe.master);
    const View target = crosses ? ring(parameter_ring_, "staged.parameter", recipe.param,
                                       home.shape.elements(), ordinal)
                                : home;
    s_.out.kernel(adam, lane, KernelId::kAdamW,
                  {master, moment1, moment2, read(gradient), scalars, clip, write(target)},
                  attributes);
    if (crosses)
      s_.out.copy({Phase::kUpdate, part, on_host() ? Action::kUpload : Action::kDownload}, target,
                  home);
  }
  const bool gathers = s_.dp() > 1 && (s_.plan.zero_stage == 1 || s_.plan.zero_stage == 2);
  if (gathers) {
    View full = home;
    full.dp_stride = {0};
    full.shape = {info.flat_elements};
    s_.out.collective({Phase::kUpdate, part, Action::kGather}, Lane::kCommGather,
                      CollectiveKind::kAllGather, GroupKind::kData, home, full);
  }
}

}  // namespace zplan
