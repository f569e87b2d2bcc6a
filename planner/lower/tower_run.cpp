#include "planner/lower/tower_run.h"

#include <algorithm>
#include <utility>

namespace zplan {
namespace {

constexpr std::int32_t kHostSlots = 2;  // load the next patches while these are copied

const Chunk& first_chunk(const Stage& stage) {
  return *std::ranges::find(stage.chunks, 0, &Chunk::piece);
}

// The layers of a tower that goes forward only are as those that are replayed: nothing stays.
Chunk tower_chunk(const Stage& stage, const VisionTower& tower) {
  Chunk chunk = first_chunk(stage);
  chunk.own_prefix = "vision.";
  chunk.first_layer = tower.layers.first;
  chunk.layers = tower.layers.count;
  chunk.modules = 0;
  chunk.segments.clear();
  Replay replay = replay_of(stage.plan, std::int64_t{0});
  if (!tower.is_trained) replay = {.layer = true};
  for (std::size_t kind = 0; kind < tower.kinds.size(); ++kind)
    chunk.segments.push_back(
        {tower.kinds[kind].layers.first, tower.kinds[kind].layers.count, replay, kind});
  return chunk;
}

// Steps of all projectors have numbers one after the other.
std::int32_t first_step(const VisionTower& tower, std::size_t projector) {
  std::size_t first = 0;
  for (std::size_t i = 0; i < projector; ++i) first += tower.projectors[i].size();
  return static_cast<std::int32_t>(first);
}

}  // namespace

TowerRun::TowerRun(Stage& stage, const VisionTower& tower, Parameters& parameters,
                   Gradients& gradients, Optimizer& optimizer)
    : s_(stage),
      tower_(tower),
      chunk_(tower_chunk(stage, tower)),
      embedding_pass_(stage, parameters, gradients),
      projector_pass_(stage, parameters, gradients),
      ranks_(stage) {
  embedding_pass_.keep_open(true);
  projector_pass_.keep_open(true);
  const InVisionTower in_tower(s_, tower.shape);
  checkpoints_.emplace(s_, chunk_, tower.is_trained ? KeepsInputs::kYes : KeepsInputs::kNo);
  for (std::size_t i = 0; i < chunk_.segments.size(); ++i)
    runs_.push_back(std::make_unique<LayerRun>(
        s_, std::span<const LayerKind>(tower.kinds).subspan(chunk_.segments[i].kind, 1), chunk_, i,
        parameters, gradients, *checkpoints_, optimizer));
  const Shape patches{s_.tokens(), tower.shape.patch};
  const DType dtype = s_.kernels.statistics;
  const auto input = [&](const char* name, Tier tier, std::int32_t slots) {
    const BufferId id = s_.out.add({.name = name,
                                    .slot_size = size_of(dtype) * patches.elements(),
                                    .slots = slots,
                                    .tier = tier,
                                    .category = Category::kInput,
                                    .dtype = dtype,
                                    .persistent = true});
    return view_of(id, dtype, patches, {0, 1, 0});
  };
  host_pixels_ = input("pixels.host", Tier::kCpu, kHostSlots);
  loaded_pixels_ = input("pixels", Tier::kGpu, tower.is_trained ? chunk_.loaded : kHostSlots);
  for (const Steps& steps : tower.projectors) projected_.emplace_back(steps.size());
}

void TowerRun::load() {
  s_.out.kernel({Phase::kForward, Part::kImageRows, Action::kChoose}, Lane::kInput,
                KernelId::kLoadPixels, {write(host_pixels_)},
                {s_.plan.parallel.dp * s_.b(), s_.plan.batch.global_batch, s_.first_sequence(),
                 tower_.shape.all_patches()});
  s_.out.copy({Phase::kForward, Part::kImageRows, Action::kUpload}, host_pixels_, loaded_pixels_);
}

// Patches come in the type of statistics and are cast to that of kernels.
void TowerRun::cast_pixels() {
  pixels_ = loaded_pixels_;
  if (pixels_.dtype == s_.compute()) return;
  pixels_ = kept({.name = "pixels.cast", .shape = pixels_.shape, .dtype = s_.compute()});
  const auto flat = [](View view) { return view.shape = {view.shape.elements()}, view; };
  s_.out.kernel({Phase::kForward, Part::kImageRows, Action::kCast}, Lane::kCompute, KernelId::kCast,
                {read(flat(loaded_pixels_)), write(flat(pixels_))});
}

// A value stays from the forward to the backward of a micro-batch, as ModelEnds keeps values; what
// no backward reads lives within the forward.
View TowerRun::kept(ValueSpec value) {
  value.name = "vision." + value.name;
  if (!keeps_ || (s_.chunks.size() == 1 && chunk_.in_flight == 1))
    return s_.transient(value.name, value.shape, value.dtype);
  const auto [at, is_new] = kept_.try_emplace(value.name);
  if (is_new) {
    const Declared each = declared(value, 1, Per::kFirstStage, Lives::kToBackward);
    const BufferId id = s_.out.add(each.times(chunk_.in_flight));
    at->second = view_of(id, value.dtype, value.shape, {0, 1, 0});
  }
  return at->second;
}

Normed TowerRun::kept_norm(const std::string& name, const Shape& y, bool has_mean) {
  const auto statistics = [&](const char* which) {
    return kept({.name = name + which, .shape = {y[0]}, .dtype = s_.kernels.statistics});
  };
  Normed result{.y = {}, .mean = {}, .rstd = statistics(".rstd")};
  if (has_mean) result.mean = statistics(".mean");
  return result;
}

// Returns the part of all patches that the tensor parallel rank works on between joint products.
View TowerRun::own_rows(View whole) const {
  whole.shape.dims[0] = s_.local_tokens();
  return s_.own_part(whole, s_.tensor_group().axes);
}

void TowerRun::own_part_of(Role role, const View& whole, const View& own) {
  s_.out.copy(role, own_rows(whole), own);
}

void TowerRun::embed() {
  const View x = checkpoints_->first_input();
  const Shape all{s_.tokens(), s_.h()};
  const bool in_parts = s_.sequence_parallel();
  const auto& norm = tower_.embedding.norm();
  embedded_ = {};
  if (norm) {
    embedded_.normed = kept_norm("patches", all, norm->has_mean());
    embedded_.sum = kept({.name = "patches.sum", .shape = all, .dtype = s_.compute()});
  }
  embedded_.normed.y = in_parts ? s_.transient("patches.all", all, s_.compute()) : x;
  embedding_pass_.begin(Phase::kForward);
  tower_.embedding.forward(embedding_pass_, pixels_, embedded_);
  if (in_parts)
    own_part_of({Phase::kForward, Part::kPatches, Action::kMove}, embedded_.normed.y, x);
}

// A ring of inputs is written over before a later backward comes.
View TowerRun::output_of_layers() {
  const View x = checkpoints_->last_output();
  if (!s_.sequence_parallel() && checkpoints_->stay()) return x;
  const View all = kept({.name = "output", .shape = {s_.tokens(), s_.h()}, .dtype = s_.compute()});
  if (s_.sequence_parallel()) {
    s_.out.collective({Phase::kForward, Part::kProjector, Action::kGatherRanks}, Lane::kCommTensor,
                      CollectiveKind::kAllGather, s_.tensor_group(), x, all);
  } else {
    s_.out.copy({Phase::kForward, Part::kProjector, Action::kMove}, x, all);
  }
  return all;
}

// Nodes of steps are told apart by their number.
void TowerRun::step(std::int32_t number, const std::function<void()>& emit) {
  s_.out.repeat({.count = 1, .var = Var::kTile, .first = number}, emit);
}

View TowerRun::project(std::size_t projector, const View& output) {
  const Steps& steps = tower_.projectors[projector];
  View x = output;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::int32_t number = first_step(tower_, projector) + static_cast<std::int32_t>(i);
    const std::string name = "projector" + std::to_string(number);
    const Shape shape = steps[i].result(x.shape);
    Normed& y = projected_[projector][i];
    y = {};
    if (steps[i].norm()) y = kept_norm(name, shape, steps[i].norm()->has_mean());
    y.y = x;
    if (!steps[i].is_view())
      y.y = kept({.name = name + ".y", .shape = shape, .dtype = s_.compute()});
    y.y.shape = shape;
    step(number, [&] { steps[i].forward(projector_pass_, x, y); });
    x = y.y;
  }
  return x;
}

void TowerRun::add(Phase phase, std::size_t projector, const View& more, const View& sum) {
  step(first_step(tower_, projector), [&] {
    s_.out.kernel({phase, Part::kImageRows, Action::kAccumulate}, Lane::kCompute,
                  KernelId::kResidualAdd, {read(sum), read(more), write(sum)});
  });
}

void TowerRun::forward() {
  {
    const InVisionTower in_tower(s_, tower_.shape);
    keeps_ = tower_.is_trained;
    cast_pixels();
    embed();
    for (const auto& run : runs_) run->forward();
    keeps_ = tower_.has_trained_projectors;
    output_ = output_of_layers();
    projector_pass_.begin(Phase::kForward);
    rows_ = project(0, output_);
    for (std::size_t i = 1; i < tower_.projectors.size(); ++i)
      add(Phase::kForward, i, project(i, output_), rows_);
  }
  s_.body.next_body();
}

Attributes TowerRun::image_rows() const {
  const std::int64_t own = s_.sequence_parallel() ? s_.local_tokens() : 0;
  return {s_.s(), tower_.shape.tokens(), s_.by_place(kTensorAxis, own)};
}

void TowerRun::put(const View& x) {
  s_.out.kernel({Phase::kForward, Part::kImageRows, Action::kCompute}, Lane::kCompute,
                KernelId::kPutRows, {read(rows_), update(x)}, image_rows());
}

// Each tensor parallel rank with tokens of its own has the gradient of these rows.
void TowerRun::take(const View& dx) {
  rows_gradient_ =
      s_.transient("d.image_rows", {s_.b() * tower_.shape.tokens(), s_.h()}, s_.compute());
  s_.out.kernel({Phase::kBackward, Part::kImageRows, Action::kInputGradient}, Lane::kCompute,
                KernelId::kTakeRows, {update(dx), write(rows_gradient_)}, image_rows());
  if (!s_.sequence_parallel() || !trains_any()) return;
  s_.out.collective({Phase::kBackward, Part::kImageRows, Action::kSumRanks}, Lane::kCommTensor,
                    CollectiveKind::kAllReduce, s_.tensor_group(), rows_gradient_, rows_gradient_);
}

// Nobody asks for the gradient of what a tower gives that is not trained.
View TowerRun::project_backward(std::size_t projector, View dy) {
  const Steps& steps = tower_.projectors[projector];
  std::size_t first = 0;
  while (!steps[first].has_parameters()) ++first;
  for (std::size_t i = steps.size(); i-- > 0;) {
    if (i < first && !tower_.is_trained) return {};
    const std::int32_t number = first_step(tower_, projector) + static_cast<std::int32_t>(i);
    const View x = i == 0 ? output_ : projected_[projector][i - 1].y;
    View dx = dy;
    const bool asked = i > first || tower_.is_trained || steps[i].norm();
    if (steps[i].is_view()) {
      dx.shape = x.shape;
    } else if (!asked) {
      dx = {};
    } else if (!steps[i].is_in_place()) {
      dx = s_.transient("d.projector" + std::to_string(number), x.shape, s_.compute());
    }
    step(number, [&] { steps[i].backward(projector_pass_, x, projected_[projector][i], dy, dx); });
    dy = dx;
  }
  return dy;
}

void TowerRun::backward(bool last_micro) {
  if (!trains_any()) return;
  s_.body.next_body();
  const InVisionTower in_tower(s_, tower_.shape);
  projector_pass_.set_last(last_micro);
  projector_pass_.begin(Phase::kBackward);
  // Steps write over the gradient that projectors have in common.
  View dx;
  for (std::size_t i = tower_.projectors.size(); i-- > 0;) {
    View dy = rows_gradient_;
    if (i > 0) {
      dy = s_.transient("d.image_rows.copy", dy.shape, dy.dtype);
      step(first_step(tower_, i), [&] {
        s_.out.copy({Phase::kBackward, Part::kImageRows, Action::kMove}, rows_gradient_, dy);
      });
    }
    const View own = project_backward(i, dy);
    if (i + 1 == tower_.projectors.size())
      dx = own;
    else if (tower_.is_trained)
      add(Phase::kBackward, i + 1, own, dx);
  }
  projector_pass_.close_all();
  if (tower_.is_trained) layers_backward(dx, last_micro);
}

void TowerRun::layers_backward(View dx, bool last_micro) {
  if (s_.sequence_parallel()) {
    const View own = s_.transient("d.tower", {s_.local_tokens(), s_.h()}, s_.compute());
    own_part_of({Phase::kBackward, Part::kProjector, Action::kMove}, dx, own);
    dx = own;
  }
  for (std::size_t i = runs_.size(); i-- > 0;) runs_[i]->backward(Backward::kWhole, dx, last_micro);
  embedding_pass_.set_last(last_micro);
  embedding_pass_.begin(Phase::kBackward);
  tower_.embedding.backward(embedding_pass_, pixels_, embedded_,
                            ranks_.gathered(Phase::kBackward, Part::kPatches, dx, "d.patches"));
  embedding_pass_.close_all();
}

}  // namespace zplan
