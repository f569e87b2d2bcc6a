#include "planner/search/homes/question.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "planner/cost/cost_model.h"
#include "planner/cost/step_totals.h"
#include "planner/lower/activations.h"
#include "planner/lower/blocks/decoder.h"
#include "planner/lower/checkpoints.h"
#include "planner/lower/lower.h"
#include "planner/plan/plan_schedule.h"
#include "planner/search/memory_use.h"

namespace zplan {
namespace {

constexpr LayerOperator kOperators[] = {LayerOperator::kNorm,      LayerOperator::kQkv,
                                        LayerOperator::kAttention, LayerOperator::kProjection,
                                        LayerOperator::kFc1,       LayerOperator::kActivation};

// The phase that a transfer or kernel comes in; nothing: neither, it hides nothing of theirs.
std::optional<std::size_t> phase_of(Phase phase, bool updates_beside_backward) {
  if (phase == Phase::kForward) return 0;
  if (phase == Phase::kRecompute || phase == Phase::kBackward) return 1;
  if (phase == Phase::kUpdate && updates_beside_backward) return 1;
  return std::nullopt;
}

// Compute waits for what the ranks of a tensor parallel group add up.
Lane resource_of(Lane lane) { return lane == Lane::kCommTensor ? Lane::kCompute : lane; }

// Links that stages have alike have one name: without the numbers of node, switch and socket.
std::string kind_of(const CostLink& link) {
  std::string kind = link.kind + " " + link.name.substr(link.name.rfind(' ') + 1);
  std::erase_if(kind, [](char c) { return c >= '0' && c <= '9'; });
  return kind;
}

// What a step asks of the lanes of a stage and of the links, with nobody waiting.
HomeLoads loads_of(const CostModel& model, int stage, bool updates_beside_backward) {
  const Program& program = model.job().classes[static_cast<std::size_t>(stage)].program;
  const std::vector<std::int64_t> instances = instances_per_step(program);
  HomeLoads loads;
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    const auto phase = phase_of(node.role.phase, updates_beside_backward);
    if (!phase || is_transfer(node.kind)) continue;
    const OpCost& cost = model.costs(stage)[i];
    const auto times = static_cast<double>(instances[i]);
    loads[std::string(name(resource_of(node.lane)))][*phase] +=
        to_seconds(cost.alone).value * times;
    for (const LinkShare& share : model.shares(cost)) {
      const CostLink& link = model.links()[share.link];
      loads[kind_of(link)][*phase] += (cost.bytes / (link.capacity / share.weight)).value * times;
    }
  }
  return loads;
}

Plan with_homes(Plan plan, const RecomputeRun& run, Tier inputs) {
  plan.recompute = {run};
  plan.placement.activations = inputs;
  return plan;
}

// The same layers on one stage of as many ranks, with no more micro-batches than it takes.
Plan of_one_stage(Plan plan) {
  plan.parallel.dp *= plan.parallel.pp;
  plan.parallel.pp = 1;
  plan.parallel.chunks = 0;
  plan.parallel.flushes = 1;
  plan.schedule = Schedule::kOneForwardOneBackward;
  plan.stage_layers.clear();
  plan.batch.global_batch =
      plan.batch.micro_batch * plan.parallel.dp * std::min<std::int64_t>(2, plan.micro_steps());
  return plan;
}

class Asker {
 public:
  Asker(const Plan& plan, const ModelConfig& model, const Cluster& cluster, SharedWires* wires)
      : model_(model), cluster_(cluster), wires_(wires) {
    present_ = {plan.recompute.front(), plan.placement.activations};
    present_.first.layers = 0;
    q_.plan = with_homes(plan, {}, Tier::kGpu);
    q_.plan.partition_activations = false;
  }

  HomesQuestion ask() {
    if (!can_ask()) return std::move(q_);
    layer_ = of_one_stage(q_.plan);
    if (illegal(layer_, shape_of(model_))) return std::move(q_);
    q_.layers = model_.layers;
    q_.micro_steps = static_cast<double>(q_.plan.micro_steps());
    kept_ = layer_loads({}, Tier::kGpu);
    for (const LayerOperator op : kOperators) ask_tensor(op);
    ask_inputs();
    q_.present = more(present_.first, present_.second);
    ask_stages();
    return std::move(q_);
  }

 private:
  // On the GPU, or in the other tiers: kept by layer and micro-batch, and once.
  struct Held {
    double gpu = 0, away = 0, once = 0;
  };

  bool can_ask() const {
    const Plan& plan = q_.plan;
    return plan.gather.tiles() == 1 && plan.unit_layers() == 1 && plan.checkpoint_layers == 1 &&
           model_.kind_layers() == 1 && !model_.vision && !has_parts_of_backward(plan) &&
           !illegal(plan, shape_of(model_));
  }

  static void add(Held& held, const Declared& declared) {
    const auto bytes =
        static_cast<double>((declared.buffer.slot_size * declared.buffer.slots).value);
    const bool gpu = declared.buffer.tier == Tier::kGpu;
    if (declared.per == Per::kLayerInFlight || declared.per == Per::kInputInFlight) {
      (gpu ? held.gpu : held.away) += bytes;
    } else if (gpu) {
      held.once += bytes;
    }
  }

  Held held(const RecomputeRun& run) const {
    const Decoder decoder(model_, layer_, find_kernel_set(layer_.kernel_set));
    Held sum;
    declare(decoder.layers().back().values, replay_of(layer_.effective(run.mode), run), 1,
            [&](const Declared& declared) { add(sum, declared); });
    return sum;
  }

  // Of one layer and micro-batch.
  HomeLoads layer_loads(const RecomputeRun& run, Tier inputs) const {
    const Job job = lower_unordered(with_homes(layer_, run, inputs), model_);
    const CostModel cost(job, cluster_, wires_);
    HomeLoads loads = loads_of(cost, 0, layer_.overlap.optimizer);
    const auto times =
        static_cast<double>(model_.layers) * static_cast<double>(layer_.micro_steps());
    for (auto& [name, phases] : loads)
      for (double& seconds : phases) seconds /= times;
    return loads;
  }

  // Beyond what keeping everything takes; only what it adds.
  HomeLoads more(const RecomputeRun& run, Tier inputs) const {
    HomeLoads loads = layer_loads(run, inputs);
    for (auto& [name, phases] : loads) {
      const auto at = kept_.find(name);
      for (std::size_t p = 0; p < kHomePhases; ++p) {
        const double before = at == kept_.end() ? 0 : at->second[p];
        phases[p] = std::max(0.0, phases[p] - before);
      }
    }
    return loads;
  }

  void ask_tensor(LayerOperator op) {
    const RecomputeRun recomputed{Recompute::kOperators, 0, {op}};
    const RecomputeRun on_cpu{Recompute::kOperators, 0, {}, {op}};
    const RecomputeRun on_nvme{Recompute::kOperators, 0, {}, {}, {op}};
    const Held all = held({}), without = held(recomputed), elsewhere = held(on_cpu);
    LayerTensor tensor{.op = op,
                       .kept = all.gpu - without.gpu,
                       .rest = elsewhere.gpu - without.gpu,
                       .away = elsewhere.away,
                       .replayed = without.once - all.once,
                       .passing = elsewhere.once - all.once};
    if (tensor.kept <= 0) return;
    tensor.recomputed = more(recomputed, Tier::kGpu);
    if (tensor.away > 0) {
      tensor.on_cpu = more(on_cpu, Tier::kGpu);
      if (has_drives()) tensor.on_nvme = more(on_nvme, Tier::kGpu);
    }
    if (op == LayerOperator::kAttention) ask_probabilities(all, tensor);
    q_.tensors.push_back(std::move(tensor));
  }

  void ask_probabilities(const Held& all, LayerTensor& tensor) const {
    const RecomputeRun selective{Recompute::kSelective};
    if (layer_.effective(selective.mode) != selective.mode) return;
    if (illegal(with_homes(layer_, selective, Tier::kGpu), shape_of(model_))) return;
    const Held without = held(selective);
    tensor.partly_kept = tensor.kept - (all.gpu - without.gpu);
    tensor.partly_replayed = without.once - all.once;
    tensor.partly = more(selective, Tier::kGpu);
  }

  bool has_drives() const { return cluster_.node.nvme.drives > 0; }

  void ask_inputs() {
    const Decoder decoder(model_, layer_, find_kernel_set(layer_.kernel_set));
    const CheckpointBuffers buffers(decoder.sizes());
    const Buffer& one = buffers.inputs(false).buffer;
    q_.inputs.kept = static_cast<double>(one.slot_size.value);
    q_.inputs.passing = 4 * q_.inputs.kept;  // two rings of two, one each way (checkpoints.h)
    q_.inputs.on_cpu = more({}, Tier::kCpu);
    if (has_drives()) q_.inputs.on_nvme = more({}, Tier::kNvme);
  }

  // With the layers of these pieces, of the model in order.
  HomesStage stage_of(const std::vector<PieceInFlight>& pieces) const {
    HomesStage stage;
    double in_flight = 0;
    for (const PieceInFlight& at : pieces) {
      std::int32_t first = 0;
      for (std::int32_t p = 0; p < at.piece; ++p)
        first += q_.plan.layers_of_piece(model_.layers, p);
      const std::int32_t layers = q_.plan.layers_of_piece(model_.layers, at.piece);
      for (std::int32_t i = 0; i < layers; ++i) stage.numbers.push_back(first + i);
      in_flight += static_cast<double>(at.micro_batches) * layers;
    }
    stage.in_flight = in_flight / std::max(1, stage.layers());
    return stage;
  }

  // Live bytes of each stage, of the tiers where nothing of this plan is left out.
  std::vector<double> peaks_of(const Job& job) const {
    const JobLifetimes lives = lifetimes(job);
    std::vector<double> peaks;
    for (std::size_t s = 0; s < job.classes.size(); ++s)
      peaks.push_back(
          static_cast<double>(live_peaks(job.classes[s].program, lives[s])[0].bytes.value));
    return peaks;
  }

  // What is held beside what forward keeps: at the fullest moment of the plan that keeps
  // everything, or of the one that replays all operators, whichever is less.
  void ask_stages() {
    const Job job = lower_unordered(q_.plan, model_);
    const CostModel cost(job, cluster_, wires_);
    const MemoryUse use = memory_use(job, cluster_);
    RecomputeRun replay{Recompute::kOperators};
    double tensors = 0, rest = 0, replayed = 0;
    const Held all = held({});
    for (const LayerTensor& tensor : q_.tensors) {
      replay.operators.add(tensor.op);
      tensors += tensor.kept;
      replayed += tensor.replayed;
    }
    rest = all.gpu - tensors;
    const std::vector<double> kept_peaks = peaks_of(job);
    const std::vector<double> replayed_peaks =
        peaks_of(lower_unordered(with_homes(q_.plan, replay, Tier::kGpu), model_));
    const StagePieces pieces = in_flight_of_stages(q_.plan);
    for (std::size_t s = 0; s < job.classes.size(); ++s) {
      HomesStage stage = stage_of(pieces[s]);
      stage.base = loads_of(cost, static_cast<int>(s), q_.plan.overlap.optimizer);
      const double layers = stage.layers() * stage.in_flight;
      const double ends = static_cast<double>(pieces[s].size()) * stage.in_flight;
      const double inputs = q_.inputs.kept * (layers + ends);
      const double others =
          std::max(0.0, std::min(kept_peaks[s] - inputs - layers * all.gpu,
                                 replayed_peaks[s] - inputs - layers * rest - replayed) +
                            layers * rest);
      stage.room_gpu = static_cast<double>(use[0].available().value) - others;
      q_.stages.push_back(std::move(stage));
    }
    const auto room = [&](Tier tier) {
      const TierUse& of = use[static_cast<std::size_t>(tier)];
      return static_cast<double>((of.available() - of.peak).value) / cost.place(0).ranks;
    };
    q_.room_cpu = room(Tier::kCpu);
    q_.room_nvme = has_drives() ? room(Tier::kNvme) : 0;
  }

  const ModelConfig& model_;
  const Cluster& cluster_;
  SharedWires* wires_;
  Plan layer_;
  std::pair<RecomputeRun, Tier> present_;  // of the plan asked about
  HomesQuestion q_;
  HomeLoads kept_;
};

}  // namespace

HomesQuestion ask_homes(const Plan& plan, const ModelConfig& model, const Cluster& cluster,
                        SharedWires* wires) {
  return Asker(plan, model, cluster, wires).ask();
}

}  // namespace zplan
