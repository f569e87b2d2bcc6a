#include "planner/lower/optimizer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "planner/lower/adafactor.h"
#include "planner/program/step_scalars.h"

namespace zplan {
namespace {

// One piece on its way while one is used. [derived]
constexpr std::int32_t kRingSlots = 2;

// In the order of the operands of the kernels that update.
constexpr OptimizerStates::State kUpdated[] = {OptimizerStates::kMaster, OptimizerStates::kMoment1,
                                               OptimizerStates::kMoment2, OptimizerStates::kScale1,
                                               OptimizerStates::kScale2};

ModelStates all_states() { return {std::begin(kModelStates), std::end(kModelStates)}; }

}  // namespace

Optimizer::Optimizer(Stage& stage, Parameters& parameters, Gradients& gradients)
    : s_(stage),
      parameters_(parameters),
      gradients_(gradients),
      transfers_(stage),
      states_(stage),
      choice_bias_(stage) {
  if (s_.plan.delayed_update) delayed_.emplace(stage, parameters, gradients);
  host_scalars_ = scalar("scalars.host", Tier::kCpu, kStepScalarCount);
  scalars_ = scalar("scalars", Tier::kGpu, kStepScalarCount);
  sum_ = scalar("norm.sum", Tier::kGpu, 1);
  if (gradients_.leave_gpu() || states_.has(OptimizerStates::kMainGradient))
    host_sum_ = scalar("norm.sum.host", Tier::kCpu, 1);
  clip_ = scalar("clip", Tier::kGpu, kClipScalarCount);
  if (uses_host() || s_.is_last() || s_.plan.loss_scaling)
    host_clip_ = scalar("clip.host", Tier::kCpu, kClipScalarCount);
  if (s_.plan.loss_scaling) loss_scale_ = scalar("loss_scale", Tier::kCpu, kLossScaleStateCount);
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
  using enum OptimizerBuffers::State;
  std::vector<UnitHome> result;
  for (UnitIndex u = 0; u < s_.layout.units.size(); ++u) {
    if (!s_.holds(u)) continue;
    const StateHome param = parameters_.home(u);
    UnitHome home{u, param, param, parameters_.scale_homes(u), !s_.layout.trained[u]};
    if (s_.layout.coded[u]) home.codes = s_.plan.train.is_fp4() ? Codes::kFp4 : Codes::kNf4;
    for (const State state : kUpdated) {
      if (!states_.has(u, state) || states_.is_factored(u, state)) continue;
      if (state == kMaster) {
        home.master = states_.home(u, state);
      } else {
        home.moments.push_back(states_.home(u, state));
      }
    }
    result.push_back(std::move(home));
  }
  return result;
}

// The loss scale follows the finiteness of the last step's norm.
void Optimizer::take_scalars(Phase phase, const Attributes& attributes) {
  const Role role{phase, Part::kScalars, Action::kCompute};
  if (s_.plan.loss_scaling) {
    s_.out.kernel(role, Lane::kCpu, KernelId::kStepScalars,
                  {write(host_scalars_), read(host_clip_), update(loss_scale_)}, attributes);
  } else {
    s_.out.kernel(role, Lane::kCpu, KernelId::kStepScalars, {write(host_scalars_)}, attributes);
  }
  s_.out.copy({phase, Part::kScalars, Action::kUpload}, host_scalars_, scalars_);
}

void Optimizer::begin_update(std::int32_t micro_batches) {
  s_.named_by_chunk([&] { take_scalars(Phase::kUpdate, {micro_batches, s_.plan.updates()}); });
}

void Optimizer::begin_step() {
  take_scalars(Phase::kBegin, {s_.plan.updates_late() ? 1 : 0});
  choice_bias_.begin_step();
  if (is_beside_backward()) {
    norm(Phase::kBegin);
    s_.for_each_unit_outside_layers([&](UnitIndex u, Ordinal ordinal) {
      if (is_apart(u)) brought_[u] = bring_states(u, ordinal);
    });
  }
  if (!delayed_) return;
  s_.for_each_unit(
      [&](UnitIndex u, Ordinal ordinal) {
        const States states = bring_states(u, ordinal);
        update_with(u, states, delayed_->gradient(u), delayed_->target(u), ordinal);
        send_states(u, states, ordinal);
      },
      {ModelState::kOptimizer});
}

void Optimizer::emit() {
  gradients_.sum_tied();
  if (!is_beside_backward()) norm(Phase::kUpdate);
  const auto finish = [&](UnitIndex u, Ordinal ordinal) { finish_unit(u, ordinal); };
  s_.for_each_unit_outside_layers(finish);
  if (!is_beside_backward()) s_.for_each_layer_unit(finish, all_states());
  s_.for_each_unit_outside_layers([&](UnitIndex u, Ordinal ordinal) {
    if (is_apart(u)) send_states(u, brought_.at(u), ordinal);
  });
  if (!s_.plan.overlap.parameters && gathers()) gather_apart();
}

// In the order of backward.
std::vector<UnitIndex> Optimizer::units_of(const UnitLoop& loop) const {
  const std::int32_t layer = loop.first * s_.unit_layers();
  std::vector<UnitIndex> result;
  for (const UnitIndex u : s_.layout.layer_units) {
    const LayerRange& own = s_.layout.units[u].layers;
    const bool has = own.count == 0 || (own.first <= layer && layer < own.end());
    if (has && s_.layout.trained[u]) result.push_back(u);
  }
  std::reverse(result.begin(), result.end());
  return result;
}

void Optimizer::update_layers(const UnitLoop& loop, std::int32_t iterations_ago) {
  s_.enter(loop);
  const std::vector<UnitIndex> units = units_of(loop);
  std::int32_t per_unit = 0;
  for (const UnitIndex u : units) per_unit += s_.layout.units[u].tiles;
  const std::int32_t last = loop.first + loop.count * loop.together - 1;
  const std::int32_t from = iterations_ago * loop.together;
  for (std::int32_t ahead = from + loop.together - 1; ahead >= from; --ahead) {
    std::int32_t use = per_unit * (last - ahead);
    for (const UnitIndex u : units) {
      const Unit& unit = s_.layout.units[u];
      s_.out.set_member(ahead * s_.unit_layers() + unit.tensors.front().member);
      s_.each_tile(unit.tiles, [&] { finish_unit(u, {use, -per_unit, unit.tiles > 1 ? 1 : 0}); });
      use += unit.tiles;
    }
  }
  s_.out.set_member(0);
}

void Optimizer::finish_unit(UnitIndex unit, Ordinal ordinal) {
  if (delayed_) {
    delayed_->hold(unit);
    delayed_->publish(unit, ordinal);
  } else {
    update_unit(unit, ordinal);
  }
  if (s_.plan.overlap.parameters) gather(unit);
}

Ring Optimizer::ring(const char* name, DType dtype) const {
  std::int64_t largest = 0;
  for (UnitIndex u = 0; u < s_.layout.units.size(); ++u)
    largest = std::max(largest, states_.elements(u));
  return {name, size_of(dtype) * largest, kRingSlots};
}

// On their way to the GPU and to the host pieces go through rings of their own.
Ring Optimizer::update_ring(const char* name, DType dtype, UnitIndex unit) const {
  Ring own = ring(name, dtype);
  if (uses_host() && !on_host(unit)) own.name = "near." + own.name;
  return own;
}

// What the squares of a unit are of lies there or is brought there.
bool Optimizer::sums_on_host(UnitIndex unit) const {
  if (!needs_norm()) return false;
  return states_.has(OptimizerStates::kMainGradient) ? on_host(unit)
                                                     : gradients_.tier(unit) != Tier::kGpu;
}

void Optimizer::norm(Phase phase) {
  const auto role = [&](Action action) { return Role{phase, Part::kGradientNorm, action}; };
  const bool takes = states_.has(OptimizerStates::kMainGradient);
  bool host = needs_norm() && (takes ? uses_host() : gradients_.leave_gpu());
  const auto sum = [&] { return host ? host_sum_ : sum_; };
  const auto lane = [&] { return host ? Lane::kCpu : Lane::kCompute; };
  // To where the squares of the unit are added up.
  const auto move_to = [&](UnitIndex u) {
    const View from = sum();
    host = !host;
    const Action action = host ? Action::kDownload : Action::kUpload;
    s_.out.copy({Phase::kNorm, s_.layout.part[u], action}, from, sum());
  };
  const auto begin_loop = [&](UnitIndex u) {
    if (sums_on_host(u) == host) return;
    if (s_.layout.units[u].per_layer) s_.out.set_member(s_.first_of_loop * s_.unit_layers());
    move_to(u);
    s_.out.set_member(0);
  };
  named([&] { s_.out.kernel(role(Action::kZero), lane(), KernelId::kFillZero, {write(sum())}); });
  const auto add = [&](UnitIndex u, Ordinal ordinal) {
    const View gradient =
        takes ? take_main_gradient(u, ordinal) : gradient_for_norm(u, host, ordinal);
    if (needs_norm()) square(u, gradients_.norm_part(u, gradient), sum(), lane());
  };
  ModelStates states{ModelState::kGradients};
  if (takes) states.push_back(ModelState::kOptimizer);
  if (needs_norm() || (takes && !is_beside_backward())) s_.for_each_unit(add, states, begin_loop);
  named([&] { take_clip(phase, host); });
}

// Where chunks update by themselves each has a norm, and loops over its units end without a name.
void Optimizer::named(const std::function<void()>& emit) {
  if (s_.updates_each) return s_.named_by_chunk(emit);
  emit();
}

// From the sum, which may be on the host.
void Optimizer::take_clip(Phase phase, bool host) {
  const auto role = [&](Action action) { return Role{phase, Part::kGradientNorm, action}; };
  if (host) s_.out.copy(role(Action::kUpload), host_sum_, sum_);
  if (needs_norm() && s_.mesh.world() > 1)
    s_.out.collective(role(Action::kReduce), Lane::kCommReduce, CollectiveKind::kAllReduce,
                      {s_.mesh.all()}, sum_, sum_);
  s_.out.kernel(role(Action::kClip), Lane::kCompute, KernelId::kClipCoefficient,
                {read(sum_), read(scalars_), write(clip_)}, {s_.compute() == DType::kF64 ? 0 : 1});
  if (uses_host() || s_.is_last() || s_.plan.loss_scaling)
    s_.out.copy(role(Action::kDownload), clip_, host_clip_);
}

View Optimizer::gradient_for_norm(UnitIndex unit, bool host, Ordinal ordinal) {
  return transfers_.bring(Phase::kNorm, s_.layout.part[unit], gradients_.piece(unit),
                          host ? Tier::kCpu : Tier::kGpu, ring("norm.gradient", gradients_.dtype()),
                          ordinal);
}

// Casts the reduced gradients into the optimizer's copy of them.
View Optimizer::take_main_gradient(UnitIndex unit, Ordinal ordinal) {
  const Part part = s_.layout.part[unit];
  const Ring out = states_.ring(unit, OptimizerStates::kMainGradient);
  const View gradient = transfers_.bring(Phase::kNorm, part, gradients_.piece(unit), near(unit),
                                         ring("norm.gradient", gradients_.dtype()), ordinal);
  const View home = states_.view(unit, OptimizerStates::kMainGradient);
  const View main = transfers_.outbox(home, near(unit), out, ordinal);
  s_.out.kernel({Phase::kNorm, part, Action::kCast}, lane(unit), KernelId::kCast,
                {read(gradient), write(main)});
  transfers_.send(Phase::kNorm, part, main, home, out, ordinal);
  return read(main);
}

void Optimizer::square(UnitIndex unit, View part, const View& sum, Lane lane) {
  const Unit& info = s_.layout.units[unit];
  const bool second_copy = s_.has_twin(unit) && !s_.is_first();
  if (second_copy) return;
  const Attributes attributes{first_of_shard(unit),
                              s_.tp() > 1 ? info.shared_from : -1,
                              s_.by_place(kTensorAxis, 1),
                              {0, s_.mesh.steps_over(s_.copies_group(unit).axes, 1)}};
  s_.out.kernel({Phase::kUpdate, s_.layout.part[unit], Action::kSquare}, lane,
                KernelId::kSumSquares, {read(part), update(sum)}, attributes);
}

View Optimizer::gradient_near(UnitIndex unit, Ordinal ordinal) {
  const bool main = states_.has(OptimizerStates::kMainGradient);
  const View home =
      main ? states_.view(unit, OptimizerStates::kMainGradient) : gradients_.piece(unit);
  Ring staged = update_ring("staged.gradient", home.dtype, unit);
  staged.read = Action::kReadGradient;
  return transfers_.bring(Phase::kUpdate, s_.layout.part[unit], home, near(unit), staged, ordinal);
}

Optimizer::States Optimizer::bring_states(UnitIndex unit, Ordinal ordinal) {
  States brought;
  for (const State state : kUpdated)
    if (states_.has(unit, state))
      brought.emplace_back(
          state, transfers_.bring(Phase::kUpdate, s_.layout.part[unit], states_.view(unit, state),
                                  near(unit), states_.ring(unit, state), ordinal));
  return brought;
}

void Optimizer::send_states(UnitIndex unit, const States& states, Ordinal ordinal) {
  for (const auto& [state, view] : states)
    transfers_.send(Phase::kUpdate, s_.layout.part[unit], view, states_.view(unit, state),
                    states_.ring(unit, state), ordinal);
}

void Optimizer::update_unit(UnitIndex unit, Ordinal ordinal) {
  const Part part = s_.layout.part[unit];
  if (is_beside_backward() && states_.has(OptimizerStates::kMainGradient))
    take_main_gradient(unit, ordinal);
  const View gradient = gradient_near(unit, ordinal);
  const auto ahead = brought_.find(unit);
  const States states = ahead == brought_.end() ? bring_states(unit, ordinal) : ahead->second;
  const View home = parameters_.piece(unit);
  const Ring staged = update_ring("updated.parameter", home.dtype, unit);
  const View target =
      states_.has(OptimizerStates::kMaster)
          ? transfers_.outbox(home, near(unit), staged, ordinal)
          : transfers_.bring(Phase::kUpdate, part, home, near(unit), staged, ordinal);
  update_with(unit, states, gradient, target, ordinal);
  transfers_.send(Phase::kUpdate, part, target, home, staged, ordinal);
  if (is_apart(unit)) {
    brought_[unit] = states;
  } else {
    send_states(unit, states, ordinal);
  }
}

// Flat element of the unit that the rank's shard begins with.
Attribute Optimizer::first_of_shard(UnitIndex unit) const {
  const Unit& info = s_.layout.units[unit];
  return {0, s_.mesh.steps_over(info.shards, info.shard_elements)};
}

// Without a master copy the target is the master. What is made orthogonal, or of factored moments,
// takes the place of moments and gradient.
void Optimizer::update_with(UnitIndex unit, const States& states, const View& gradient,
                            const View& target, Ordinal ordinal) {
  const UpdateRule& rule = s_.layout.rule[unit];
  std::vector<View> operands;
  const bool has_master = states_.has(unit, OptimizerStates::kMaster);
  choice_bias_.move(unit, has_master ? states.front().second : target, place_of(unit)[0],
                    lane(unit));
  if (!has_master) operands.push_back(update(target));
  for (const auto& [state, view] : states)
    if (state == OptimizerStates::kMaster || !rule.makes_update()) operands.push_back(update(view));
  View input = gradient;
  if (rule.orthogonal) input = orthogonal(unit, states.back().second, gradient, ordinal);
  if (rule.factored)
    input = Adafactor(s_, unit, lane(unit), near(unit))
                .update_of({.moments = states.back().second,
                            .master = operands.front(),
                            .gradient = gradient,
                            .scalars = scalars_near(unit),
                            .clip = clip_near(unit),
                            .place = place_of(unit),
                            .ordinal = ordinal});
  for (const View& in : {input, scalars_near(unit), clip_near(unit)}) operands.push_back(read(in));
  if (has_master) operands.push_back(write(target));
  s_.out.kernel({Phase::kUpdate, s_.layout.part[unit], rule.action}, lane(unit), rule.kernel,
                operands, place_of(unit));
}

// Where the rank's piece of a unit begins, the elements that decay, the unit.
Attributes Optimizer::place_of(UnitIndex unit) const {
  Attribute first, decays = s_.layout.units[unit].decay_elements;
  if (s_.plan.zero_stage > 0) first = first_of_shard(unit);
  if (s_.layout.is_owned(unit)) decays.steps = first.steps;
  return {first, decays, unit};
}

// The rank's piece of what is made of the moment, which all that share the unit gather first.
View Optimizer::orthogonal(UnitIndex unit, const View& moment, const View& gradient,
                           Ordinal ordinal) {
  const Unit& info = s_.layout.units[unit];
  const Part part = s_.layout.part[unit];
  const DType dtype = s_.kernels.statistics;
  std::int64_t largest = 0;
  for (UnitIndex u = 0; u < s_.layout.units.size(); ++u)
    if (s_.layout.rule[u].orthogonal) largest = std::max(largest, s_.layout.units[u].flat_elements);
  const BufferId id = s_.body.get({.name = "update.whole",
                                   .slot_size = size_of(dtype) * largest,
                                   .slots = kRingSlots,
                                   .category = Category::kGathered,
                                   .dtype = dtype});
  const View whole = view_of(id, dtype, {info.flat_elements}, ordinal.slot());
  View own = whole;
  if (s_.plan.zero_stage > 0) {
    own.shape = {info.shard_elements};
    own = s_.own_part(own, info.shards);
  }
  s_.out.kernel(
      {Phase::kUpdate, part, Action::kMomentum}, lane(unit), KernelId::kMuonMomentum,
      {update(moment), read(gradient), read(scalars_near(unit)), read(clip_near(unit)), write(own)},
      place_of(unit));
  if (s_.plan.zero_stage > 0 && s_.is_sharded(unit))
    s_.out.collective({Phase::kUpdate, part, Action::kGatherUpdate}, Lane::kCommGather,
                      CollectiveKind::kAllGather, s_.shard_group(unit), own, whole);
  orthogonalise(unit, whole);
  // Ranks have parts of different matrices; their bytes are those of one class.
  if (s_.plan.zero_stage > 0)
    s_.out.wait({Phase::kUpdate, part, Action::kWholeIsKept}, lane(unit), read(whole));
  return own;
}

// Matrices come one after the other, told apart by the number of a tile; each expert has its own.
void Optimizer::orthogonalise(UnitIndex unit, const View& whole) {
  const std::vector<ParamPlace> matrices = s_.layout.matrices_of(unit);
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    View x = whole;
    x.shape = matrices[i].shape;
    x.offset += size_of(x.dtype) * matrices[i].offset;
    const std::int64_t side = std::min(x.shape[0], x.shape[1]);
    const auto scratch = [&](const char* name, const Shape& shape) {
      return write(s_.transient(std::string("orthogonal.") + name, shape, x.dtype));
    };
    s_.out.repeat({.count = 1, .var = Var::kTile, .first = static_cast<std::int32_t>(i)}, [&] {
      s_.out.kernel({Phase::kUpdate, s_.layout.part[unit], Action::kOrthogonalise}, lane(unit),
                    KernelId::kOrthogonalise,
                    {update(x), scratch("next", x.shape), scratch("gram", {side, side}),
                     scratch("polynomial", {side, side})});
    });
  }
}

// ZeRO 1 and 2, and ZeRO 3 whose parameters fewer ranks share: the updated pieces of a home.
bool Optimizer::gathers() const {
  const bool whole = s_.plan.zero_stage == 1 || s_.plan.zero_stage == 2;
  return (whole && s_.plan.shards() > 1) || s_.plan.parameter_shards > 0;
}

// After the update, while the compute lane waits.
void Optimizer::gather_apart() {
  const auto wait = [&](Action action, UnitIndex u) {
    s_.out.wait({Phase::kUpdate, s_.layout.part[u], action}, Lane::kCompute,
                read(parameters_.at_home(u)));
  };
  s_.for_each_unit([&](UnitIndex u, Ordinal) {
    wait(Action::kBeforeGather, u);
    gather(u);
  });
  s_.for_each_unit([&](UnitIndex u, Ordinal) { wait(Action::kAfterGather, u); });
}

void Optimizer::gather(UnitIndex unit) {
  if (!gathers() || s_.mesh.size(parameters_.writers(unit)) == 1) return;
  s_.out.collective({Phase::kUpdate, s_.layout.part[unit], Action::kGather}, Lane::kCommGather,
                    CollectiveKind::kAllGather, parameters_.writers(unit), parameters_.piece(unit),
                    parameters_.at_home(unit));
}

}  // namespace zplan
