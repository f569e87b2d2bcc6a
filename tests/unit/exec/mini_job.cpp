#include "tests/unit/exec/mini_job.h"
#include "tests/support/meshes.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "planner/core/error.h"
#include "planner/place/place.h"
#include "planner/program/instances/edges.h"
#include "planner/program/kernels/kernel_set.h"
#include "planner/program/step_scalars.h"
#include "tests/support/source_dir.h"

namespace zplan::exec::testing {
namespace {

namespace groups = testing_support::groups;

constexpr std::int64_t kVocab = 256, kHidden = 8, kSequence = 6;
constexpr std::int64_t kScratchElements = (1 << 20) / 4;  // 1 MiB
constexpr std::int64_t kElements = (kVocab + kSequence) * kHidden;

class StageBuilder {
 public:
  StageBuilder(const Job& job, const MiniOptions& options, std::int32_t stage)
      : job_(job), options_(options), stage_(stage), set_(find_kernel_set(options.kernel_set)) {
    p_.blocks.push_back({});
  }

  RankClass build() {
    make_buffers();
    begin();
    micro_steps();
    reduce();
    update();
    finish();
    derive_data_edges(p_);
    const AxisSet shards = options_.shard_optimizer ? unit().shards : AxisSet{};
    RankClass c;
    c.stage = stage_;
    c.program = p_;
    c.homes = {{0, {param_}, {master_, shards}, {{m_, shards}, {v_, shards}}}};
    return c;
  }

 private:
  bool first() const { return stage_ == 0; }
  bool last() const { return stage_ == job_.stages() - 1; }
  const Unit& unit() const { return job_.units[0]; }
  Tier state_tier() const { return options_.on_nvme ? Tier::kNvme : Tier::kGpu; }
  bool has_master() const { return options_.shard_optimizer || options_.on_nvme; }
  // What one rank updates.
  std::int64_t owned() const {
    return options_.shard_optimizer ? unit().shard_elements : unit().flat_elements;
  }

  BufferId buffer(std::string name, DType type, std::int64_t elements, bool persistent = false,
                  Category category = Category::kActivations, Tier tier = Tier::kGpu) {
    p_.buffers.push_back({.name = std::move(name),
                          .slot_size = round_up(size_of(type) * elements, alignment(tier)),
                          .tier = tier,
                          .category = category,
                          .dtype = type,
                          .persistent = persistent});
    return static_cast<BufferId>(p_.buffers.size() - 1);
  }

  void make_buffers() {
    const std::int64_t tokens = job_.micro_batch * kSequence, flat = unit().flat_elements;
    param_ = buffer("param", set_.compute, flat, true, Category::kParameters);
    const auto state = [&](const char* name) {
      return buffer(name, set_.compute, owned(), true, Category::kOptimizer, state_tier());
    };
    master_ = has_master() ? state("master") : param_;
    m_ = state("m");
    v_ = state("v");
    grad_ = buffer("grad", set_.compute, flat, false, Category::kGradients);
    tokens_ = buffer("tokens", DType::kI32, job_.micro_batch * (kSequence + 1));
    x_ = buffer("x", set_.compute, tokens * kHidden);
    dx_ = buffer("dx", set_.compute, tokens * kHidden);
    if (last()) logits_ = buffer("logits", set_.compute, tokens * kVocab);
    scratch_ = buffer("scratch", DType::kF32, kScratchElements);
    scalars_ = buffer("scalars", DType::kF64, kStepScalarCount);
    loss_ = buffer("loss", DType::kF64, 1);
    sum_ = buffer("sum", DType::kF64, 1);
    clip_ = buffer("clip", DType::kF64, 2);
    if (options_.on_nvme) make_host_buffers();
  }

  void make_host_buffers() {
    const auto host = [&](const char* name, DType type, std::int64_t elements) {
      return buffer(name, type, elements, false, Category::kGathered, Tier::kCpu);
    };
    for (std::size_t i = 0; i < host_states_.size(); ++i)
      host_states_[i] = host(kHostStateNames[i], set_.compute, owned());
    host_grad_ = host("host.grad", set_.compute, owned());
    host_param_ = host("host.param", set_.compute, owned());
    host_scalars_ = host("host.scalars", DType::kF64, kStepScalarCount);
    host_clip_ = host("host.clip", DType::kF64, 2);
  }

  View view(BufferId id, Access access, Shape shape, std::int64_t first_element = 0) const {
    const DType type = p_.buffers[id].dtype;
    return {.buffer = id,
            .access = access,
            .dtype = type,
            .slot = {},
            .offset = size_of(type) * first_element,
            .shape = shape};
  }
  View wte(BufferId id, Access access) const { return view(id, access, {kVocab, kHidden}); }
  View wpe(BufferId id, Access access) const {
    return view(id, access, {kSequence, kHidden}, kVocab * kHidden);
  }
  View flat(BufferId id, Access access) const { return view(id, access, {unit().flat_elements}); }
  // What this rank owns of a full buffer.
  View piece(BufferId id, Access access) const {
    View v = view(id, access, {owned()});
    if (options_.shard_optimizer) v.strides = job_.mesh.steps_over(unit().shards, v.bytes().value);
    return v;
  }
  View scalars() const { return view(scalars_, Access::kRead, {kStepScalarCount}); }
  View scratch() const { return view(scratch_, Access::kScratch, {kScratchElements}); }
  View rows(BufferId id, Access access) const {
    return view(id, access, {job_.micro_batch * kSequence, kHidden});
  }
  View sequences(BufferId id, Access access) const {
    return view(id, access, {job_.micro_batch, kSequence, kHidden});
  }
  View tokens(Access access) const {
    return view(tokens_, access, {job_.micro_batch, kSequence + 1});
  }
  View logits(Access access) const {
    return view(logits_, access, {job_.micro_batch * kSequence, kVocab});
  }

  Node& node(Role role, OpKind kind, Lane lane, std::vector<View> views) {
    Node n;
    n.role = role;
    n.kind = kind;
    n.lane = lane;
    n.block = block_;
    n.operands_begin = static_cast<std::uint32_t>(p_.views.size());
    p_.views.insert(p_.views.end(), views.begin(), views.end());
    n.operands_end = static_cast<std::uint32_t>(p_.views.size());
    p_.blocks[block_].items.push_back({false, static_cast<std::uint32_t>(p_.nodes.size())});
    p_.nodes.push_back(n);
    return p_.nodes.back();
  }

  void kernel(Role role, KernelId kernel, std::vector<View> views, Attributes attributes = {},
              Lane lane = Lane::kCompute) {
    Node& n = node(role, OpKind::kKernel, lane, std::move(views));
    n.kernel = kernel;
    n.attributes = static_cast<std::uint32_t>(p_.attributes.size());
    p_.attributes.push_back(attributes);
  }

  void copy(Role role, Lane lane, BufferId from, BufferId to, std::int64_t elements) {
    node(role, OpKind::kCopy, lane,
         {view(from, Access::kRead, {elements}), view(to, Access::kWrite, {elements})});
  }

  void collective(Role role, Lane lane, CollectiveKind kind, const Group& group, View in,
                  View out) {
    Node& n = node(role, OpKind::kCollective, lane, {in, out});
    n.collective = kind;
    n.group = group;
  }

  void all_reduce(Role role, const Group& group, BufferId id, std::int64_t elements) {
    collective(role, Lane::kCommReduce, CollectiveKind::kAllReduce, group,
               view(id, Access::kRead, {elements}), view(id, Access::kWrite, {elements}));
  }

  static Lane lane_of_transfer(bool forward, bool sends) {
    const Lane lane = forward ? Lane::kSendForwardUp : Lane::kSendBackwardDown;
    return sends ? lane : partner(lane);
  }

  void transfer(Phase phase, bool sends, BufferId id) {
    const bool forward = phase == Phase::kForward;
    Node& n = node({phase, Part::kBoundary, sends ? Action::kSend : Action::kReceive},
                   sends ? OpKind::kSend : OpKind::kReceive, lane_of_transfer(forward, sends),
                   {rows(id, sends ? Access::kRead : Access::kWrite)});
    n.peer = testing_support::stage_at(stage_ == 0 ? 1 : -1);
  }

  void begin() {
    using enum Phase;
    kernel({kBegin, Part::kScalars, Action::kCompute}, KernelId::kStepScalars,
           {view(scalars_, Access::kWrite, {kStepScalarCount})});
    kernel({kBegin, Part::kLoss, Action::kZero}, KernelId::kFillZero,
           {view(loss_, Access::kWrite, {1})});
    kernel({kBegin, Part::kEmbedding, Action::kZero}, KernelId::kFillZero,
           {flat(grad_, Access::kWrite)});
  }

  void micro_steps() {
    Block loop;
    loop.depth = 1;
    loop.count = static_cast<std::int32_t>(job_.micro_steps);
    loop.var = Var::kMicro;
    p_.blocks[0].items.push_back({true, 1});
    p_.blocks.push_back(loop);
    block_ = 1;
    kernel({Phase::kForward, Part::kBatch, Action::kCompute}, KernelId::kLoadBatch,
           {tokens(Access::kWrite)},
           {options_.dp * job_.micro_batch, job_.global_batch,
            Attribute{0, job_.mesh.steps_over(groups::kData.axes, job_.micro_batch)}});
    if (first()) forward();
    if (last()) loss();
    if (first()) backward();
    block_ = 0;
  }

  void forward() {
    kernel({Phase::kForward, Part::kEmbedding, Action::kCompute}, KernelId::kEmbeddingForward,
           {tokens(Access::kRead), wte(param_, Access::kRead), sequences(x_, Access::kWrite),
            wpe(param_, Access::kRead)});
    if (!last()) transfer(Phase::kForward, true, x_);
  }

  void loss() {
    if (!first()) transfer(Phase::kForward, false, x_);
    kernel(
        {Phase::kForward, Part::kHead, Action::kCompute}, KernelId::kHeadForward,
        {rows(x_, Access::kRead), wte(param_, Access::kRead), logits(Access::kWrite), scratch()});
    kernel({Phase::kForward, Part::kLoss, Action::kCompute}, KernelId::kCrossEntropy,
           {logits(Access::kUpdate), tokens(Access::kRead), view(loss_, Access::kUpdate, {1})},
           {kVocab, job_.global_batch * kSequence, 0, 0});
    kernel(
        {Phase::kBackward, Part::kHead, Action::kInputGradient}, KernelId::kHeadInputGradient,
        {logits(Access::kRead), wte(param_, Access::kRead), rows(dx_, Access::kWrite), scratch()});
    if (!first()) transfer(Phase::kBackward, true, dx_);
    kernel(
        {Phase::kBackward, Part::kHead, Action::kWeightGradient}, KernelId::kHeadWeightGradient,
        {logits(Access::kRead), rows(x_, Access::kRead), wte(grad_, Access::kUpdate), scratch()});
  }

  void backward() {
    if (!last()) transfer(Phase::kBackward, false, dx_);
    kernel({Phase::kBackward, Part::kEmbedding, Action::kWeightGradient},
           KernelId::kEmbeddingBackward,
           {tokens(Access::kRead), sequences(dx_, Access::kRead), wte(grad_, Access::kUpdate),
            wpe(grad_, Access::kUpdate), scratch()});
  }

  void reduce() {
    if (options_.pp > 1) {
      all_reduce({Phase::kUpdate, Part::kEmbedding, Action::kAccumulate}, groups::kEmbedding, grad_,
                 unit().flat_elements);
    }
    if (options_.shard_optimizer) {
      collective({Phase::kUpdate, Part::kEmbedding, Action::kReduce}, Lane::kCommReduce,
                 CollectiveKind::kReduceScatter, groups::kData, flat(grad_, Access::kRead),
                 piece(grad_, Access::kWrite));
    } else if (options_.dp > 1) {
      all_reduce({Phase::kUpdate, Part::kEmbedding, Action::kReduce}, groups::kData, grad_,
                 unit().flat_elements);
    }
    if (options_.dp > 1)
      all_reduce({Phase::kEnd, Part::kLoss, Action::kReduce}, groups::kData, loss_, 1);
  }

  void update() {
    const Part norm = Part::kGradientNorm;
    kernel({Phase::kUpdate, norm, Action::kZero}, KernelId::kFillZero,
           {view(sum_, Access::kWrite, {1})});
    if (last()) {  // both stages hold the whole gradient; it counts once
      kernel({Phase::kUpdate, norm, Action::kSquare}, KernelId::kSumSquares,
             {piece(grad_, Access::kRead), view(sum_, Access::kUpdate, {1})});
    }
    if (options_.shard_optimizer || options_.pp > 1) {
      const bool all = options_.shard_optimizer && options_.pp > 1;
      all_reduce({Phase::kUpdate, norm, Action::kReduce},
                 all               ? groups::kWorld
                 : options_.pp > 1 ? groups::kEmbedding
                                   : groups::kData,
                 sum_, 1);
    }
    kernel({Phase::kUpdate, norm, Action::kClip}, KernelId::kClipCoefficient,
           {view(sum_, Access::kRead, {1}), scalars(), view(clip_, Access::kWrite, {2})});
    if (options_.on_nvme) return update_on_host();
    std::vector<View> adamw{view(master_, Access::kUpdate, {owned()}),
                            view(m_, Access::kUpdate, {owned()}),
                            view(v_, Access::kUpdate, {owned()}),
                            piece(grad_, Access::kRead),
                            scalars(),
                            view(clip_, Access::kRead, {2})};
    if (has_master()) adamw.push_back(piece(param_, Access::kWrite));
    kernel(kAdam, KernelId::kAdamW, adamw, adamw_attributes());
  }

  Attributes adamw_attributes() const {
    AxisSteps first{};
    if (options_.shard_optimizer) first = job_.mesh.steps_over(unit().shards, owned());
    return {Attribute{0, first}, unit().decay_elements, 0};
  }

  // The states come from NVMe and go back there.
  void update_on_host() {
    constexpr std::array kParts{Part::kEmbedding, Part::kPosition, Part::kHead};
    const std::array homes{master_, m_, v_};
    for (std::size_t i = 0; i < homes.size(); ++i) {
      copy({Phase::kUpdate, kParts[i], Action::kRead}, Lane::kIoRead, homes[i], host_states_[i],
           owned());
    }
    node({Phase::kUpdate, Part::kEmbedding, Action::kDownload}, OpKind::kCopy, Lane::kD2h,
         {piece(grad_, Access::kRead), view(host_grad_, Access::kWrite, {owned()})});
    copy({Phase::kUpdate, Part::kScalars, Action::kDownload}, Lane::kD2h, scalars_, host_scalars_,
         kStepScalarCount);
    copy({Phase::kUpdate, Part::kGradientNorm, Action::kDownload}, Lane::kD2h, clip_, host_clip_,
         2);
    kernel(kAdam, KernelId::kAdamW,
           {view(host_states_[0], Access::kUpdate, {owned()}),
            view(host_states_[1], Access::kUpdate, {owned()}),
            view(host_states_[2], Access::kUpdate, {owned()}),
            view(host_grad_, Access::kRead, {owned()}),
            view(host_scalars_, Access::kRead, {kStepScalarCount}),
            view(host_clip_, Access::kRead, {2}), view(host_param_, Access::kWrite, {owned()})},
           adamw_attributes(), Lane::kCpu);
    for (std::size_t i = 0; i < homes.size(); ++i) {
      copy({Phase::kUpdate, kParts[i], Action::kWrite}, Lane::kIoWrite, host_states_[i], homes[i],
           owned());
    }
    node({Phase::kUpdate, Part::kEmbedding, Action::kUpload}, OpKind::kCopy, Lane::kH2d,
         {view(host_param_, Access::kRead, {owned()}), piece(param_, Access::kWrite)});
  }

  void finish() {
    if (options_.shard_optimizer) {
      collective({Phase::kEnd, Part::kEmbedding, Action::kGather}, Lane::kCommGather,
                 CollectiveKind::kAllGather, groups::kData, piece(param_, Access::kRead),
                 flat(param_, Access::kWrite));
    }
    kernel({Phase::kEnd, Part::kLoss, Action::kReport}, KernelId::kReport,
           {view(loss_, Access::kRead, {1}), view(clip_, Access::kRead, {2})});
  }

  static constexpr Role kAdam{Phase::kUpdate, Part::kEmbedding, Action::kAdam};
  static constexpr std::array kHostStateNames{"host.master", "host.m", "host.v"};

  const Job& job_;
  const MiniOptions& options_;
  std::int32_t stage_;
  const KernelSet& set_;
  Program p_;
  BlockIndex block_ = 0;
  BufferId param_ = 0, master_ = 0, m_ = 0, v_ = 0, grad_ = 0, tokens_ = 0, x_ = 0, dx_ = 0,
           logits_ = 0, scratch_ = 0, scalars_ = 0, loss_ = 0, sum_ = 0, clip_ = 0, host_grad_ = 0,
           host_param_ = 0, host_scalars_ = 0, host_clip_ = 0;
  std::array<BufferId, 3> host_states_{};  // master and moments
};

}  // namespace

Job unplaced_mini_job(const MiniOptions& options) {
  Job job;
  job.kernel_set = options.kernel_set;
  job.model = "mini";
  job.mesh = testing_support::mesh_of(
      {.dp = options.dp, .pp = options.pp, .pipeline_first = options.pipeline_first});
  job.global_batch = options.global_batch;
  job.micro_batch = options.micro_batch;
  job.micro_steps = options.global_batch / (options.micro_batch * options.dp);
  job.sequence = kSequence;
  Unit unit;
  unit.name = "embedding";
  unit.elements = kElements;
  unit.decay_elements = kVocab * kHidden;
  unit.shards = groups::kData.axes;
  unit.shard_elements = round_up(ceil_div(kElements, options.dp), 128);
  unit.flat_elements = unit.shard_elements * options.dp;
  unit.tensors = {{.name = "wte",
                   .shape = {kVocab, kHidden},
                   .init = Init::kNormal,
                   .init_std = 0.2,
                   .decay = true},
                  {.name = "wpe",
                   .shape = {kSequence, kHidden},
                   .init = Init::kNormal,
                   .init_std = 0.1,
                   .offset = kVocab * kHidden}};
  job.units = {unit};
  for (std::int32_t stage = 0; stage < options.pp; ++stage)
    job.classes.push_back(StageBuilder(job, options, stage).build());
  return job;
}

Job mini_job(const MiniOptions& options) {
  Job job = unplaced_mini_job(options);
  place(job);
  return job;
}

NodeIndex find_kernel(const Program& program, KernelId kernel) {
  for (NodeIndex n = 0; n < program.nodes.size(); ++n)
    if (program.nodes[n].kind == OpKind::kKernel && program.nodes[n].kernel == kernel) return n;
  throw_bad_input("no such kernel");
}

BufferId find_buffer(const Program& program, const std::string& name) {
  for (BufferId id = 0; id < program.buffers.size(); ++id)
    if (program.buffers[id].name == name) return id;
  throw_bad_input("no buffer " + name);
}

void remove_edges(Program& program, NodeIndex node) {
  std::vector<std::vector<Edge>> edges;
  for (const Node& n : program.nodes)
    edges.emplace_back(program.after(n).begin(), program.after(n).end());
  edges[node].clear();
  set_edges(program, edges);
}

DataSource mini_data() { return DataSource::from_file(ZPLAN_SOURCE_DIR "/tests/data/text.txt"); }

RunOptions mini_run(RunMode mode, int steps) {
  RunOptions options;
  options.mode = mode;
  options.steps = steps;
  options.train.learning_rate = 1e-2;
  options.storage.directory = ::testing::TempDir();
  return options;
}

RunResult run_interrupted(const Job& job, RunOptions options,
                          const std::function<bool(const NodeEvent&)>& at) {
  std::atomic<bool> ends = false, asked = false;
  options.interruption.within_step = [&] {
    asked = asked || ends;
    return ends.load();
  };
  options.observer = [&](const NodeEvent& event) {
    if (event.step != 2 || !at(event) || ends.exchange(true)) return;
    // A run in one thread is not asked meanwhile, but then, as it has not been for a while.
    for (int i = 0; i < 100 && !asked; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  return run(job, mini_data(), options);
}

bool is_backward(const NodeEvent& event, std::int32_t rank) {
  return event.rank == rank && event.program->nodes[event.node].role.phase == Phase::kBackward;
}

}  // namespace zplan::exec::testing
