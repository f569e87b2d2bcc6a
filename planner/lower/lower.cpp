#include "planner/lower/lower.h"

#include <algorithm>

#include "planner/core/error.h"
#include "planner/lower/blocks/decoder.h"
#include "planner/lower/ranks.h"
#include "planner/lower/stage_program.h"
#include "planner/plan/plan_schedule.h"
#include "planner/program/instances/carried.h"
#include "planner/program/instances/edges.h"
#include "planner/program/kernels/kernel_table.h"
#include "planner/program/schedule/double_buffered.h"
#include "planner/program/schedule/in_flight.h"

namespace zplan {
namespace {

// Where each kind of layers has layers of its own: that which has this one.
std::size_t kind_of(const Decoder& model, std::int64_t layer) {
  std::size_t kind = 0;
  while (kind + 1 < model.layers().size() && model.layers()[kind].layers.count > 0 &&
         layer >= model.layers()[kind].layers.end())
    ++kind;
  return kind;
}

std::vector<Segment> cut_segments(const Decoder& model, const Stage& stage, const Chunk& chunk) {
  std::vector<Segment> segments;
  const std::int32_t together = stage.unit_layers();
  for (std::int32_t unit = chunk.first_layer / together;
       unit < (chunk.first_layer + chunk.layers) / together; ++unit) {
    const std::int64_t layer = unit * together;
    // The layers of modules are recomputed as the last one.
    const Replay replay = replay_of(stage.plan, std::min(layer, stage.model_layers - 1));
    const std::size_t kind = kind_of(model, layer);
    const auto module =
        static_cast<std::int32_t>(std::max<std::int64_t>(0, layer - stage.model_layers + 1));
    if (segments.empty() || segments.back().replay != replay || segments.back().kind != kind ||
        segments.back().module != module)
      segments.push_back({unit, 0, replay, kind, module});
    ++segments.back().units;
  }
  return segments;
}

// One more than are in flight, so that the next one is loaded while they are.
std::int32_t loaded_in_flight(const Stage& stage, const Chunk& chunk) {
  if (!stage.across_steps) return chunk.in_flight + 1;
  return slots_across_steps(pairs_before_update(stage.index, stage.plan.parallel.pp) + 2,
                            stage.micro_steps);
}

std::vector<Chunk> make_chunks(const Decoder& model, const Stage& stage, const PassOrder& order) {
  std::vector<Chunk> chunks;
  for (std::int32_t number = 0; number < stage.chunk_map.chunks(); ++number) {
    Chunk chunk{.number = number, .piece = stage.chunk_map.position(stage.index, number)};
    for (std::int32_t piece = 0; piece < chunk.piece; ++piece)
      chunk.first_layer += stage.plan.layers_of_piece(stage.model_layers, piece);
    if (stage.is_first(chunk) && model.tower()) chunk.tower = model.tower()->layers;
    if (stage.is_last(chunk)) chunk.modules = static_cast<std::int32_t>(stage.mtp_layers);
    chunk.layers = stage.plan.layers_of_piece(stage.model_layers, chunk.piece) + chunk.modules;
    chunk.in_flight = kept_in_flight(stage.plan, stage.index, order, number).span;
    chunk.loaded = loaded_in_flight(stage, chunk);
    chunk.in_turns = order.takes_turns();
    chunk.between_parts = input_to_weight(order.passes, number).span;
    chunk.segments = cut_segments(model, stage, chunk);
    chunks.push_back(std::move(chunk));
  }
  return chunks;
}

View make_workspace(ProgramBuilder& out, const KernelSet& kernels) {
  const Declared workspace = workspace_of(kernels);
  const DType dtype = workspace.buffer.dtype;
  const std::int64_t elements = kernels.workspace.value / size_of(dtype).value;
  View v = view_of(out.add(workspace.times(1)), dtype, {elements});
  v.access = Access::kScratch;
  return v;
}

// As large as the kernel that needs most.
void widen_workspace(Program& program, const KernelSet& kernels, BufferId workspace) {
  Bytes most = kernels.workspace;
  for (const Node& node : program.nodes)
    if (node.kind == OpKind::kKernel)
      most = std::max(most, scratch_of(node.kernel, program.operands(node), kernels));
  if (most == kernels.workspace) return;
  Buffer& buffer = program.buffers[workspace];
  buffer.slot_size = round_up(most, kBufferAlignment);
  for (View& view : program.views)
    if (view.buffer == workspace) view.shape = {buffer.slot_size.value / size_of(view.dtype).value};
}

// What a step leaves for the backwards and the updates that come within the next one is there
// always.
void keep_across_steps(Program& program) {
  std::vector<bool> among;
  for (const Buffer& buffer : program.buffers) among.push_back(!buffer.persistent);
  const std::vector<bool> kept = read_before_written(program, among);
  for (BufferId id = 0; id < kept.size(); ++id)
    if (kept[id]) program.buffers[id].persistent = true;
}

RankClass lower_stage(const Decoder& model, const Mesh& mesh, const Layout& layout,
                      const ChunkMap& chunk_map, std::int32_t index) {
  const Plan& plan = model.sizes().plan;
  ProgramBuilder out(layout.layers_together());
  BodyBuffers body(out);
  Stage stage{model.sizes(), mesh, layout, out, body, chunk_map, pair_axes(plan, mesh)};
  stage.workspace = make_workspace(out, stage.kernels);
  stage.index = index;
  stage.across_steps = reaches_across_steps(plan);
  stage.updates_each = updates_each_micro_batch(plan);
  stage.micro_steps = static_cast<std::int32_t>(plan.micro_steps());
  PassOrder order = order_of_stage(plan, index);
  stage.chunks = make_chunks(model, stage, order);
  RankClass result;
  result.stage = index;
  for (const Chunk& chunk : stage.chunks)
    result.layers.push_back({chunk.first_layer, chunk.layers});
  for (const Chunk& chunk : stage.chunks)
    if (chunk.tower.count > 0) result.layers.push_back(chunk.tower);
  result.homes = StageProgram(stage, model, std::move(order)).emit();
  result.program = out.finish_unordered();
  widen_workspace(result.program, stage.kernels, stage.workspace.buffer);
  if (stage.across_steps || stage.updates_each) keep_across_steps(result.program);
  return result;
}

// `is_wanted`: of each stage.
template <typename IsWanted>
Job lower_stages(const Plan& plan, const Decoder& decoder, IsWanted is_wanted) {
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
  const ChunkMap chunk_map = pieces_of(plan);
  for (std::int32_t stage = 0; stage < plan.parallel.pp; ++stage)
    if (is_wanted(stage))
      job.classes.push_back(lower_stage(decoder, job.mesh, layout, chunk_map, stage));
    else
      job.classes.emplace_back().stage = stage;
  return job;
}

void require_legal(const Plan& plan, const ModelConfig& model) {
  if (const auto why = illegal(plan, shape_of(model))) throw_bad_input(*why);
}

}  // namespace

Job lower_unordered(const Plan& plan, const ModelConfig& model) {
  require_legal(plan, model);
  return lower_unordered(plan, Decoder(model, plan, find_kernel_set(plan.kernel_set)));
}

Job lower_unordered(const Plan& plan, const Decoder& decoder) {
  return lower_stages(plan, decoder, [](std::int32_t) { return true; });
}

Job lower_unordered(const Plan& plan, const ModelConfig& model,
                    const std::set<std::int32_t>& stages) {
  require_legal(plan, model);
  const Decoder decoder(model, plan, find_kernel_set(plan.kernel_set));
  return lower_stages(plan, decoder, [&](std::int32_t stage) { return stages.contains(stage); });
}

Job lower(const Plan& plan, const ModelConfig& model) {
  Job job = lower_unordered(plan, model);
  for (RankClass& rank_class : job.classes) derive_data_edges(rank_class.program);
  return job;
}

}  // namespace zplan
