#include "planner/search/bytes_bound.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "planner/lower/activations.h"
#include "planner/lower/blocks/decoder.h"
#include "planner/lower/boundary.h"
#include "planner/lower/checkpoints.h"
#include "planner/lower/encoder_ends.h"
#include "planner/lower/model_ends.h"
#include "planner/lower/ranks.h"
#include "planner/search/counted_layers.h"

namespace zplan {
namespace {

// Adds what is declared; a ring that several units declare is there once.
Declare adding_to(Footprint& sum) {
  return [&sum, known = std::set<std::string>()](const Declared& declared) mutable {
    if (known.insert(declared.buffer.name).second) sum.add(declared);
  };
}

template <typename Buffers>
const Footprint& known(std::map<Buffers, Footprint>& table, const Buffers& buffers,
                       const Layout& layout) {
  const auto [at, is_new] = table.try_emplace(buffers);
  if (is_new) buffers.declare(layout, adding_to(at->second));
  return at->second;
}

// Without the inputs of products: norms, latents that are normed, attention, the activation
// function, rows of experts. Backward reads them for weights and factors alone; of a product that
// has neither its input goes once forward has read it.
Declare without_inputs_of_products(Declare add) {
  return [add = std::move(add)](const Declared& declared) {
    const std::string_view name = declared.buffer.name;
    const std::string_view own = name.substr(name.rfind('.') + 1);
    // "attention.tokens": where context parallel ranks exchange.
    const bool is_input = own.starts_with("norm") || own == "attention" || own == "tokens" ||
                          own == "gelu" || own == "encoded" || name == "encoded.gathered" ||
                          name.ends_with("experts.input");
    if (!is_input) add(declared);
  };
}
// Whether a plan trains factors beside some of the products only: a router has none.
bool has_bare_products(const Plan& plan, const ModelConfig& model) {
  return plan.train.has_lora() && (plan.train.targets != LoraTargets::kAll || model.experts);
}

// Without the units that the first layers of a model alone have: what is counted is of the others.
Layout counted(Layout layout) {
  const auto is_first = [](const Unit& unit) {
    return unit.layers.count > 0 && unit.layers.first == 0;
  };
  for (std::size_t u = layout.units.size(); u-- > 0;) {
    if (!is_first(layout.units[u])) continue;
    Unit& unit = layout.units[u];
    unit.elements = unit.flat_elements = unit.shard_elements = 0;
    unit.tensors.clear();  // of which factored moments are counted
  }
  return layout;
}

// Layers at the end of a piece that are recomputed alike: backward begins with their loop.
std::int32_t last_run(const Plan& plan, std::int64_t model_layers, std::int32_t piece) {
  const std::int32_t layers = plan.layers_of_piece(model_layers, piece);
  if (plan.recompute.size() == 1) return layers;
  std::int64_t end = 0;
  for (std::int32_t p = 0; p <= piece; ++p) end += plan.layers_of_piece(model_layers, p);
  std::int32_t run = 1;
  while (run < layers && replay_of(plan, end - run - 1) == replay_of(plan, end - 1)) ++run;
  return run;
}

// Layers, of those with one checkpoint or of one turn, that count as one.
std::int32_t counted_together(const Plan& plan, const ModelConfig& model) {
  const std::int64_t turn = model.kind_layers();
  return turn > 1 ? static_cast<std::int32_t>(turn) : plan.checkpoint_layers;
}

// Of layers that take turns one turn: what each of its layers keeps, and of what a layer has at
// work that of the last, with which backward begins. Layers that are replayed together with it are
// of other kinds, too, and left out, as are checkpoints of more than a turn.
void declare_turn(const Decoder& model, const Plan& plan, const Declare& add) {
  const std::span<const LayerKind> kinds = model.layers();
  const auto turn = static_cast<std::int32_t>(kinds.size());
  CheckpointBuffers(model.sizes()).declare([&](Declared declared) {
    if (declared.per == Per::kLayerInFlight)
      declared.buffer.slots = declared.buffer.slots * turn / plan.checkpoint_layers;
    add(declared);
  });
  Replay replay = replay_of(plan);
  replay.layers = 1;
  for (const LayerKind& kind : kinds)
    declare(kind.values, replay, plan.gather.tiles(), [&](Declared declared) {
      if (declared.per != Per::kLayerInFlight && &kind != &kinds.back()) return;
      declared.buffer.name = kind.name + "." + declared.buffer.name;
      add(declared);
    });
}

// What the stage with these pieces counts.
Counts counts_of(const Plan& plan, const ModelConfig& model, std::int32_t pieces, bool whole,
                 std::int32_t unit_layers, std::span<const PieceInFlight> own) {
  Counts counts;
  counts.weights_apart = !whole;
  const std::int32_t together = counted_together(plan, model);
  double layers = 0, alone = 0;
  std::int32_t last = -1;  // of the pieces with layers: backward begins there
  for (const PieceInFlight& at : own) {
    const std::int32_t n = counted_layers(plan, model, at.piece);
    const auto in_flight = static_cast<double>(at.micro_batches);
    layers += n;
    counts.weights_apart = counts.weights_apart && at.weights_come_between;
    counts[Per::kLayerInFlight] += n / together * in_flight;
    counts[Per::kInputInFlight] +=
        (plan.layers_of_piece(model.layers, at.piece) / plan.checkpoint_layers + 1) * in_flight;
    if (at.piece == 0) counts[Per::kFirstStage] = counts[Per::kBothEnds] = 1;
    if (at.piece == pieces - 1) {
      counts[Per::kLastStage] = counts[Per::kBothEnds] = 1;
      counts[Per::kHeadInFlight] = in_flight;
      const bool follows = own.size() == 1 && at.micro_batches == 1;
      counts[Count::kBackwardFollows] = follows ? 1 : 0;
      counts[Count::kHeadApart] = follows ? 0 : in_flight;
    }
    if (n == 0 || at.piece < last) continue;
    last = at.piece;
    const std::int32_t run = std::min(n, last_run(plan, model.layers, at.piece));
    counts[Count::kLoopingUnit] = n > unit_layers ? 1 : 0;
    counts[Count::kFilledUnit] = whole && run > unit_layers ? 1 : 0;
    alone = run / together * in_flight == 1 ? 1 : 0;
  }
  counts[Count::kRestingLayer] = counts[Per::kLayerInFlight] - alone;
  counts[Per::kStage] = layers > 0 ? 1 : 0;
  counts[Per::kUnit] = layers / unit_layers;
  for (const ModelState state : kModelStates) {
    const auto units = static_cast<std::int32_t>(counts[Per::kUnit]);
    counts[near_unit(state)] = plan.placement.near_units(state, units);
    counts[far_unit(state)] = units - counts[near_unit(state)];
  }
  counts[Count::kLoopingUnit] *= counts[Per::kUnit];
  counts[Count::kFilledUnit] *= counts[Per::kUnit];
  counts[Count::kWholeBackward] = whole ? 1 : 0;
  return counts;
}

// Stages in the middle of a pipeline that have as many layers differ in the micro-batches in flight
// alone, two or more, and what they hold grows with these along a line.
class MiddleStages {
 public:
  // `counts`: of a stage with this one piece.
  template <typename CountsOf>
  TierBytes of(const PieceInFlight& at, std::int32_t layers, const Footprint& sum,
               const CountsOf& counts_of) {
    Line& line = lines_[layers];
    if (!line.is_known) {
      PieceInFlight two = at, three = at;
      two.micro_batches = 2;
      three.micro_batches = 3;
      line = {true, sum.sums(counts_of(two)), sum.sums(counts_of(three))};
    }
    Footprint::Sums sums = line.of_two;
    const auto more = static_cast<double>(at.micro_batches - 2);
    for (std::size_t tier = 0; tier < kTierCount; ++tier)
      for (std::size_t i = 0; i < sums[tier].size(); ++i)
        sums[tier][i] += (line.of_three[tier][i] - line.of_two[tier][i]) * more;
    return Footprint::fullest(sums, false);
  }

 private:
  struct Line {
    bool is_known = false;
    Footprint::Sums of_two{}, of_three{};
  };
  std::map<std::int32_t, Line> lines_;  // by layers
};

}  // namespace

BytesBounds::States& BytesBounds::states_of(const Plan& plan, const KernelSet& kernels) {
  // As many positions are stored as a sequence has tokens.
  const UnitKey key{plan.parallel.tp,
                    plan.parallel.ep,
                    plan.shards(),
                    plan.batch.sequence,
                    plan.gather,
                    plan.optimizer.kind,
                    plan.optimizer.block,
                    plan.train,
                    plan.checkpoint_layers,
                    plan.parallel.folds_experts(),
                    plan.head_chunks > 1,
                    &kernels};
  const auto at = states_.find(key);
  if (at != states_.end()) return at->second;
  const Decoder model(model_, plan, kernels, PatternTurns::kWhole);
  return states_.try_emplace(key, counted(make_layout(model.params(), plan, mesh_of(plan))))
      .first->second;
}

const Footprint& BytesBounds::work_of(const Plan& plan, const KernelSet& kernels) {
  const WorkKey key{plan.parallel.tp,
                    plan.parallel.cp,
                    plan.parallel.ring,
                    plan.gather.tiles(),
                    plan.head_chunks,
                    plan.batch.micro_batch,
                    plan.batch.sequence,
                    replay_of(plan),
                    plan.placement.activations,
                    &kernels,
                    plan.partition_activations,
                    plan.parallel.sequence_parallel,
                    plan.dropout,
                    plan.parallel.pp == 1,
                    plan.pieces() == plan.parallel.pp,
                    plan.train,
                    plan.parallel.ep,
                    plan.capacity_factor,
                    plan.expert_imbalance,
                    plan.parallel.folds_experts(),
                    plan.dispatcher,
                    plan.overlap.weight_gradients,
                    plan.low_precision.keeps_codes};
  const auto [at, is_new] = work_.try_emplace(key);
  if (!is_new) return at->second;
  const Decoder model(model_, plan, kernels, PatternTurns::kWhole);
  Declare add = adding_to(at->second);
  if (has_bare_products(plan, model_)) add = without_inputs_of_products(std::move(add));
  add(workspace_of(kernels));
  add(gradient_of_output(model.sizes()));
  HeadValues(model).declare(add);
  if (model.encoder()) EncoderValues(model).declare(add);
  if (model_.kind_layers() > 1) {
    declare_turn(model, plan, add);
  } else {
    CheckpointBuffers(model.sizes()).declare(add);
    declare(model.layers().back().values, replay_of(plan), plan.gather.tiles(), add);
  }
  return at->second;
}

std::vector<TierBytes> BytesBounds::of(const Plan& plan, const StagePieces& stages) {
  const KernelSet& kernels = find_kernel_set(plan.kernel_set);
  Footprint sum;
  std::int32_t unit_layers = 1;
  {
    const std::lock_guard lock(mutex_);
    States& states = states_of(plan, kernels);
    unit_layers = states.layout.layers_together();
    sum = work_of(plan, kernels);
    sum += known(states.parameters, {plan, kernels}, states.layout);
    // Where both ends of the model are on one stage a little more persists than is counted.
    sum += known(states.gradients, {plan, kernels, false}, states.layout);
    sum += known(states.optimizer, OptimizerBuffers(plan), states.layout);
  }
  const std::int32_t pieces = plan.pieces();
  const bool whole = !has_parts_of_backward(plan);
  std::vector<TierBytes> result;
  result.reserve(stages.size());
  const auto count = [&](std::span<const PieceInFlight> own) {
    return counts_of(plan, model_, pieces, whole, unit_layers, own);
  };
  MiddleStages middle;
  // Where layers differ, stages with as many of them differ, too.
  const bool are_alike = whole && plan.recompute.size() == 1 && model_.first_layers() == 0;
  for (const std::vector<PieceInFlight>& own : stages) {
    const PieceInFlight& at = own.front();
    const bool is_middle = own.size() == 1 && at.piece > 0 && at.piece < pieces - 1;
    if (are_alike && is_middle && at.micro_batches > 1)
      result.push_back(middle.of(at, plan.layers_of_piece(model_.layers, at.piece), sum,
                                 [&](const PieceInFlight& one) {
                                   return count({&one, 1});
                                 }));
    else
      result.push_back(sum.of(count(own)));
  }
  return result;
}

std::vector<TierBytes> bytes_bound(const Plan& plan, const ModelConfig& model) {
  return BytesBounds(model).of(plan, in_flight_of_stages(plan));
}

}  // namespace zplan
