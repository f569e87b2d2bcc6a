#include "planner/lower/lower.h"

#include <memory>

#include "planner/core/error.h"
#include "planner/lower/blocks/decoder.h"
#include "planner/lower/layer_run.h"
#include "planner/lower/model_ends.h"
#include "planner/lower/optimizer.h"
#include "planner/lower/pipeline.h"
#include "planner/lower/ranks.h"
#include "planner/plan/plan_schedule.h"
#include "planner/program/edges.h"
#include "planner/program/schedule/in_flight.h"

namespace zplan {
namespace {

void assign_layers(Stage& stage) {
  for (std::int32_t i = 0; i < stage.index; ++i)
    stage.first_layer += stage.plan.layers_of_stage(stage.model_layers, i);
  stage.layers = stage.plan.layers_of_stage(stage.model_layers, stage.index);
}

void cut_segments(Stage& stage) {
  for (std::int32_t i = 0; i < stage.units(); ++i) {
    const std::int32_t unit = stage.first_unit() + i;
    const std::int64_t layer = unit * stage.unit_layers();
    const Recompute mode = stage.plan.recompute_of(layer);
    const OperatorSet replayed = stage.plan.replayed_of(layer);
    if (stage.segments.empty() || stage.segments.back().recompute != mode ||
        stage.segments.back().replayed != replayed)
      stage.segments.push_back({unit, 0, mode, replayed});
    ++stage.segments.back().units;
  }
}

View make_workspace(ProgramBuilder& out, const KernelSet& kernels) {
  const DType dtype = DType::kF32;
  const std::int64_t elements = kernels.workspace.value / size_of(dtype).value;
  View v = view_of(out.add({.name = "workspace",
                            .slot_size = kernels.workspace,
                            .category = Category::kWorkspace,
                            .dtype = dtype,
                            .persistent = true}),
                   dtype, {elements});
  v.access = Access::kScratch;
  return v;
}

// Gradient of a layer's output, then of its input; two slots so that the next micro-batch's can
// arrive from the next stage meanwhile.
View make_dx(Stage& s) {
  const Shape shape{s.local_tokens(), s.h()};
  const bool piped = s.plan.parallel.pp > 1;
  const BufferId id = s.body.get({.name = "d.x",
                                  .slot_size = size_of(s.compute()) * shape.elements(),
                                  .slots = piped ? 2 : 1,
                                  .category = Category::kActivations,
                                  .dtype = s.compute()});
  return view_of(id, s.compute(), shape, piped ? SlotExpr{0, 1, 0} : SlotExpr{});
}

// The step of one stage: begin, micro-batches, update, report.
class StageProgram {
 public:
  StageProgram(Stage& stage, const Decoder& model)
      : s_(stage),
        parameters_(stage),
        gradients_(stage),
        optimizer_(stage, parameters_, gradients_),
        checkpoints_(stage),
        ends_(stage, model, parameters_, gradients_, checkpoints_, optimizer_.scalars()) {
    for (std::size_t i = 0; i < s_.segments.size(); ++i)
      layers_.push_back(std::make_unique<LayerRun>(stage, model.layers(), s_.segments[i], i,
                                                   parameters_, gradients_, checkpoints_));
  }

  std::vector<UnitHome> emit(PassOrder order) {
    if (gradients_.last_differs()) set_last_apart(order);
    optimizer_.begin_step();
    gradients_.begin_step();
    ends_.begin_step();
    emit_schedule(s_, order, {[&] { forward(); }, [&](bool last) { backward(last); }});
    gradients_.finish_backward();
    s_.body.next_body();
    optimizer_.emit();
    if (s_.is_last()) report();
    return optimizer_.homes();
  }

 private:
  void forward() {
    s_.body.next_body();
    const View first = checkpoints_.input_of(s_.first_layer);
    if (s_.is_first() || s_.is_last()) ends_.load_batch();
    if (s_.is_first()) {
      ends_.embed(first);
    } else {
      s_.out.receive({Phase::kForward, Part::kBoundary, Action::kReceive}, Lane::kReceiveForwardUp,
                     s_.neighbour(-1), first);
    }
    for (std::size_t i = 0; i < layers_.size(); ++i)
      s_.out.repeat(s_.segments[i].up(), [&] { layers_[i]->forward(); });
    if (s_.is_last()) {
      ends_.head_forward();
    } else {
      s_.out.send({Phase::kForward, Part::kBoundary, Action::kSend}, Lane::kSendForwardUp,
                  s_.neighbour(1), checkpoints_.input_of(s_.first_layer + s_.layers));
    }
  }

  void backward(bool last_micro) {
    s_.body.next_body();
    const View dx = make_dx(s_);
    if (s_.is_last()) {
      ends_.head_backward(dx, last_micro);
    } else {
      s_.out.receive({Phase::kBackward, Part::kBoundary, Action::kReceive},
                     Lane::kReceiveBackwardDown, s_.neighbour(1), dx);
    }
    for (std::size_t i = layers_.size(); i-- > 0;)
      s_.out.repeat(s_.segments[i].down(), [&] { layers_[i]->backward(dx, last_micro); });
    if (s_.is_first()) {
      ends_.embed_backward(dx, last_micro);
    } else {
      s_.out.send({Phase::kBackward, Part::kBoundary, Action::kSend}, Lane::kSendBackwardDown,
                  s_.neighbour(-1), dx);
    }
  }

  void report() {
    const View loss = ends_.finish_loss();
    s_.out.kernel({Phase::kEnd, Part::kLoss, Action::kReport}, Lane::kCpu, KernelId::kReport,
                  {read(loss), read(optimizer_.host_clip())});
  }

  Stage& s_;
  Parameters parameters_;
  Gradients gradients_;
  Optimizer optimizer_;
  Checkpoints checkpoints_;
  ModelEnds ends_;
  std::vector<std::unique_ptr<LayerRun>> layers_;  // one per segment
};

RankClass lower_stage(const Decoder& model, const Mesh& mesh, const Layout& layout,
                      std::int32_t index) {
  const Plan& plan = model.sizes().plan;
  ProgramBuilder out(layout.layers_together());
  BodyBuffers body(out);
  Stage stage{model.sizes(), mesh, layout, out, body};
  stage.workspace = make_workspace(out, stage.kernels);
  stage.index = index;
  stage.micro_steps = static_cast<std::int32_t>(plan.micro_steps());
  PassOrder order = order_of_stage(plan, index);
  stage.in_flight = forward_to_backward(order.passes, 0).span;
  assign_layers(stage);
  cut_segments(stage);
  RankClass result;
  result.stage = index;
  result.first_layer = stage.first_layer;
  result.layers = stage.layers;
  result.homes = StageProgram(stage, model).emit(std::move(order));
  result.program = out.finish_unordered();
  return result;
}

}  // namespace

Job lower_unordered(const Plan& plan, const ModelConfig& model) {
  if (const auto why = illegal(plan, shape_of(model))) throw_bad_input(*why);
  return lower_unordered(plan, Decoder(model, plan, find_kernel_set(plan.kernel_set)));
}

Job lower_unordered(const Plan& plan, const Decoder& decoder) {
  Job job;
  job.mesh = mesh_of(plan);
  const Layout layout = make_layout(decoder.params(), plan, job.mesh);
  job.kernel_set = plan.kernel_set;
  job.model = plan.model;
  job.launch = plan.launch;
  job.global_batch = plan.batch.global_batch;
  job.micro_batch = plan.batch.micro_batch;
  job.micro_steps = plan.micro_steps();
  job.sequence = plan.batch.sequence;
  job.units = layout.units;
  for (std::int32_t stage = 0; stage < plan.parallel.pp; ++stage)
    job.classes.push_back(lower_stage(decoder, job.mesh, layout, stage));
  return job;
}

Job lower(const Plan& plan, const ModelConfig& model) {
  Job job = lower_unordered(plan, model);
  for (RankClass& rank_class : job.classes) derive_data_edges(rank_class.program);
  return job;
}

}  // namespace zplan
