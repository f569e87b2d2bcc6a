// Which plans have a Job. Each rule says what it would take.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "planner/core/text.h"
#include "planner/core/units.h"
#include "planner/plan/choices.h"
#include "planner/plan/limits.h"
#include "planner/plan/plan.h"
#include "planner/plan/plan_schedule.h"
#include "planner/plan/refusal.h"
#include "planner/plan/size_bounds.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

using Reason = std::optional<std::string>;

Reason outside(const char* what, std::int64_t value, std::int64_t min, std::int64_t max) {
  if (value >= min && value <= max) return std::nullopt;
  return fmt::format("{} {} is outside {}..{}", what, value, min, max);
}

// "; the nearest that does: 2" of the values from 1 that work, the lesser of two equally near;
// nothing where none up to twice `value` does.
template <typename Works>
std::string nearest_that(std::string_view does, std::int64_t value, Works works) {
  for (std::int64_t away = 1; away <= value; ++away)
    for (const std::int64_t n : {value - away, value + away})
      if (n >= 1 && works(n)) return fmt::format("; the nearest that {}: {}", does, n);
  return "";
}

Reason wrong_sizes(const Plan& p, std::int64_t layers) {
  const Parallel& shape = p.parallel;
  if (Reason why = outside("model layers", layers, 1, kMaxLayers)) return why;
  if (Reason why = outside("dp", shape.dp, 1, kMaxDp)) return why;
  if (Reason why = outside("tp", shape.tp, 1, kMaxTp)) return why;
  if (Reason why = outside("pp", shape.pp, 1, kMaxStages)) return why;
  if (Reason why = outside("cp", shape.cp, 1, kMaxDp)) return why;
  if (Reason why = outside("dp x cp", std::int64_t{shape.dp} * shape.cp, 1, kMaxDp)) return why;
  if (const auto twice = named_twice(p.gpus))
    return fmt::format("each GPU of a node is one rank's; {} is named twice", *twice);
  if (Reason why = outside("chunks per stage", shape.chunks, 0, kMaxChunks)) return why;
  if (p.stage_layers.empty() && p.pieces() > layers)
    return fmt::format(
        "pp {}{} needs a layer per {}; the model has {} layers, for pp up to {}", shape.pp,
        p.pieces() > shape.pp ? fmt::format(" in {} pieces", p.pieces()) : "",
        p.pieces() > shape.pp ? "piece" : "stage", layers, layers * shape.pp / p.pieces());
  if (p.zero_stage < 0 || p.zero_stage > 3)
    return fmt::format("ZeRO stage {} does not exist (0..3)", p.zero_stage);
  if (Reason why = outside("prefetch depth", p.prefetch, 0, kMaxPrefetch)) return why;
  if (!(p.slack >= 0 && p.slack <= 1)) return fmt::format("slack {} is outside 0..1", p.slack);
  return std::nullopt;
}

Reason wrong_stages(const Plan& p, std::int64_t layers) {
  const std::vector<std::int32_t>& stages = p.stage_layers;
  if (stages.empty()) return std::nullopt;
  if (std::ssize(stages) != p.pieces())
    return fmt::format("layers are given for {} stages; pp is {}{}", stages.size(), p.parallel.pp,
                       p.pieces() > p.parallel.pp ? fmt::format(", in {} pieces", p.pieces()) : "");
  std::int64_t sum = 0;
  for (const std::int32_t& n : stages) {
    // The ends of the model are work enough for a piece.
    const bool may_be_empty =
        p.pieces() > p.parallel.pp && (&n == &stages.front() || &n == &stages.back());
    if (n < (may_be_empty ? 0 : 1))
      return fmt::format("a stage of {} layers; each needs at least 1", n);
    sum += n;
  }
  if (sum == layers) return std::nullopt;
  return fmt::format("the stages {} have {} layers; the model has {}", joined(stages, ", "), sum,
                     layers);
}

Reason wrong_recompute(const Plan& p, std::int64_t layers) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < p.recompute.size(); ++i) {
    const std::int32_t n = p.recompute[i].layers;
    const bool last = i + 1 == p.recompute.size();
    if (n == 0 && !last) return "only the last run of recompute may leave its layers out";
    if (n < 0) return fmt::format("{} layers of recompute", n);
    const RecomputeRun& run = p.recompute[i];
    if (!run.is_sound())
      return "recompute names operators, each once, in the mode operators, and there only";
    if (run.mode == Recompute::kOperators && p.gather.tiles() > 1)
      return fmt::format(
          "operators are recomputed or sent away as a whole: they need 1 tile, not {}",
          p.gather.tiles());
    sum += n;
    if (last && n == 0 && sum < layers) return std::nullopt;
  }
  if (sum == layers && p.recompute.back().layers == 0)
    return fmt::format("recompute of {} layers leaves none to its last run", sum);
  if (sum == layers) return std::nullopt;
  return fmt::format("recompute is given for {} of {} layers", sum, layers);
}

// " x cp 2", after another count of ranks.
std::string and_context(const Plan& p) {
  return p.parallel.cp > 1 ? fmt::format(" x cp {}", p.parallel.cp) : "";
}

// Those of them that exchange heads, the same way.
std::string and_exchange(const Plan& p) {
  if (p.parallel.ring == 1) return and_context(p);
  return p.exchange_ranks() > 1 ? fmt::format(" x cp {} / ring {}", p.parallel.cp, p.parallel.ring)
                                : "";
}

// Sequences that rings can balance, and kernels that merge what blocks of keys give.
Reason wrong_ring(const Plan& p) {
  const std::int32_t cp = p.parallel.cp, ring = p.parallel.ring;
  if (Reason why = outside("ring", ring, 1, kMaxRing)) return why;
  if (ring == 1) return std::nullopt;
  if (cp % ring != 0)
    return fmt::format("rings of {} do not divide cp {}; the nearest cp that they do: {}", ring, cp,
                       nearest_multiple(cp, ring));
  if (!find_kernel_set(p.kernel_set).fused_attention)
    return fmt::format(
        "a ring merges what blocks of keys give by their log-sum-exp, which kernel set {} does not "
        "store: it needs fused attention",
        p.kernel_set);
  if (p.gather.tiles() > 1)
    return fmt::format("a ring passes keys of whole operators on: it needs 1 tile, not {}",
                       p.gather.tiles());
  const std::int64_t stretches = std::int64_t{p.stretches()} * cp;
  if (p.batch.sequence % stretches == 0) return std::nullopt;
  return fmt::format(
      "sequence {} does not balance over cp {} with rings, which take 2 equal stretches for each "
      "rank; the nearest that does: {}",
      p.batch.sequence, cp, nearest_multiple(p.batch.sequence, stretches));
}

// Parts of sequences, and groups of replicas that hold all parts of theirs.
Reason wrong_context(const Plan& p) {
  const std::int32_t cp = p.parallel.cp;
  if (Reason why = wrong_ring(p)) return why;
  if (p.batch.sequence % cp != 0)
    return fmt::format("sequence {} does not split over cp {}; the nearest that does: {}",
                       p.batch.sequence, cp, nearest_multiple(p.batch.sequence, cp));
  const auto cut = [&](const char* what, std::int32_t n) -> Reason {
    if (n % cp == 0) return std::nullopt;
    return fmt::format(
        "{} in groups of {} cut the {} ranks of a sequence: they need a multiple of "
        "cp",
        what, n, cp);
  };
  if (Reason why = cut("shards", p.shards())) return why;
  if (Reason why = cut("parameter shards", p.parameter_shards)) return why;
  return cut("secondary shards", p.secondary);
}

Reason wrong_sharding(const Plan& p) {
  const Parallel& shape = p.parallel;
  if (shape.sequence_parallel && shape.tp == 1)
    return "sequence parallelism splits over tensor parallel ranks: it needs tp > 1";
  if (shape.shards < 0 || (shape.shards > 0 && p.replicas() % shape.shards != 0))
    return fmt::format("{} ranks that share a copy do not divide dp {}{}{}", shape.shards, shape.dp,
                       and_context(p),
                       nearest_that("do", std::max(shape.shards, 1), [&](std::int64_t n) {
                         return p.replicas() % n == 0 && n % shape.cp == 0;
                       }));
  if (p.shards() != p.replicas() && p.zero_stage == 0)
    return "ZeRO 0 shards nothing: sharding groups need stage 1, 2 or 3";
  if (p.partition_activations && (shape.tp == 1 || shape.sequence_parallel || !p.all_full()))
    return "partitioned checkpoints need tp > 1, no sequence parallelism and recompute full";
  const bool cuts_tokens = shape.sequence_parallel || p.partition_activations;
  if (cuts_tokens && p.rank_tokens() % shape.tp != 0)
    return fmt::format(
        "micro-batch {} x sequence {} does not split over tp {}{}; the nearest sequence that does: "
        "{}",
        p.batch.micro_batch, p.batch.sequence, shape.tp, and_context(p),
        nearest_multiple(p.batch.sequence, std::int64_t{shape.cp} * shape.tp /
                                               std::gcd(p.batch.micro_batch, shape.tp)));
  return std::nullopt;
}

Reason wrong_owners(const Plan& p) {
  if (!p.gather.owned()) return std::nullopt;
  if (p.zero_stage != 3)
    return fmt::format("ranks own layers with ZeRO stage 3 only, not {}", p.zero_stage);
  if (p.parallel.tp != 1)
    return fmt::format("a layer owned by one rank is whole: it needs tp 1, not {}", p.parallel.tp);
  if (Reason why = outside("dp of ranks that own a layer each", p.replicas(), 2, kMaxUnitLayers))
    return why;
  if (p.shards() == p.replicas()) return std::nullopt;
  return fmt::format("layers owned by one rank have one copy: sharding groups of {} have more",
                     p.shards());
}

// Groups of neighbours within those of `ranks` that share a copy.
Reason wrong_neighbours(const Plan& p, std::string_view what, std::int32_t n, std::int32_t ranks) {
  if (n == 0) return std::nullopt;
  const auto cuts = [&](std::int64_t m) {
    return m > 1 && m < ranks && ranks % m == 0 && m % p.parallel.cp == 0;
  };
  if (!cuts(n))
    return fmt::format(
        "{} in groups of {} do not cut the {} ranks that share a copy into several{}", what, n,
        ranks, nearest_that("do", n, cuts));
  if (p.zero_stage != 3)
    return fmt::format("{} are of sharded parameters: they need ZeRO stage 3, not {}", what,
                       p.zero_stage);
  if (!p.gather.owned()) return std::nullopt;
  return fmt::format("a layer owned by one rank is not sharded: no {}", what);
}

Reason wrong_groups(const Plan& p) {
  if (Reason why = wrong_neighbours(p, "parameter shards", p.parameter_shards, p.shards()))
    return why;
  if (p.parameter_shards > 0 && p.placement.params != Tier::kGpu)
    return fmt::format("parameter shards are gathered where they are, on the gpu, not on {}",
                       name(p.placement.params));
  return wrong_neighbours(p, "secondary shards", p.secondary, p.shards_of_parameters());
}

// The layers of a unit that stages and runs of recomputation have whole numbers of.
std::string nearest_unit(const Plan& p, std::int64_t layers) {
  return nearest_that("works", p.unit_layers(), [&](std::int64_t n) {
    for (std::int32_t piece = 0; piece < p.pieces(); ++piece)
      if (p.layers_of_piece(layers, piece) % n != 0) return false;
    return n <= kMaxUnitLayers &&
           std::all_of(p.recompute.begin(), p.recompute.end(),
                       [n](const RecomputeRun& run) { return run.layers % n == 0; });
  });
}

std::string_view piece_word(const Plan& p) {
  return p.pieces() > p.parallel.pp ? "piece" : "stage";
}

// Whether units of several layers cut the stages and what is recomputed alike.
Reason wrong_units(const Plan& p, std::int64_t layers) {
  const std::int32_t together = p.unit_layers();
  if (Reason why = outside("layers per gather unit", together, 1, kMaxUnitLayers)) return why;
  if (Reason why = outside("tiles", p.gather.tiles(), 1, kMaxTiles)) return why;
  if (together == 1) return std::nullopt;
  for (std::int32_t piece = 0; piece < p.pieces(); ++piece) {
    const std::int32_t n = p.layers_of_piece(layers, piece);
    if (n % together != 0)
      return fmt::format("the {} layers of {} {} are no multiple of the {} {}{}", n, piece_word(p),
                         piece, together,
                         p.gather.owned() ? "replicas that own one each" : "gathered together",
                         p.gather.owned() ? "" : nearest_unit(p, layers));
  }
  for (const RecomputeRun& run : p.recompute)
    if (run.layers % together != 0)
      return fmt::format("recompute of {} layers cuts units of {} layers gathered together{}",
                         run.layers, together, p.gather.owned() ? "" : nearest_unit(p, layers));
  return std::nullopt;
}

// Whether layers with one checkpoint cut stages, units or what is recomputed.
Reason wrong_checkpoints(const Plan& p, std::int64_t layers) {
  const std::int32_t together = p.checkpoint_layers, unit = p.unit_layers();
  if (Reason why = outside("layers per checkpoint", together, 1, kMaxUnitLayers)) return why;
  if (together == 1) return std::nullopt;
  if (!p.all_full())
    return fmt::format("checkpoints of {} layers need recompute full of all layers", together);
  const auto cut_stage = [&](std::int32_t n) -> std::optional<std::int32_t> {
    for (std::int32_t piece = 0; piece < p.pieces(); ++piece)
      if (p.layers_of_piece(layers, piece) % n != 0) return piece;
    return std::nullopt;
  };
  // An iteration of layer loops has whole units with owners.
  const auto cuts_units = [&](std::int32_t n) {
    return unit % n != 0 && (p.gather.owned() || n % unit != 0);
  };
  std::int32_t nearest = 1;
  for (std::int32_t n = 2; n <= kMaxUnitLayers; ++n)
    if (!cut_stage(n) && !cuts_units(n) && std::abs(n - together) < std::abs(nearest - together))
      nearest = n;
  if (const auto stage = cut_stage(together))
    return fmt::format(
        "checkpoints of {} layers do not divide the {} of {} {}; the nearest that do: {}", together,
        p.layers_of_piece(layers, *stage), p.pieces() > p.parallel.pp ? "piece" : "stage", *stage,
        nearest);
  if (!cuts_units(together)) return std::nullopt;
  return fmt::format("checkpoints of {} layers cut units of {}{}; the nearest that do not: {}",
                     together, unit, p.gather.owned() ? " with an owner each" : "", nearest);
}

// How large rings would have to be at least for so many heads to split, in words; or nothing.
std::string ring_for(const Plan& p, std::int64_t heads, std::int64_t pieces) {
  for (std::int64_t ring = 2; ring <= std::min<std::int64_t>(p.parallel.cp, kMaxRing); ++ring)
    if (p.parallel.cp % ring == 0 && heads % (pieces * (p.parallel.cp / ring)) == 0)
      return fmt::format("; with rings of {} they do", ring);
  return "";
}

// What experts that no tensor parallel rank cuts do not go together with.
Reason wrong_whole_experts(const Plan& p) {
  const Parallel& shape = p.parallel;
  if (shape.expert_tp > 1 && shape.expert_tp != shape.tp)
    return fmt::format("expert tensor parallelism {} is neither 1 nor tp {}", shape.expert_tp,
                       shape.tp);
  if (!shape.folds_experts()) return std::nullopt;
  const std::string whole = "with expert tensor parallelism 1";
  if (!shape.sequence_parallel)
    return whole + " each rank routes tokens of its own: it needs sequence parallelism";
  if (shape.ep % shape.tp != 0)
    return fmt::format(
        "{} groups have all tensor parallel ranks: ep {} is no multiple of tp {}; "
        "the nearest that is: {}",
        whole, shape.ep, shape.tp, nearest_multiple(shape.ep, shape.tp));
  return std::nullopt;
}

// Groups of ranks that share experts.
Reason wrong_expert_ranks(const Plan& p, const ModelShape& model) {
  if (Reason why = wrong_whole_experts(p)) return why;
  const std::int32_t ep = p.parallel.ep;
  if (ep == 1 && p.dispatcher != Plan().dispatcher)
    return fmt::format("dispatcher {} brings tokens to experts of other ranks: it needs ep > 1",
                       name(p.dispatcher));
  if (ep == 1) return std::nullopt;
  const bool folds = p.parallel.folds_experts();
  const std::int64_t across = std::int64_t{p.parallel.dp} * (folds ? p.parallel.tp : 1);
  const auto nearest = [&] {
    return nearest_that("does", ep, [&](std::int64_t n) {
      return model.experts % n == 0 && across % n == 0 && (!folds || n % p.parallel.tp == 0);
    });
  };
  if (model.experts % ep != 0)
    return fmt::format("{} experts do not split over ep {}{}", model.experts, ep, nearest());
  if (across % ep != 0)
    return fmt::format("ep {} does not divide {}dp {}{}", ep,
                       folds ? fmt::format("tp {} x ", p.parallel.tp) : "", p.parallel.dp,
                       nearest());
  if (p.shards() != p.replicas() || p.parameter_shards > 0 || p.secondary > 0)
    return "ranks with experts of their own share what is sharded over all replicas: ep needs no "
           "groups of shards";
  if (p.unit_layers() > 1)
    return fmt::format(
        "experts over ep {} are gathered by layer or by operator, not {} layers at "
        "a time",
        ep, p.unit_layers());
  return std::nullopt;
}

Reason wrong_ties(const Plan& p, const ModelShape& model) {
  if (!updates_each_micro_batch(p) || !model.tied) return std::nullopt;
  return fmt::format(
      "schedule {} updates each stage by itself, and an embedding that is the output head too is "
      "on "
      "two: pipedream-2bw and 1f1b take this model",
      name(p.schedule));
}

// Layers with experts and without that take turns: stages, units and what is recomputed have whole
// turns.
Reason wrong_turns(const Plan& p, const ModelShape& model) {
  if (model.kind_layers == 1) return std::nullopt;
  const std::string_view kinds =
      model.has_pattern ? "the model's pattern" : "layers with experts and without";
  if (p.gather.owned())
    return fmt::format("{} take turns of {}: no one rank owns one of them",
                       model.has_pattern ? "layers of several kinds" : kinds, model.kind_layers);
  if (model.has_pattern && p.checkpoint_layers == 1 && p.unit_layers() == 1) return std::nullopt;
  const std::int64_t turn =
      std::lcm(model.kind_layers, std::int64_t{std::lcm(p.unit_layers(), p.checkpoint_layers)});
  for (std::int32_t piece = 0; piece < p.pieces(); ++piece) {
    const std::int64_t n = p.layers_of_piece(model.layers, piece);
    if (n % turn == 0) continue;
    const std::string cut =
        fmt::format("the {} layers of {} {} cut turns of {} {}", n, piece_word(p), piece, turn,
                    model.has_pattern ? "layers, the model's pattern" : kinds);
    if (p.pieces() * turn > model.layers)
      return fmt::format("{}; {} layers have at most {} such {}s", cut, model.layers,
                         model.layers / turn, piece_word(p));
    return fmt::format("{}; the nearest number that does not: {}", cut, nearest_multiple(n, turn));
  }
  for (const RecomputeRun& run : p.recompute)
    if (run.layers % turn != 0)
      return fmt::format(
          "recompute of {} layers cuts turns of {} {}; the nearest number that does not: {}",
          run.layers, turn, model.has_pattern ? "layers, the model's pattern" : kinds,
          nearest_multiple(run.layers, turn));
  return std::nullopt;
}

Reason needs_experts(const Plan& p) {
  if (p.parallel.ep > 1)
    return fmt::format("ep {} splits experts; the model has none", p.parallel.ep);
  if (p.parallel.expert_tp > 0)
    return "expert tensor parallelism is of experts; the model has none";
  if (p.capacity_factor > 0) return "a capacity factor is of experts; the model has none";
  if (p.expert_imbalance != kUsualImbalance)
    return "an imbalance is that of experts; the model has none";
  if (p.dispatcher != Plan().dispatcher)
    return fmt::format("dispatcher {} brings tokens to experts; the model has none",
                       name(p.dispatcher));
  if (p.overlap.exchange) return "tokens are exchanged between experts; the model has none";
  if (p.overlap.weight_gradients)
    return "weight gradients beside the exchange are those of experts; the model has none";
  if (!p.overlap.shared_expert) return "the shared expert is one of experts; the model has none";
  return std::nullopt;
}

// Says what it takes that tokens are exchanged beside the layers of another micro-batch: two
// micro-batches whose passes follow each other, the exchanges of both, and no replay between them
// [MegatronCore].
Reason wrong_exchange_overlap(const Plan& p) {
  if (!p.overlap.exchange) return std::nullopt;
  if (p.parallel.ep == 1)
    return "with ep 1 no tokens are exchanged that could be beside another micro-batch: ep 2 or "
           "more, or no overlap of the exchange";
  const bool one_stage = p.schedule == Schedule::kOneForwardOneBackward;
  const bool has_pairs = p.schedule == Schedule::kInterleaved ||
                         p.schedule == Schedule::kDualPipe || p.schedule == Schedule::kDualPipeV;
  if (!one_stage && !has_pairs)
    return fmt::format(
        "tokens are exchanged beside another micro-batch in schedules 1f1b (pp 1), interleaved, "
        "dualpipe and dualpipe-v, not {}",
        name(p.schedule));
  if (one_stage && p.parallel.pp > 1)
    return fmt::format(
        "with pp {} tokens are exchanged beside another micro-batch in schedules interleaved, "
        "dualpipe and dualpipe-v, not 1f1b: a stage needs forwards and backwards that do not wait "
        "for each other",
        p.parallel.pp);
  if (p.micro_steps() < 2)
    return "tokens are exchanged beside another micro-batch: this needs 2 micro-steps, not 1";
  if (std::any_of(p.recompute.begin(), p.recompute.end(), [](const RecomputeRun& run) {
        return run.mode == Recompute::kFull || run.operators.has(LayerOperator::kExperts);
      }))
    return "a replay of whole layers or of experts exchanges their tokens again, which are then "
           "not "
           "beside another micro-batch: recompute none, selective or other operators";
  if (p.overlap.optimizer)
    return "layers are updated beside a backward that stands alone, tokens exchanged beside one "
           "that does not: one of the two";
  return std::nullopt;
}

// Says which parts of the work of experts may stand beside their exchange.
Reason wrong_expert_overlap(const Plan& p, const ModelShape& model) {
  if (Reason why = wrong_exchange_overlap(p)) return why;
  if (p.overlap.weight_gradients && p.parallel.ep == 1)
    return "with ep 1 no tokens are exchanged that weight gradients could be beside: ep 2 or more";
  if (p.overlap.weight_gradients && has_parts_of_backward(p))
    return fmt::format(
        "schedule {} has the gradients of weights in passes of their own: none are beside the "
        "exchange",
        name(p.schedule));
  if (p.overlap.weight_gradients && p.train.has_lora())
    return "the factors of LoRA come between the products of experts: their weight gradients are "
           "not beside the exchange";
  if (!p.overlap.shared_expert && model.shared_ffn == 0)
    return "the model has no shared expert that could be computed before tokens are exchanged";
  if (!p.overlap.shared_expert && p.parallel.ep == 1)
    return "with ep 1 no tokens are exchanged that the shared expert could come before: ep 2 or "
           "more";
  return std::nullopt;
}

// The operations that make matrices of one unit orthogonal are told apart by a number of 8 bits.
Reason wrong_matrices_of_experts(const Plan& p, const ModelShape& model) {
  if (!p.optimizer.row().matrices.orthogonal) return std::nullopt;
  // [derived] job.h: op_id. Beside experts that share a unit with the rest of a layer: at most
  // three matrices of attention over the layer's own tokens, three over another's, two of shared
  // experts.
  constexpr std::int64_t kMatrices = 1 << 8, kOthers = 8;
  const bool by_layer = p.gather != Gather::kOperator;
  const std::int64_t others = by_layer && p.parallel.ep == 1 ? kOthers : 0,
                     most = by_layer ? (kMatrices - others) / 2 : kMatrices,
                     held = model.experts / std::max(1, p.parallel.ep);
  if (held <= most) return std::nullopt;
  return fmt::format(
      "{} updates the matrices of each expert by themselves, of up to {} experts of a rank where "
      "it gathers by {}, not {}: a greater ep{} has fewer",
      p.optimizer.row().word, most, by_layer ? "layer" : "operator", held,
      by_layer ? ", or gathering by operator," : "");
}

// What a model with experts does not go together with, and what needs one.
Reason wrong_experts(const Plan& p, const ModelShape& model) {
  if (model.experts == 0) return needs_experts(p);
  if (reaches_across_steps(p) || updates_each_micro_batch(p))
    return fmt::format("schedule {} takes models without experts; 1f1b takes this one",
                       name(p.schedule));
  if (p.optimizer.row().matrices.in_blocks)
    return fmt::format(
        "{} keeps states in blocks of whole matrices, experts have none: adamw, sgd, muon and "
        "adafactor keep them by parameter or matrix",
        p.optimizer.row().word);
  if (Reason why = wrong_matrices_of_experts(p, model)) return why;
  if (p.gather.tiles() > 1)
    return fmt::format("experts are gathered whole: they need 1 tile, not {}", p.gather.tiles());
  // A unit keeps what decays first and what these ranks share last.
  if (p.parallel.tp > 1 && model.cuts_vectors && p.gather != Gather::kOperator)
    return fmt::format(
        "routers are whole on each of tp {} ranks, biases and sinks of their layer are cut: they "
        "are gathered by operator, not by layer",
        p.parallel.tp);
  if (p.parallel.cp > 1 && (p.capacity_factor > 0 || model.balances_experts))
    return fmt::format(
        "{} of whole sequences: cp 1, not {}",
        p.capacity_factor > 0 ? "the capacity of experts is" : "the auxiliary loss of experts is",
        p.parallel.cp);
  if (p.capacity_factor > 0 && p.capacity_factor * 1e9 < 1)
    return "a capacity factor below 1e-9 leaves experts nothing";
  const bool has_first_layers = model.dense_layers > 0 && model.kind_layers == 1;
  if (has_first_layers && p.unit_layers() > 1)
    return fmt::format("layers without experts and with some are not gathered {} at a time",
                       p.unit_layers());
  if (has_first_layers && p.checkpoint_layers > 1)
    return fmt::format(
        "layers without experts and with some are replayed one at a time: layers per checkpoint 1, "
        "not {}",
        p.checkpoint_layers);
  if (model.moves_selection_bias && p.delayed_update)
    return "the router's bias follows the loads of its own step: it needs no delayed update";
  if (p.expert_imbalance > 0 && p.expert_imbalance < 1)
    return fmt::format("the busiest rank has at least the mean: an imbalance of {} is below 1",
                       p.expert_imbalance);
  if (Reason why = wrong_turns(p, model)) return why;
  if (Reason why = wrong_expert_overlap(p, model)) return why;
  return wrong_expert_ranks(p, model);
}

// Whether all that tensor parallel ranks and tiles cut splits over so many of them.
bool splits(const Plan& p, const ModelShape& model, std::int64_t pieces) {
  const std::int64_t of_heads = pieces * p.exchange_ranks();
  const bool has_mlp = model.has_mlp;
  if (model.state_heads % pieces != 0) return false;
  if (model.heads % of_heads != 0 || model.kv_heads % of_heads != 0) return false;
  if (model.shared_ffn % pieces != 0 || (has_mlp && model.ffn % pieces != 0)) return false;
  return p.parallel.folds_experts() ||
         (model.expert_ffn % pieces == 0 && model.expert_bias % pieces == 0);
}

// Which other number of ranks or, with one rank or where no other number helps, of tiles would do.
std::string nearest_split(const Plan& p, const ModelShape& model) {
  const std::int64_t tp = p.parallel.tp, tiles = p.gather.tiles();
  const std::string ranks = nearest_that(
      "does", tp, [&](std::int64_t n) { return n <= kMaxTp && splits(p, model, n * tiles); });
  if (tp > 1 && !ranks.empty()) return ranks;
  const std::string pieces = nearest_that(
      "do", tiles, [&](std::int64_t n) { return n <= kMaxTiles && splits(p, model, tp * n); });
  return pieces.empty() ? "" : pieces + (pieces.ends_with(" 1") ? " tile" : " tiles");
}

// What tensor parallel ranks and tiles, of heads context parallel ranks too, cut into equal pieces.
Reason wrong_split(const Plan& p, const ModelShape& model) {
  const std::int64_t pieces = std::int64_t{p.parallel.tp} * p.gather.tiles();
  const auto check = [&](const char* what, std::int64_t n, const std::string& context) -> Reason {
    if (n % (context.empty() ? pieces : pieces * p.exchange_ranks()) == 0) return std::nullopt;
    const std::string ring = context.empty() ? "" : ring_for(p, n, pieces);
    return fmt::format("{} {} do not split over tp {}{}{}{}", n, what, p.parallel.tp, context,
                       p.gather.tiles() > 1 ? fmt::format(" x {} tiles", p.gather.tiles()) : "",
                       ring.empty() ? nearest_split(p, model) : ring);
  };
  if (Reason why = check("attention heads", model.heads, and_exchange(p))) return why;
  if (Reason why = check("key-value heads", model.kv_heads, and_exchange(p))) return why;
  if (Reason why = check("columns of the shared expert", model.shared_ffn, "")) return why;
  if (!p.parallel.folds_experts()) {
    if (Reason why = check("columns of an expert", model.expert_ffn, "")) return why;
    if (Reason why = check("columns of an expert's bias", model.expert_bias, "")) return why;
  }
  if (Reason why = check("heads or groups of states", model.state_heads, "")) return why;
  return model.has_mlp ? check("columns of the MLP", model.ffn, "") : std::nullopt;
}

Reason wrong_batch(const Plan& p) {
  const Batch& b = p.batch;
  if (Reason why = outside("global batch", b.global_batch, 1, kMaxGlobalBatch)) return why;
  if (Reason why = outside("micro-batch", b.micro_batch, 1, kMaxGlobalBatch)) return why;
  if (Reason why = outside("sequence", b.sequence, 1, kMaxSequence)) return why;
  if (b.global_batch * b.sequence > kMaxTokensPerStep)
    return fmt::format("global batch {} x sequence {} exceeds {} tokens per step; {} fits",
                       b.global_batch, b.sequence, kMaxTokensPerStep,
                       kMaxTokensPerStep / b.sequence);
  const std::int64_t step = b.micro_batch * p.parallel.dp;
  if (b.global_batch % step != 0)
    return fmt::format(
        "global batch {} is no multiple of micro-batch {} x dp {}; the nearest that is: {}",
        b.global_batch, b.micro_batch, p.parallel.dp, nearest_multiple(b.global_batch, step));
  const std::int64_t most = std::min(kMaxMicroSteps, kMaxPieceMicroSteps / p.pieces());
  if (p.micro_steps() > most)
    return fmt::format(
        "global batch {} in micro-batches of {} x dp {} takes {} micro-steps; up to {} are possible"
        " with pp {}",
        b.global_batch, b.micro_batch, p.parallel.dp, p.micro_steps(), most, p.parallel.pp);
  return std::nullopt;
}

// A piece is some sequences or a part of one.
Reason wrong_head(const Plan& p) {
  const std::int64_t n = p.head_chunks, b = p.batch.micro_batch * p.stretches(),
                     s = p.rank_sequence() / p.stretches();
  if (Reason why = outside("pieces of the output head", n, 1, kMaxHeadChunks)) return why;
  const auto splits = [b, s](std::int64_t pieces) {
    return b % pieces == 0 || (pieces % b == 0 && s % (pieces / b) == 0);
  };
  if (splits(n)) return std::nullopt;
  return fmt::format(
      "micro-batch {} x sequence {}{} does not split into {} equal pieces for the head{}",
      p.batch.micro_batch, p.rank_sequence(), p.stretches() > 1 ? ", in two stretches," : "", n,
      nearest_that("does", n, splits));
}

Reason wrong_placement(const Plan& p) {
  const StatePlacement& at = p.placement;
  if (p.offload.any() && at.optimizer != Tier::kGpu)
    return fmt::format("states on {} are there already: offloaded ones leave an optimizer on gpu",
                       name(at.optimizer));
  if (p.delayed_update && at.optimizer == Tier::kGpu)
    return "a delayed update runs on the host: it needs the optimizer on cpu or nvme";
  if (at.grads != Tier::kGpu && at.optimizer == Tier::kGpu)
    return fmt::format("gradients on {} need the optimizer on cpu or nvme", name(at.grads));
  if (at.params != Tier::kGpu && p.zero_stage != 3)
    return fmt::format("parameters on {} need ZeRO stage 3, not {}", name(at.params), p.zero_stage);
  if (at.grads != Tier::kGpu && p.zero_stage < 2)
    return fmt::format("gradients on {} need ZeRO stage 2 or 3, not {}", name(at.grads),
                       p.zero_stage);
  return std::nullopt;
}

// Two homes of a state.
Reason wrong_share(const Plan& p, ModelState state, std::string_view words) {
  const double near = p.placement.near_share(state);
  if (!(near >= 0 && near <= 1))
    return fmt::format("the share of nearer {} {} is outside 0..1", words, near);
  if (near == 0) return std::nullopt;
  if (p.placement.of(state) == Tier::kGpu)
    return fmt::format(
        "nothing is nearer than gpu: a share {} of nearer {} needs the others on cpu or nvme", near,
        words);
  // All nearer but what comes after the last layer: optimizer states alone.
  if (near == 1 && state != ModelState::kOptimizer)
    return fmt::format("a share 1 of nearer {} leaves none for {}: home {} has them all", words,
                       name(p.placement.of(state)), name(*p.placement.near(state)));
  return std::nullopt;
}

Reason wrong_shares(const Plan& p) {
  if (Reason why = wrong_share(p, ModelState::kParameters, "parameters")) return why;
  if (Reason why = wrong_share(p, ModelState::kGradients, "gradients")) return why;
  return wrong_share(p, ModelState::kOptimizer, "optimizer states");
}

// What it takes that some layers are updated nearer than others.
Reason wrong_near_optimizer(const Plan& p) {
  const double near = p.placement.optimizer_near;
  if (near == 0) return std::nullopt;
  if (p.optimizer.row().matrices.factored)
    return fmt::format("the sums of {} have one home: the nearer share is 0 with it, not {}",
                       p.optimizer.row().word, near);
  if (p.placement.optimizer != Tier::kCpu) return std::nullopt;
  if (p.delayed_update)
    return fmt::format(
        "a delayed update runs on the host: the share updated on the gpu is 0 with that, not {}; "
        "with the optimizer on nvme a share can be on cpu",
        near);
  if (p.precision.main_grad)
    return fmt::format(
        "the optimizer's copies of gradients have one home: the share updated on the gpu is 0 with "
        "them, not {}; recipe fp32-gradients has none",
        near);
  return std::nullopt;
}

// What an update takes that comes before the gradients of all layers are there.
Reason wrong_update_beside_backward(const Plan& p) {
  if (!p.overlap.optimizer) return std::nullopt;
  if (p.placement.optimizer == Tier::kGpu)
    return "layers are updated beside backward on the host: this needs the optimizer on cpu or "
           "nvme";
  if (p.delayed_update)
    return "a delayed update runs beside the next step, so that nothing is left to update beside "
           "backward: one of the two";
  if (p.loss_scaling)
    return fmt::format(
        "loss scaling looks for overflows in all gradients before the first update: kernel set {} "
        "updates no layer beside backward, those in bf16 and f32 do, or without scaling",
        p.kernel_set);
  if (p.clip)
    return "clipping takes the norm of all gradients before the first update: layers are updated "
           "beside backward without clipping only";
  if (!p.overlap.gradients && p.replicas() > 1 && p.zero_stage < 2)
    return fmt::format(
        "with ZeRO {} gradients that overlap nothing are reduced after the last backward: layers "
        "are updated beside it with their overlap, or with ZeRO 2 or 3",
        p.zero_stage);
  return std::nullopt;
}

// What sums over rows and columns of whole matrices need.
Reason wrong_row_sums(const Plan& p) {
  const std::string_view word = p.optimizer.row().word;
  if (p.parallel.tp > 1)
    return fmt::format("{} adds up rows and columns of whole matrices: it needs tp 1, not {}", word,
                       p.parallel.tp);
  if (p.gather.tiles() > 1)
    return fmt::format("{} adds up rows and columns of whole matrices: it needs 1 tile, not {}",
                       word, p.gather.tiles());
  if (p.parallel.ep > 1)
    return fmt::format("{} takes means over all experts: it needs ep 1, not {}", word,
                       p.parallel.ep);
  if (p.placement.optimizer != Tier::kGpu && p.zero_stage > 0 && p.shards() > 1)
    return fmt::format(
        "{} adds up over ranks on the gpu: with ZeRO {} over {} ranks the optimizer cannot be on "
        "{}, with ZeRO 0 it can",
        word, p.zero_stage, p.shards(), name(p.placement.optimizer));
  return std::nullopt;
}

// What the optimizer's states need of the layout, and which states there are.
Reason wrong_optimizer(const Plan& p) {
  const OptimizerRow& row = p.optimizer.row();
  const UpdateRule& rule = row.matrices;
  const std::int64_t block = p.optimizer.block;
  if (!rule.in_blocks && block != OptimizerChoice{}.block)
    return fmt::format("{} keeps no states in blocks: blocks of {} need adamw-8bit", row.word,
                       block);
  const Range range = decision("/optimizer/block").range;
  if (Reason why = outside("parameters per block of states", block, range.min, range.max))
    return why;
  if ((block & (block - 1)) != 0)
    return fmt::format("blocks of {} parameters are no power of two{}", block,
                       nearest_that("is", block, [&](std::int64_t n) {
                         return (n & (n - 1)) == 0 && n >= range.min && n <= range.max;
                       }));
  if (p.offload.moment1 && rule.moments < 1)
    return fmt::format("{} has no first moments that could be on cpu", row.word);
  if (p.offload.moment2 && rule.moments < 2 && !rule.factored)
    return fmt::format("{} has no second moments that could be on cpu", row.word);
  if (rule.orthogonal && p.parallel.tp > 1)
    return fmt::format("{} makes whole matrices orthogonal: it needs tp 1, not {}", row.word,
                       p.parallel.tp);
  if (rule.orthogonal && p.placement.optimizer != Tier::kGpu)
    return fmt::format("{} gathers what it updates with on the gpu: the optimizer cannot be on {}",
                       row.word, name(p.placement.optimizer));
  if (rule.orthogonal && p.unit_layers() > 1)
    return fmt::format("{} updates one layer after the other, not units of {} layers", row.word,
                       p.unit_layers());
  if (rule.factored) return wrong_row_sums(p);
  if (!row.has_two_rules()) return std::nullopt;
  if (p.gather.owned())
    return fmt::format("{} updates parts of a layer in two ways: no one rank owns it", row.word);
  if (p.gather.tiles() > 1)
    return fmt::format("{} updates parts of a layer in two ways: it needs 1 tile, not {}", row.word,
                       p.gather.tiles());
  return std::nullopt;
}

// Whether products can round their operands, in whole blocks of the global matrices.
Reason wrong_rounding(const Plan& p, const ModelShape& model) {
  const KernelSet& kernels = find_kernel_set(p.kernel_set);
  if (kernels.layer_products != LayerProducts::kRoundedToFp8) return std::nullopt;
  const std::string_view plain =
      std::string_view(p.kernel_set).substr(0, p.kernel_set.find(".fp8"));
  if (p.train.has_lora())
    return fmt::format("kernel set {} rounds no factors of LoRA; {} does not round", p.kernel_set,
                       plain);
  if (model.experts > 0)
    return fmt::format("kernel set {} rounds no products of experts; {} does not round",
                       p.kernel_set, plain);
  if (p.parallel.tp > 1 && model.uncut > 0)
    return fmt::format(
        "kernel set {} rounds gradients of latents, of which tp ranks have parts: it needs tp 1, "
        "not {}",
        p.kernel_set, p.parallel.tp);
  const std::int64_t pieces = std::int64_t{p.parallel.tp} * p.gather.tiles();
  if (kernels.rounds_whole && (pieces > 1 || p.parallel.cp > 1))
    return fmt::format(
        "kernel set {} has one scale for a whole matrix: it needs tp 1, cp 1 and 1 tile, not tp "
        "{}, cp {} and {}; {}.fp8 rounds in blocks",
        p.kernel_set, p.parallel.tp, p.parallel.cp, p.gather.tiles(), plain);
  if (kernels.rounds_whole) return std::nullopt;
  const auto fit = [&](std::int64_t n) {
    return n == 1 || (model.width_divisor % n == 0 && model.width_divisor / n % kFp8Block == 0);
  };
  if (fit(pieces)) return std::nullopt;
  std::int64_t works = pieces;
  while (!fit(works)) --works;
  return fmt::format("tp {}{} cuts the blocks of {} columns that {} rounds; {} not", p.parallel.tp,
                     p.gather.tiles() > 1 ? fmt::format(" x {} tiles", p.gather.tiles()) : "",
                     kFp8Block, p.kernel_set,
                     works > 1               ? fmt::format("{} pieces of a matrix do", works)
                     : p.gather.tiles() == 1 ? "tp 1 does"
                     : p.parallel.tp == 1    ? "1 tile does"
                                             : "tp 1 with 1 tile does");
}

// Whether the blocks of states lie within what the tensor parallel ranks have, and end with it.
Reason wrong_blocks(const Plan& p, const ModelShape& model) {
  if (!p.optimizer.row().matrices.in_blocks) return std::nullopt;
  const std::int64_t block = p.optimizer.block, tp = p.parallel.tp;
  const std::int64_t whole =
      tp > 1 ? std::gcd(model.width_divisor / tp, model.matrix_divisor) : model.matrix_divisor;
  if (whole % block == 0) return std::nullopt;
  const std::int64_t fits = whole & -whole;
  return fmt::format(
      "blocks of {} parameters do not fill the matrices of layers at tp {}; {}", block, tp,
      fits < decision("/optimizer/block").range.min ? "no block does"
                                                    : fmt::format("blocks of {} do", fits));
}

// The types of the frozen parameters of LoRA.
Reason wrong_base(const Plan& p) {
  const KernelSet& kernels = find_kernel_set(p.kernel_set);
  if (p.train.base == BaseType::kF32) {
    if (size_of(kernels.compute) >= size_of(DType::kF32))
      return fmt::format(
          "kernel set {} computes in {}: a base in f32 needs 16-bit kernels; compute", p.kernel_set,
          name(kernels.compute));
    if (p.zero_stage != 3)
      return fmt::format("a base in f32 is cast as it is gathered: it needs ZeRO stage 3, not {}",
                         p.zero_stage);
  }
  if (p.train.has_scale_codes() && p.parallel.tp * p.parallel.ep > 1)
    return fmt::format(
        "double quantisation has a constant for 256 blocks of a whole matrix, which tp {} and ep "
        "{} "
        "cut: it needs tp 1 and ep 1; base {} does not",
        p.parallel.tp, p.parallel.ep, name(p.train.is_fp4() ? BaseType::kFp4 : BaseType::kNf4));
  return std::nullopt;
}

// Returns why ranks have no whole blocks of 4-bit codes, or no unit for biases of experts.
Reason wrong_codes(const Plan& p, const ModelShape& model) {
  if (!p.train.has_codes()) return std::nullopt;
  if (p.parallel.ep > 1 && model.expert_bias > 0)
    return fmt::format("biases of experts have no unit beside codes: base {} needs ep 1, not {}",
                       name(p.train.base), p.parallel.ep);
  const std::int64_t tp = p.parallel.tp;
  if (tp == 1 || (model.width_divisor % tp == 0 && model.width_divisor / tp % kCodeBlock == 0))
    return std::nullopt;
  return fmt::format(
      "tp {} cuts the blocks of {} elements that share a scale; base compute has none", tp,
      kCodeBlock);
}

// A model whose head is its embedding does not save the head alone.
Reason wrong_saved(const Plan& p, const ModelShape& model) {
  if (!model.tied || p.train.saved != LoraSaved::kHead) return std::nullopt;
  return "the model's head is its embedding: what is saved is both, not the head alone";
}

// Of a shape that the model's matrices allow, and what its unit goes with.
Reason wrong_training(const Plan& p) {
  const TrainedChoice& train = p.train;
  TrainedChoice plain;
  plain.what = train.what;
  plain.vision = train.vision;
  if (!train.has_lora() && train != plain)
    return fmt::format("a rank, alpha, targets or base of LoRA need train lora, not {}",
                       name(train.what));
  if (Reason why = outside("rank of LoRA", train.rank, 1, kMaxLoraRank)) return why;
  if (Reason why = outside("alpha of LoRA", train.alpha, 1, kMaxLoraAlpha)) return why;
  if (!train.has_lora()) return std::nullopt;
  if (p.gather.owned()) return "the factors of LoRA are cut over all ranks: no one rank owns them";
  if (p.gather.tiles() > 1)
    return fmt::format("the factors of LoRA are not cut into tiles: they need 1, not {}",
                       p.gather.tiles());
  if (p.optimizer.row().has_two_rules())
    return fmt::format("LoRA leaves the matrices frozen that {} has another rule for; adamw trains",
                       p.optimizer.row().word);
  return wrong_base(p);
}

// A type that kernels of the set take beside the compute type.
Reason wrong_state(const KernelSet& kernels, const char* what, DType dtype) {
  const bool mixed = size_of(kernels.compute) < size_of(DType::kF32);
  if (dtype == kernels.compute || (mixed && dtype == DType::kF32)) return std::nullopt;
  return fmt::format("kernel set {} keeps {} in {}{}, not {}", kernels.id, what,
                     name(kernels.compute), mixed ? " or f32" : "", name(dtype));
}

// Casts between the states and what 16-bit kernels read and write.
Reason wrong_casts(const Plan& p, const KernelSet& kernels) {
  const PrecisionRecipe& r = p.precision;
  const bool mixed = size_of(kernels.compute) < size_of(DType::kF32);
  if (p.casts_params() && !(mixed && r.param == DType::kF32))
    return fmt::format("kernel set {} computes in {}; parameters in {} do not match", p.kernel_set,
                       name(kernels.compute), name(r.param));
  if (p.casts_params() && p.zero_stage != 3)
    return fmt::format(
        "parameters in {} are cast as they are gathered: they need ZeRO stage 3, "
        "not {}",
        name(r.param), p.zero_stage);
  if (r.grad_cast == GradientCast::kNone) return std::nullopt;
  if (r.grad == kernels.compute)
    return fmt::format("gradients in {} are what backward writes: there is nothing to cast",
                       name(r.grad));
  if (p.zero_stage < 2)
    return fmt::format("gradients that are cast to {} need ZeRO stage 2 or 3, not {}", name(r.grad),
                       p.zero_stage);
  return std::nullopt;
}

Reason wrong_precision(const Plan& p) {
  const KernelSet& kernels = find_kernel_set(p.kernel_set);
  const PrecisionRecipe& r = p.precision;
  if (Reason why = wrong_casts(p, kernels)) return why;
  if (!r.separate_master && r.master != r.param)
    return fmt::format("a master copy in {} of parameters in {} must be separate", name(r.master),
                       name(r.param));
  if (Reason why = wrong_state(kernels, "gradients", r.grad)) return why;
  if (Reason why = wrong_state(kernels, "the master copy", r.master)) return why;
  if (Reason why = wrong_state(kernels, "moments", r.moments)) return why;
  if (r.moments == DType::kF16)
    return "moments in f16 do not train: squares of small gradients are zero in it; use f32";
  if (r.main_grad && r.grad == r.moments)
    return fmt::format("a copy of the gradients for the optimizer in {}, as they are, has no use",
                       name(r.grad));
  if (p.loss_scaling && !kernels.loss_scaling)
    return fmt::format("kernel set {} has no use for loss scaling", p.kernel_set);
  return std::nullopt;
}

// Returns why inputs of products cannot be kept as codes.
Reason wrong_kept_codes(const Plan& p) {
  if (!p.low_precision.keeps_codes) return std::nullopt;
  const KernelSet& kernels = find_kernel_set(p.kernel_set);
  if (kernels.layer_products == LayerProducts::kAsStored)
    return fmt::format(
        "kernel set {} has no codes that inputs of products could be kept as; sets "
        "with fp8 have",
        p.kernel_set);
  if (kernels.rounds_whole)
    return fmt::format(
        "kernel set {} has one scale for a whole matrix, which no row of codes has; "
        "sets that round in blocks have",
        p.kernel_set);
  if (p.train.has_lora())
    return "inputs of products are kept as codes, which factors of LoRA do not read";
  for (const RecomputeRun& run : p.recompute)
    if (!run.on_cpu.empty() || !run.on_nvme.empty())
      return "codes of inputs stay on the GPU: no operator's results go to another tier beside "
             "them";
  return std::nullopt;
}

Reason wrong_kernels(const Plan& p) {
  if (Reason why = wrong_kept_codes(p)) return why;
  if (p.dropout && !find_kernel_set(p.kernel_set).dropout)
    return fmt::format("kernel set {} has no dropout; those without fused attention have",
                       p.kernel_set);
  if (p.launch == LaunchMode::kGraph && find_kernel_set(p.kernel_set).runs_on == RunsOn::kCpu)
    return fmt::format("kernel set {} knows no graphs; launch mode stream", p.kernel_set);
  return std::nullopt;
}

// States go through a whole sequence, and layers of a pattern come in whole turns of it.
Reason wrong_pattern(const Plan& p, const ModelShape& model) {
  if (!model.has_pattern) return std::nullopt;
  if (model.has_states && p.parallel.cp > 1)
    return fmt::format(
        "states of mixers go through a whole sequence, which no ranks share yet: cp 1, not {}",
        p.parallel.cp);
  if (model.has_states && p.gather.tiles() > 1)
    return fmt::format("heads of states are worked on together: they need 1 tile, not {}",
                       p.gather.tiles());
  // A unit keeps what decays first and what these ranks share last.
  const bool is_divided = model.has_states && model.uncut > 0 && p.parallel.tp > 1;
  if (is_divided && p.gather != Gather::kOperator)
    return fmt::format(
        "some matrices are whole on each of tp {} ranks, vectors of states are cut: they are "
        "gathered by operator, not by layer",
        p.parallel.tp);
  if (is_divided && p.optimizer.row().has_two_rules())
    return fmt::format(
        "{} updates vectors of states that tp {} ranks cut beside matrices that each has whole: it "
        "needs tp 1",
        p.optimizer.row().word, p.parallel.tp);
  return model.experts == 0 ? wrong_turns(p, model) : std::nullopt;
}

// What layers do that a model of GPT-2's or Llama's family has not.
Reason wrong_layers(const Plan& p, const ModelShape& model) {
  if (p.gather.owned() && p.unit_layers() % model.turn_layers != 0)
    return fmt::format(
        "{} layers with an owner each come at a time, which cuts turns of {} layers; the nearest "
        "dp{} that does not: {}",
        p.unit_layers(), model.turn_layers, and_context(p),
        nearest_multiple(p.unit_layers(), model.turn_layers));
  if (model.whole_qk_norm && p.gather.tiles() > 1)
    return fmt::format("queries and keys are normalised over all heads together: 1 tile, not {}",
                       p.gather.tiles());
  if (model.bare_first_branch && p.unit_layers() > 1)
    return fmt::format("the first layer lacks a norm: layers are not gathered {} at a time",
                       p.unit_layers());
  if (model.bare_first_branch && p.checkpoint_layers > 1)
    return fmt::format(
        "the first layer lacks a norm: layers are replayed one at a time, not {} per checkpoint",
        p.checkpoint_layers);
  if (model.has_index && p.parallel.cp > 1)
    return fmt::format(
        "an indexer chooses among the keys of a whole sequence, which no ranks share yet: cp 1, "
        "not {}",
        p.parallel.cp);
  const bool replays_scores =
      !find_kernel_set(p.kernel_set).fused_attention &&
      std::any_of(p.recompute.begin(), p.recompute.end(),
                  [](const RecomputeRun& run) { return run.mode == Recompute::kSelective; });
  if (model.has_index && replays_scores)
    return fmt::format(
        "attention to chosen keys stores no scores, which recompute selective would drop with "
        "kernel set {}: take recompute attention",
        p.kernel_set);
  if (model.sinks && replays_scores)
    return fmt::format(
        "sinks stand beside scores that recompute selective drops with kernel set {}: take "
        "recompute none or full, or the operator attention",
        p.kernel_set);
  if (p.parallel.ring > 1 && !model.plain_scores)
    return fmt::format(
        "a ring merges blocks of plain scores: the model's windows, caps, sinks, slopes, divisor "
        "of scores or keys after the query need ring 1, not {}",
        p.parallel.ring);
  return std::nullopt;
}

// What an encoder's output, which the layers of a decoder read, does not go together with yet.
Reason wrong_encoder(const Plan& p, const ModelShape& model) {
  if (model.encoder_layers == 0) return std::nullopt;
  const auto needs = [](const char* what, const char* works, auto is) {
    return fmt::format("a decoder that reads an encoder's output needs {} {}, not {}", what, works,
                       is);
  };
  if (p.parallel.pp > 1) return needs("pp", "1", p.parallel.pp);
  if (p.parallel.cp > 1) return needs("cp", "1", p.parallel.cp);
  if (p.schedule != Schedule::kOneForwardOneBackward)
    return needs("schedule", "1f1b", name(p.schedule));
  if (p.gather.tiles() > 1) return needs("tiles", "1", p.gather.tiles());
  if (p.unit_layers() > 1) return needs("layers per gather unit", "1", p.unit_layers());
  if (p.checkpoint_layers > 1) return needs("layers per checkpoint", "1", p.checkpoint_layers);
  if (p.train.what != Trained::kAll) return needs("train", "all", name(p.train.what));
  if (p.dropout) return needs("dropout", "off", "on");
  return std::nullopt;
}

// Says what modules of multi-token prediction, behind the last layer, do not go together with yet.
Reason wrong_mtp(const Plan& p, const ModelShape& model) {
  if (model.mtp_layers == 0) return std::nullopt;
  const auto needs = [](const char* what, const char* works, auto is) {
    return fmt::format("a model with mtp_layers needs {} {}, not {}", what, works, is);
  };
  const ChunkMap pieces = pieces_of(p);
  const bool turns = pieces.size() > 1 && pieces.at(0).rank == pieces.at(pieces.size() - 1).rank;
  if (turns || pairs_replicas(p) || reaches_across_steps(p) || updates_each_micro_batch(p))
    return needs("schedule", "1f1b, gpipe, interleaved or zb-h1", name(p.schedule));
  if (p.gather.tiles() > 1) return needs("tiles", "1", p.gather.tiles());
  if (p.unit_layers() > 1) return needs("layers per gather unit", "1", p.unit_layers());
  if (p.checkpoint_layers > 1) return needs("layers per checkpoint", "1", p.checkpoint_layers);
  if (p.delayed_update) return needs("a delayed update", "off", "on");
  if (p.dropout) return needs("dropout", "off", "on");
  return std::nullopt;
}

// Says what a vision tower in front of the model does not go together with yet. Its layers are on
// the stage with the first ones.
Reason wrong_tower(const Plan& p, const ModelShape& model) {
  if (model.vision_layers == 0) {
    if (p.train.vision == VisionTrained::kModel) return std::nullopt;
    return fmt::format("what is trained of a vision tower is model, not {}: the model has none",
                       name(p.train.vision));
  }
  const auto needs = [](const char* what, const char* works, auto is) {
    return fmt::format("a model with a vision tower needs {} {}, not {}", what, works, is);
  };
  const ChunkMap pieces = pieces_of(p);
  const bool turns = pieces.size() > 1 && pieces.at(0).rank == pieces.at(pieces.size() - 1).rank;
  if (turns || pairs_replicas(p) || reaches_across_steps(p) || updates_each_micro_batch(p))
    return needs("schedule", "1f1b, gpipe, interleaved or zb-h1", name(p.schedule));
  if (p.parallel.cp > 1) return needs("cp", "1", p.parallel.cp);
  if (p.gather.tiles() > 1) return needs("tiles", "1", p.gather.tiles());
  if (p.unit_layers() > 1) return needs("layers per gather unit", "1", p.unit_layers());
  if (p.checkpoint_layers > 1) return needs("layers per checkpoint", "1", p.checkpoint_layers);
  if (p.train.what == Trained::kLayers) return needs("train", "all or lora", name(p.train.what));
  if (p.overlap.exchange) return needs("an exchange beside other layers", "off", "on");
  if (p.delayed_update) return needs("a delayed update", "off", "on");
  if (p.dropout) return needs("dropout", "off", "on");
  if (model.vision_divisor % p.parallel.tp != 0)
    return fmt::format("tp {} does not divide the heads and columns of the vision tower{}",
                       p.parallel.tp, nearest_that("does", p.parallel.tp, [&](std::int64_t n) {
                         return model.vision_divisor % n == 0;
                       }));
  const bool cuts_tokens = p.parallel.sequence_parallel || p.partition_activations;
  const std::int64_t patches = p.batch.micro_batch * model.vision_patches;
  if (cuts_tokens && patches % p.parallel.tp != 0)
    return fmt::format("micro-batch {} x {} patches of images do not split over tp {}",
                       p.batch.micro_batch, model.vision_patches, p.parallel.tp);
  if (model.vision_tokens > p.batch.sequence)
    return fmt::format("sequence {} is shorter than the {} tokens of its images", p.batch.sequence,
                       model.vision_tokens);
  return outside("layers of model and vision tower", model.layers + model.vision_layers, 1,
                 kMaxLayers);
}

Reason beyond_counting(const Plan& p, const ModelShape& model) {
  if (const double flops = flops_bound(p, model); flops > kMaxFlopsPerOp)
    return fmt::format(
        "micro-batch {} x sequence {} makes operations of up to {:.1e} flop; up to {:.1e} can be "
        "counted",
        p.batch.micro_batch, p.batch.sequence, flops, kMaxFlopsPerOp);
  if (const double bytes = total_bytes_bound(p, model); bytes > kMaxTotalBytes)
    return fmt::format("{} ranks hold up to {:.1e} bytes; up to {:.1e} can be counted",
                       ranks_words(p), bytes, kMaxTotalBytes);
  return std::nullopt;
}

Reason wrong_factors(const Plan& p) {
  for (const auto& [what, factor] : {std::pair{"capacity factor", p.capacity_factor},
                                     std::pair{"expert imbalance", p.expert_imbalance}})
    if (!(factor >= 0 && factor <= static_cast<double>(kMaxExpertFactor)))
      return fmt::format("{} {} is outside 0..{}", what, factor, kMaxExpertFactor);
  return std::nullopt;
}

// Of counts that no rule above has words of its own for.
Reason wrong_count(const Plan& p) {
  static const std::vector<const Decision*> kCounts = [] {
    std::vector<const Decision*> rows;
    for (const Decision& row : kChoices)
      if (std::holds_alternative<std::int64_t>(row.plain())) rows.push_back(&row);
    return rows;
  }();
  for (const Decision* row : kCounts) {
    const auto value = std::get<std::int64_t>(row->field.get(p));
    if (value >= row->range.min && value <= row->range.max) continue;
    return outside(std::string(row->pointer).c_str(), value, row->range.min, row->range.max);
  }
  return std::nullopt;
}

Reason wrong_lora_rank(const Plan& p, const ModelShape& model) {
  if (!p.train.has_lora() || p.train.rank <= model.hidden) return std::nullopt;
  return fmt::format("factors of rank {} are larger than the model's matrices; rank {} fits",
                     p.train.rank, model.hidden);
}

Reason wrong_positions(const Plan& p, const ModelShape& model) {
  if (model.positions == 0 || p.batch.sequence <= model.positions) return std::nullopt;
  return fmt::format("sequence {} is longer than the model's {} positions", p.batch.sequence,
                     model.positions);
}

using Layers = std::int64_t;
// Of a plan for so many layers, in this order.
constexpr Reason (*kPlanRules[])(const Plan& p, Layers layers) = {
    wrong_sizes,
    wrong_stages,
    wrong_recompute,
    [](const Plan& p, Layers) { return wrong_batch(p); },
    [](const Plan& p, Layers) { return schedule_fault(p); },
    [](const Plan& p, Layers) { return wrong_context(p); },
    [](const Plan& p, Layers) { return wrong_sharding(p); },
    [](const Plan& p, Layers) { return wrong_owners(p); },
    [](const Plan& p, Layers) { return wrong_groups(p); },
    wrong_units,
    wrong_checkpoints,
    [](const Plan& p, Layers) { return wrong_head(p); },
    [](const Plan& p, Layers) { return wrong_placement(p); },
    [](const Plan& p, Layers) { return wrong_shares(p); },
    [](const Plan& p, Layers) { return wrong_near_optimizer(p); },
    [](const Plan& p, Layers) { return wrong_update_beside_backward(p); },
    [](const Plan& p, Layers) { return wrong_optimizer(p); },
    [](const Plan& p, Layers) { return wrong_training(p); },
    [](const Plan& p, Layers) { return wrong_kernels(p); },
    [](const Plan& p, Layers) { return wrong_factors(p); },
    [](const Plan& p, Layers) { return wrong_count(p); },
    [](const Plan& p, Layers) { return wrong_precision(p); }};
// Then of plan and model together.
constexpr Reason (*kModelRules[])(const Plan& p, const ModelShape& model) = {
    wrong_ties,      wrong_experts, wrong_split, wrong_pattern,   wrong_layers,
    wrong_encoder,   wrong_mtp,     wrong_tower, wrong_blocks,    wrong_rounding,
    wrong_lora_rank, wrong_codes,   wrong_saved, wrong_positions, beyond_counting};

template <typename Rules, typename What>
std::optional<Refusal> first_broken(const Rules& rules, const Plan& plan, const What& what) {
  int kept = 0;
  for (const auto rule : rules) {
    if (Reason why = rule(plan, what)) return Refusal{*std::move(why), kept};
    ++kept;
  }
  return std::nullopt;
}

Reason why_of(std::optional<Refusal> refusal) {
  if (!refusal) return std::nullopt;
  return std::move(refusal->why);
}

}  // namespace

std::optional<Refusal> refusal_of(const Plan& plan, const ModelShape& model) {
  if (auto refusal = first_broken(kPlanRules, plan, model.layers)) return refusal;
  auto refusal = first_broken(kModelRules, plan, model);
  if (refusal) refusal->kept += static_cast<int>(std::size(kPlanRules));
  return refusal;
}

Reason illegal(const Plan& plan, std::int64_t layers) {
  return why_of(first_broken(kPlanRules, plan, layers));
}

Reason illegal(const Plan& plan, const ModelShape& model) {
  return why_of(refusal_of(plan, model));
}

}  // namespace zplan
