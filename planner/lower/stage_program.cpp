#include "planner/lower/stage_program.h"

#include <algorithm>
#include <iterator>

#include "planner/core/error.h"
#include "planner/lower/beside.h"
#include "planner/lower/pipeline.h"
#include "planner/program/schedule/weight_stashing.h"

namespace zplan {
namespace {

// The kinds of layers that a segment goes through.
std::span<const LayerKind> kinds_in(const Decoder& model, const Segment& segment) {
  const std::span<const LayerKind> all = model.layers();
  return all.front().layers.count == 0 ? all : all.subspan(segment.kind, 1);
}

std::optional<EncoderEnds> make_encoder(Stage& stage, const Decoder& model, Parameters& parameters,
                                        Gradients& gradients) {
  if (!model.encoder()) return std::nullopt;
  return std::optional<EncoderEnds>(std::in_place, stage, model, parameters, gradients);
}

std::vector<Checkpoints> make_checkpoints(Stage& stage) {
  std::vector<Checkpoints> checkpoints;
  for (const Chunk& chunk : stage.chunks) checkpoints.emplace_back(stage, chunk);
  return checkpoints;
}

}  // namespace

StageProgram::StageProgram(Stage& stage, const Decoder& model, PassOrder order)
    : s_(stage),
      order_(std::move(order)),
      parameters_(stage),
      gradients_(stage),
      optimizer_(stage, parameters_, gradients_),
      expert_sums_(stage, model.has_experts()),
      checkpoints_(make_checkpoints(stage)),
      ends_(stage, model, parameters_, gradients_, optimizer_.scalars()),
      encoder_(make_encoder(stage, model, parameters_, gradients_)),
      boundaries_(stage, checkpoints_, order_) {
  s_.scalars = optimizer_.scalars();
  if (model.tower() && s_.is_first())
    tower_.emplace(stage, *model.tower(), parameters_, gradients_, optimizer_);
  for (const Chunk& chunk : s_.chunks) {
    LayerRuns& runs = layers_.emplace_back();
    for (std::size_t i = 0; i < chunk.segments.size(); ++i)
      runs.push_back(std::make_unique<LayerRun>(
          stage, kinds_in(model, chunk.segments[i]), chunk, i, parameters_, gradients_,
          checkpoints_[static_cast<std::size_t>(chunk.number)], optimizer_));
  }
}

std::vector<UnitHome> StageProgram::emit() {
  const bool differs = gradients_.last_differs() || optimizer_.is_beside_backward();
  if (differs && !s_.across_steps && !s_.updates_each) set_last_apart(order_);
  optimizer_.begin_step();
  if (!s_.across_steps) gradients_.begin_step();
  ends_.begin_step();
  expert_sums_.begin_step();
  if (s_.across_steps) {
    passes_around_update();
  } else {
    passes(order_);
    if (!s_.updates_each) update();
  }
  expert_sums_.finish();
  if (s_.is_last()) report();
  return optimizer_.homes();
}

void StageProgram::passes(const PassOrder& order) {
  emit_passes(
      s_.out, order, [&](const Pass& pass) { this->pass(pass); },
      [&](const Pass& forward, const Pass& backward) { both(forward, backward); });
}

void StageProgram::update() {
  gradients_.finish_backward();
  s_.body.next_body();
  parameters_.keep_older();
  optimizer_.emit();
}

// Each update is counted as one of a micro-batch of this step, so those of the step before are a
// whole step behind.
void StageProgram::update_after_backward() {
  gradients_.finish_backward();
  s_.body.next_body();
  parameters_.keep_older();
  const bool of_step_before = s_.across_steps && !s_.after_update;
  if (!s_.across_steps) s_.gradients_behind = updates_behind(s_.chunk().piece, s_.chunk_map.size());
  optimizer_.begin_update(of_step_before ? s_.micro_steps : s_.gradients_behind);
  optimizer_.emit();
  s_.gradients_behind = 0;
}

// The backwards that are left of the step before, its update, the backwards of this step.
void StageProgram::passes_around_update() {
  const auto begin = order_.passes.begin(), end = order_.passes.end();
  const auto at =
      begin + static_cast<std::ptrdiff_t>(passes_before_update(s_.index, s_.plan.parallel.pp));
  passes({.passes{begin, at}, .cuts{}});
  if (!s_.updates_each) {
    update();
    gradients_.begin_step();
  }
  s_.after_update = true;
  passes({.passes{at, end}, .cuts{}});
}

void StageProgram::pass(const Pass& pass) {
  s_.enter(pass);
  s_.body.next_body();
  switch (pass.kind) {
    case PassKind::kForward:
      return forward();
    case PassKind::kBackward:
      backward(Backward::kWhole, pass.apart);
      if (s_.updates_each) update_after_backward();
      return;
    case PassKind::kInputBackward:
      return backward(Backward::kInput, pass.apart);
    case PassKind::kWeightBackward:
      return weight_backward(pass.apart);
  }
}

void StageProgram::forward() {
  begin_forward();
  const LayerRuns& layers = layers_[s_.current];
  for (std::size_t i = 0; i < segments_of_model(); ++i) {
    if (begins_decoder(i)) {
      const View between = checkpoints().input_of(encoder_->layers());
      encoder_->finish(between);
      ends_.embed(between);
    }
    layers[i]->forward();
  }
  end_forward();
}

void StageProgram::begin_forward() {
  ends_.load_batch();
  if (encoder_) {
    encoder_->embed(ends_.encoder_tokens(), checkpoints().first_input());
  } else if (s_.is_first(s_.chunk())) {
    if (tower_) tower_->load();
    if (tower_) tower_->forward();
    ends_.embed(checkpoints().first_input());
    if (tower_) tower_->put(checkpoints().first_input());
  } else {
    boundaries_.take_input();
  }
}

void StageProgram::end_forward() {
  if (s_.is_last(s_.chunk())) {
    heads_forward();
  } else {
    boundaries_.give_output();
  }
}

// Where backward comes in two parts both ends of the model come with the first: to keep the
// gradient of the logits for the second would cost more than it gains.
void StageProgram::backward(Backward what, bool last_of_step) {
  const bool last_micro = last_of_step || s_.updates_each;  // of those that an update is made of
  const View dx = begin_backward(what, last_micro);
  layers_backward(what, dx, last_micro);
  end_backward(dx, last_of_step);
}

View StageProgram::begin_backward(Backward what, bool last_micro) {
  const View dx = boundaries_.gradient();
  if (s_.is_last(s_.chunk())) {
    heads_backward(what, dx, last_micro);
  } else {
    boundaries_.take_gradient(dx);
  }
  if (encoder_) encoder_->begin_backward(last_micro);
  return dx;
}

void StageProgram::end_backward(const View& dx, bool last_of_step) {
  if (encoder_) {
    encoder_->embed_backward(ends_.encoder_tokens(), dx, ends_.release_tokens());
  } else if (s_.is_first(s_.chunk())) {
    if (tower_) tower_->take(dx);
    ends_.embed_backward(dx, last_of_step || s_.updates_each);
    if (tower_) tower_->backward(last_of_step);
  } else {
    boundaries_.give_gradient(dx);
  }
  boundaries_.take_next_gradient(last_of_step);
}

// The forward begins first, since it reads what the pass before has left; the backward begins
// second so that the gradients of a tied embedding stay open to its end.
void StageProgram::both(const Pass& forward, const Pass& backward) {
  ZPLAN_ASSERT(!encoder_ && !s_.updates_each && backward.kind == PassKind::kBackward);
  const auto of = [&](const Pass& pass, const std::function<void()>& emit) {
    s_.enter(pass);
    at_micro(s_.out, pass.micro, emit);
  };
  View dx;
  LayerLoops forwards, backwards;
  s_.body.next_bodies();
  of(forward, [&] { begin_forward(); });
  forwards = forward_loops();
  s_.body.take_turns();
  of(backward, [&] { dx = begin_backward(Backward::kWhole, backward.apart); });
  backwards = backward_loops(dx, backward.apart);
  s_.body.take_turns();
  LayersBeside(s_, {forward, std::move(forwards)}, {backward, std::move(backwards)}).emit();
  s_.body.take_turns();
  of(backward, [&] { end_backward(dx, backward.apart); });
  s_.body.take_turns();
  of(forward, [&] { end_forward(); });
}

LayerLoops StageProgram::forward_loops() {
  const LayerRuns& layers = layers_[s_.current];
  LayerLoops all;
  for (std::size_t i = 0; i < segments_of_model(); ++i)
    std::ranges::move(layers[i]->forward_loops(), std::back_inserter(all));
  return all;
}

LayerLoops StageProgram::backward_loops(const View& dx, bool last_micro) {
  const LayerRuns& layers = layers_[s_.current];
  LayerLoops all;
  for (std::size_t i = segments_of_model(); i-- > 0;)
    std::ranges::move(layers[i]->backward_loops(Backward::kWhole, dx, last_micro),
                      std::back_inserter(all));
  return all;
}

void StageProgram::weight_backward(bool last_micro) {
  View shape_only;
  shape_only.dtype = s_.compute();
  shape_only.shape = {s_.local_tokens(), s_.h()};
  each_module(false,
              [&](LayerRun& layer) { layer.backward(Backward::kWeight, shape_only, last_micro); });
  layers_backward(Backward::kWeight, shape_only, last_micro);
}

// Buffers of a module's layer are apart from those of other layers, with the logits between them.
void StageProgram::heads_forward() {
  ends_.head_forward(checkpoints());
  each_module(true, [&](LayerRun& layer) {
    s_.body.next_body();
    ends_.module_forward(checkpoints());
    layer.forward();
    ends_.head_forward(checkpoints());
  });
}

// A module's gradient of its layer goes through the same buffer as that of the model's last one.
void StageProgram::heads_backward(Backward what, const View& dx, bool last_micro) {
  ends_.begin_backward(last_micro);
  each_module(false, [&](LayerRun& layer) {
    ends_.head_backward(dx);
    layer.backward(what, dx, last_micro);
    ends_.module_backward(dx);
    s_.body.next_body();
  });
  ends_.head_backward(dx);
}

// The segments of modules, one layer each, come last.
std::size_t StageProgram::segments_of_model() const {
  const Chunk& chunk = s_.chunk();
  return chunk.segments.size() - static_cast<std::size_t>(chunk.modules);
}

void StageProgram::each_module(bool upwards, const std::function<void(LayerRun&)>& emit) {
  const LayerRuns& layers = layers_[s_.current];
  const std::int32_t modules = s_.chunk().modules;
  for (std::int32_t i = 0; i < modules; ++i) {
    s_.module = upwards ? i + 1 : modules - i;
    emit(*layers[segments_of_model() + static_cast<std::size_t>(s_.module - 1)]);
  }
  s_.module = 0;
}

void StageProgram::layers_backward(Backward what, const View& dx, bool last_micro) {
  const LayerRuns& layers = layers_[s_.current];
  for (std::size_t i = segments_of_model(); i-- > 0;) {
    layers[i]->backward(what, dx, last_micro);
    if (!begins_decoder(i)) continue;
    ends_.embed_backward(dx, last_micro);
    encoder_->backward(dx);
  }
}

bool StageProgram::begins_decoder(std::size_t segment) const {
  const std::vector<Segment>& segments = s_.chunk().segments;
  return encoder_ && segment > 0 && segments[segment].kind != segments[segment - 1].kind;
}

void StageProgram::report() {
  const View loss = ends_.finish_loss();
  const Role role{Phase::kEnd, Part::kLoss, Action::kReport};
  const View clip = read(optimizer_.host_clip());
  if (expert_sums_.has()) {
    s_.out.kernel(role, Lane::kCpu, KernelId::kReport,
                  {read(loss), clip, read(expert_sums_.on_host())},
                  {s_.plan.parallel.routes_own_tokens() ? 1 : s_.tp()});
  } else {
    s_.out.kernel(role, Lane::kCpu, KernelId::kReport, {read(loss), clip},
                  {0, s_.updates_each ? s_.micro_steps : 0});
  }
}

}  // namespace zplan
