// A small hand-built Job for tests: two stages, two data-parallel ranks, three micro-batches, two
// layers per stage, parameters gathered into a ring of two slots, optimizer state on the host. Its
// edges are of every kind (carry, earlier iteration, last, same, mirror, reuse); they are not
// complete, tests that run it must not ask verify.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "planner/program/job/job.h"
#include "planner/program/step_scalars.h"
#include "tests/support/meshes.h"

namespace zplan {

// Appends nodes to a Program in program order.
class SampleBuilder {
 public:
  SampleBuilder() {
    program_.blocks.emplace_back();
    program_.attributes.emplace_back();
  }

  BufferId buffer(std::string name, std::int64_t slot_bytes, std::int32_t slots, Category category,
                  bool persistent = false, Tier tier = Tier::kGpu) {
    Buffer b;
    b.name = std::move(name);
    b.slot_size = {slot_bytes};
    b.slots = slots;
    b.tier = tier;
    b.category = category;
    b.persistent = persistent;
    program_.buffers.push_back(b);
    return static_cast<BufferId>(program_.buffers.size() - 1);
  }
  Buffer& at(BufferId id) { return program_.buffers[id]; }

  void begin(std::int32_t count, Var var = Var::kNone, std::int32_t first = 0,
             std::int32_t step = 1, bool relative = false, bool mirrored = false) {
    const auto index = static_cast<BlockIndex>(program_.blocks.size());
    Block b;
    b.parent = current_;
    b.depth = program_.blocks[current_].depth + 1;
    b.count = count;
    b.var = var;
    b.first = first;
    b.step = step;
    b.relative = relative;
    b.mirrored = mirrored;
    program_.blocks[current_].items.push_back({true, index});
    program_.blocks.push_back(b);
    current_ = index;
  }
  void end() { current_ = program_.blocks[current_].parent; }

  NodeIndex node(Node n, std::initializer_list<View> views = {}, const Attributes& attr = {}) {
    const auto index = static_cast<NodeIndex>(program_.nodes.size());
    n.block = current_;
    n.operands_begin = static_cast<std::uint32_t>(program_.views.size());
    program_.views.insert(program_.views.end(), views.begin(), views.end());
    n.operands_end = static_cast<std::uint32_t>(program_.views.size());
    if (attr != Attributes{}) {
      n.attributes = static_cast<std::uint32_t>(program_.attributes.size());
      program_.attributes.push_back(attr);
    }
    program_.nodes.push_back(n);
    program_.blocks[current_].items.push_back({false, index});
    edges_.emplace_back();
    return index;
  }
  NodeIndex kernel(Role role, Lane lane, KernelId id, std::initializer_list<View> views,
                   const Attributes& attr = {}) {
    return node({.role = role, .kind = OpKind::kKernel, .lane = lane, .kernel = id}, views, attr);
  }
  NodeIndex mark(Role role, Lane lane) {
    return node({.role = role, .kind = OpKind::kMark, .lane = lane});
  }
  void after(NodeIndex owner, const Edge& edge) { edges_[owner].push_back(edge); }

  Program finish() {
    set_edges(program_, edges_);
    return std::move(program_);
  }
  const Program& program() const { return program_; }

 private:
  Program program_;
  BlockIndex current_ = 0;
  std::vector<std::vector<Edge>> edges_;
};

inline constexpr std::int32_t kSampleLayers = 2;  // of a stage
inline constexpr std::int32_t kSampleMicroSteps = 3;

inline View sample_view(BufferId buffer, Access access, Shape shape, SlotExpr slot = {},
                        std::int64_t offset_bytes = 0, std::int64_t shard_stride_bytes = 0,
                        DType dtype = DType::kF32) {
  return {.buffer = buffer,
          .access = access,
          .dtype = dtype,
          .slot = slot,
          .offset = {offset_bytes},
          .strides = testing_support::step_along(testing_support::kShard, shard_stride_bytes),
          .shape = shape};
}

// T = 4 tokens, h = 8; a layer is w[h,h] and bias[h], 72 elements, padded to 128, shards of 64.
inline RankClass sample_class(std::int32_t stage) {
  constexpr Access r = Access::kRead, w = Access::kWrite, u = Access::kUpdate;
  const std::int32_t first = stage * kSampleLayers;
  const SlotExpr layer{-first, 0, 1}, next{1 - first, 0, 1};
  SampleBuilder b;
  const BufferId param = b.buffer("param", 256, 2, Category::kParameters, true);
  b.at(param).unpadded = {576};
  b.at(param).shards = 2;
  const BufferId full = b.buffer("full", 512, 2, Category::kGathered);
  const BufferId x = b.buffer("x", 256, 3, Category::kActivations);
  const BufferId dx = b.buffer("dx", 256, 1, Category::kActivations);
  const BufferId grad = b.buffer("grad", 256, 2, Category::kGradients, true);
  const BufferId dfull = b.buffer("dfull", 512, 1, Category::kGathered);
  const BufferId scratch = b.buffer("scratch", 1024, 1, Category::kWorkspace);
  const BufferId master = b.buffer("master", 4096, 2, Category::kOptimizer, true, Tier::kCpu);
  const BufferId m = b.buffer("m", 4096, 2, Category::kOptimizer, true, Tier::kCpu);
  const BufferId v = b.buffer("v", 4096, 2, Category::kOptimizer, true, Tier::kCpu);
  const BufferId host_grad = b.buffer("host grad", 4096, 1, Category::kGathered, false, Tier::kCpu);
  // the step scalars, then the clip coefficient and the norm
  const BufferId scalars = b.buffer("scalars", 4096, 1, Category::kInput, true, Tier::kCpu);
  b.at(scalars).dtype = DType::kF64;
  const Shape shard{64}, flat{128}, tokens{4, 8};
  const View weight = sample_view(full, r, {8, 8}, layer),
             bias = sample_view(full, r, {8}, layer, 256);

  const NodeIndex begin = b.kernel(
      {Phase::kBegin, Part::kScalars, Action::kCompute}, Lane::kCpu, KernelId::kStepScalars,
      {sample_view(scalars, w, {kStepScalarCount}, {}, 0, 0, DType::kF64)});
  b.begin(kSampleLayers, Var::kLayer, first);
  const NodeIndex zero = b.kernel({Phase::kBegin, Part::kLayer, Action::kZero}, Lane::kCompute,
                                  KernelId::kFillZero, {sample_view(grad, w, shard, layer)});
  b.end();

  b.begin(kSampleMicroSteps, Var::kMicro);
  NodeIndex input = 0;
  if (stage == 0) {
    input = b.kernel({Phase::kForward, Part::kEmbedding, Action::kZero}, Lane::kCompute,
                     KernelId::kFillZero, {sample_view(x, w, tokens)});
  } else {
    input = b.node({.role = {Phase::kForward, Part::kBoundary, Action::kReceive},
                    .kind = OpKind::kReceive,
                    .lane = Lane::kReceiveForwardUp,
                    .peer = testing_support::stage_at(-1)},
                   {sample_view(x, w, tokens)});
  }
  b.begin(kSampleLayers, Var::kLayer, first);
  const Node all_gather{.role = {Phase::kForward, Part::kLayer, Action::kGather},
                        .kind = OpKind::kCollective,
                        .lane = Lane::kCommGather,
                        .collective = CollectiveKind::kAllGather,
                        .group = testing_support::groups::kShard};
  const NodeIndex gather =
      b.node(all_gather, {sample_view(param, r, shard, layer), sample_view(full, w, flat, layer)});
  const NodeIndex forward = b.kernel(
      {Phase::kForward, Part::kFc1, Action::kCompute}, Lane::kCompute, KernelId::kLinearForward,
      {sample_view(x, r, tokens, layer), weight, bias, sample_view(x, w, tokens, next),
       sample_view(scratch, Access::kScratch, {256})});
  b.end();
  NodeIndex output = 0;
  if (stage == 0) {
    output = b.node({.role = {Phase::kForward, Part::kBoundary, Action::kSend},
                     .kind = OpKind::kSend,
                     .lane = Lane::kSendForwardUp,
                     .peer = testing_support::stage_at(1)},
                    {sample_view(x, r, tokens, {2, 0, 0})});
  } else {
    output = b.mark({Phase::kForward, Part::kLoss, Action::kReport}, Lane::kCompute);
  }
  const NodeIndex dzero = b.kernel({Phase::kBackward, Part::kLoss, Action::kZero}, Lane::kCompute,
                                   KernelId::kFillZero, {sample_view(dx, w, tokens)});
  b.begin(kSampleLayers, Var::kLayer, first + kSampleLayers - 1, -1);
  const NodeIndex backward = b.kernel(
      {Phase::kBackward, Part::kFc1, Action::kWeightGradient}, Lane::kCompute,
      KernelId::kLinearWeightGradient,
      {sample_view(x, r, tokens, layer), sample_view(dx, r, tokens), sample_view(dfull, w, {8, 8}),
       sample_view(dfull, w, {8}, {}, 256), sample_view(scratch, Access::kScratch, {256})});
  const NodeIndex pad = b.kernel({Phase::kBackward, Part::kLayer, Action::kZero}, Lane::kCompute,
                                 KernelId::kFillZero, {sample_view(dfull, w, {56}, {}, 288)});
  Node reduce_scatter = all_gather;
  reduce_scatter.role = {Phase::kBackward, Part::kLayer, Action::kReduce};
  reduce_scatter.lane = Lane::kCommReduce;
  reduce_scatter.collective = CollectiveKind::kReduceScatter;
  const NodeIndex reduce = b.node(
      reduce_scatter, {sample_view(dfull, r, flat), sample_view(dfull, w, shard, {}, 0, 256)});
  const NodeIndex accumulate = b.kernel(
      {Phase::kBackward, Part::kLayer, Action::kAccumulate}, Lane::kCompute, KernelId::kAccumulate,
      {sample_view(dfull, r, shard, {}, 0, 256), sample_view(grad, u, shard, layer)});
  b.end();
  b.end();

  b.begin(kSampleLayers, Var::kLayer, first);
  const NodeIndex download =
      b.node({.role = {Phase::kUpdate, Part::kLayer, Action::kDownload},
              .kind = OpKind::kCopy,
              .lane = Lane::kD2h},
             {sample_view(grad, r, shard, layer), sample_view(host_grad, w, shard)});
  const NodeIndex adam =
      b.kernel({Phase::kUpdate, Part::kLayer, Action::kAdam}, Lane::kCpu, KernelId::kAdamW,
               {sample_view(master, u, shard, layer), sample_view(m, u, shard, layer),
                sample_view(v, u, shard, layer), sample_view(host_grad, r, shard),
                sample_view(scalars, r, {kStepScalarCount}, {}, 0, 0, DType::kF64),
                sample_view(scalars, r, {2}, {}, 128, 0, DType::kF64)},
               {Attribute{0, testing_support::step_along(testing_support::kShard, 64)}, 64, 0});
  const NodeIndex upload =
      b.node({.role = {Phase::kUpdate, Part::kLayer, Action::kUpload},
              .kind = OpKind::kCopy,
              .lane = Lane::kH2d},
             {sample_view(master, r, shard, layer), sample_view(param, w, shard, layer)});
  b.end();
  const NodeIndex end = b.mark({Phase::kEnd, Part::kBatch, Action::kReport}, Lane::kCpu);

  const auto edge = [](NodeIndex node, std::int32_t level, std::int32_t delta = 0,
                       Match match = Match::kLast, bool reuse = false) {
    // The owner's loop next below the level.
    return Edge{node, level, delta, match, match == Match::kLast ? 0 : level + 1, reuse};
  };
  b.after(begin, edge(end, 0, 1));
  b.after(zero, edge(download, 0, 1, Match::kSame));
  b.after(input, edge(backward, 1, 1));
  b.after(gather, edge(upload, 0, 1, Match::kLast));
  b.after(gather, edge(forward, 1, 1, Match::kSame));
  b.after(forward, edge(gather, 2));
  b.after(forward, edge(input, 1));
  b.after(output, edge(forward, 1));
  b.after(dzero, edge(output, 1));
  b.after(backward, edge(forward, 1, 0, Match::kMirror));
  b.after(backward, edge(accumulate, 2, 1));
  b.after(pad, edge(dzero, 1, 0, Match::kLast, true));
  b.after(reduce, edge(pad, 2));
  b.after(accumulate, edge(reduce, 2));
  b.after(accumulate, edge(zero, 0));
  b.after(download, edge(accumulate, 0));
  b.after(download, edge(adam, 1, 1, Match::kLast, true));
  b.after(adam, edge(download, 1));
  b.after(upload, edge(adam, 1));
  b.after(end, edge(upload, 0));

  RankClass c;
  c.stage = stage;
  c.layers = {{first, kSampleLayers}};
  c.program = b.finish();
  const AxisSet shards = testing_support::groups::kShard.axes;
  c.homes.push_back({0, {param, shards}, {master, shards}, {{m, shards}, {v, shards}}});
  return c;
}

inline Job sample_job() {
  Job job;
  job.kernel_set = "cpu.f32";
  job.model = "two words";
  job.mesh = testing_support::mesh_of({.dp = 2, .pp = 2});
  job.global_batch = 12;
  job.micro_batch = 2;
  job.micro_steps = kSampleMicroSteps;
  job.sequence = 2;
  Unit unit{.name = "layer",
            .per_layer = true,
            .elements = 72,
            .decay_elements = 64,
            .shards = testing_support::groups::kShard.axes,
            .shard_elements = 64,
            .flat_elements = 128,
            .tensors = {}};
  unit.tensors.push_back({"h.{}.mlp.c_fc.weight", {8, 8}, Init::kNormal, 0.02, true, 0});
  unit.tensors.push_back({"h.{}.mlp.c_fc.bias", {8}, Init::kZero, 0, false, 64});
  job.units.push_back(unit);
  job.classes = {sample_class(0), sample_class(1)};
  return job;
}

// Every buffer at its own address, one after the other.
inline Job placed_sample_job() {
  Job job = sample_job();
  for (RankClass& c : job.classes) {
    for (const Buffer& buffer : c.program.buffers) {
      Bytes& slab = c.placement.slab[static_cast<std::size_t>(buffer.tier)];
      c.placement.offset.push_back(slab);
      slab += buffer.size();
    }
    c.placement.live_peak = c.placement.slab;
  }
  job.placed = true;
  return job;
}

}  // namespace zplan
