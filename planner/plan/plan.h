// Plan: every decision of a training step and nothing computed from them. Schema "zplan.plan/1".
// Only planner/lower makes operations of it (law 1): place, cost, sim and exec read the Job.
// Search, certainty, validate, foreign and the command line read single decisions, for bounds,
// words and files.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/plan/gather.h"
#include "planner/plan/low_precision.h"
#include "planner/plan/optimizer_kind.h"
#include "planner/plan/trained.h"
#include "planner/program/job/job.h"
#include "planner/program/job/ops.h"

namespace zplan {

// Selective: the scores and probabilities of attention are recomputed [Korthikanti22 sec 5]; the
// same as none on kernel sets that never store them. Operators: what some operators of the layer
// give, by name.
enum class Recompute : std::uint8_t { kNone, kSelective, kFull, kOperators };
// These parts of a layer can be computed again by themselves: both norms, each from its kept or
// replayed input; queries, keys and values, rotated where the model rotates; attention; its
// projection, with the sum of the residual; the first product of the MLP; the activation function;
// all that stands in the place of an MLP where a layer has experts, from the router to the sum of
// what comes back, of which the two before it are a part.
enum class LayerOperator : std::uint8_t {
  kNorm,
  kQkv,
  kAttention,
  kProjection,
  kFc1,
  kActivation,
  kExperts,
};
enum class Schedule : std::uint8_t {
  kOneForwardOneBackward,
  kGpipe,
  kInterleaved,
  kZeroBubbleV,
  kZeroBubbleH1,
  kDualPipeV,
  kDualPipe,
  kDoubleBuffered,
  kWeightStashing,
  kFile,  // Plan::schedule_file
};
// Which of data and pipeline varies faster over the ranks; the tensor index varies fastest.
enum class RankOrder : std::uint8_t { kDataFirst, kPipelineFirst };

// This brings tokens to experts on other ranks (planner/lower/blocks/token_dispatch.h). DeepEP and
// HybridEP are libraries that send a token once to each node that has one of its experts, and from
// there to the ranks that have them [DeepEP], [HybridEP].
enum class Dispatcher : std::uint8_t { kAllToAll, kAllGather, kDeepEp, kHybridEp };
constexpr bool sends_tokens_once(Dispatcher dispatcher) {
  return dispatcher == Dispatcher::kDeepEp || dispatcher == Dispatcher::kHybridEp;
}

// The rank with the most work for its experts has so many times the mean of it where nobody says
// how uneven the router is. [derived] Over a validation set the busiest of 64 experts has 1.5
// to 1.7 times the mean with an auxiliary loss and 1.04 times with a bias [Wang24 Table 2]; of
// ranks with several experts that is about 1.1 among 8 and 1.25 among 64, if the loads of experts
// are independent: 1.15 is between these. No published run states it.
inline constexpr double kUsualImbalance = 1.15;

struct Parallel {
  std::int32_t dp = 1;  // data parallel replicas
  std::int32_t tp = 1;  // tensor parallel ranks of a replica [Shoeybi19]
  std::int32_t pp = 1;  // pipeline stages
  // Pieces of the model that a stage has; 0: as few as the schedule takes [Narayanan21 sec 2.2].
  std::int32_t chunks = 0;
  // Rounds of equally many micro-batches that a step is cut into: the pipeline runs empty after
  // each, as where gradients are accumulated over whole runs of it. Updates come after the last.
  std::int32_t flushes = 1;
  bool sequence_parallel = false;  // norms and residuals split over the tp ranks [Korthikanti22]
  // Ranks that share one copy of what ZeRO shards; each of the replicas() / shards groups has a
  // copy of its own. 0: all replicas [Zhao23 sec 3.2.2].
  std::int32_t shards = 0;
  // Ranks that each have a part of every sequence and, in attention, of the heads [Jacobs23]; or of
  // which so many form rings, around which keys and values go [Liu23], and the others do so
  // [Fang24].
  std::int32_t cp = 1;
  std::int32_t ring = 1;
  // Neighbouring replicas that each have an equal part of the experts of a layer [Lepikhin20 sec
  // 3.2]; the other replicas have copies of these.
  std::int32_t ep = 1;
  // Tensor parallel ranks that cut each expert: 0 or tp: all; 1: none, and ep counts ranks of all
  // replicas, tensor parallel ones first [Folding25].
  std::int32_t expert_tp = 0;

  // Whether tensor parallel ranks have whole experts, each for tokens of its own.
  bool folds_experts() const { return expert_tp == 1 && tp > 1; }
  // Returns whether each tensor parallel rank brings its own tokens to experts, whole or cut, and
  // not all tokens of the group.
  bool routes_own_tokens() const { return sequence_parallel && tp > 1 && ep > 1; }
  // Of those that share experts: ranks with the same tensor index.
  std::int32_t expert_replicas() const { return folds_experts() ? ep / tp : ep; }

  std::int64_t ranks() const { return std::int64_t{dp} * tp * pp * cp; }
  friend bool operator==(const Parallel&, const Parallel&) = default;
};

// The states of a model, of which each has homes.
enum class ModelState : std::uint8_t { kParameters, kGradients, kOptimizer };
inline constexpr ModelState kModelStates[] = {ModelState::kParameters, ModelState::kGradients,
                                              ModelState::kOptimizer};

// Home tier of each state between uses. `activations`: the inputs of the layers.
struct StatePlacement {
  Tier params = Tier::kGpu;
  Tier grads = Tier::kGpu;
  Tier optimizer = Tier::kGpu;
  Tier activations = Tier::kGpu;
  // Of the layers of each stage so large a share, the first ones, has the state one tier nearer
  // than the others: on the GPU where these have it on the CPU, on the CPU where on NVMe. Where
  // optimizer states are on the GPU it updates these layers [TwinFlow].
  double optimizer_near = 0;
  double params_near = 0;
  double grads_near = 0;

  Tier of(ModelState state) const;
  double near_share(ModelState state) const;
  double& near_share(ModelState state);
  // The nearer home; nothing: all layers have one. And how many of so many units of a stage's
  // layers have it: never a part of one, and no more than the share says.
  std::optional<Tier> near(ModelState state) const;
  std::int32_t near_units(ModelState state, std::int32_t units) const;
  // All homes that something has.
  std::vector<Tier> tiers() const;
  friend bool operator==(const StatePlacement&, const StatePlacement&) = default;
};

// Where gradients that backward writes in the compute type become those in fp32 that are added up:
// nowhere, since backward writes what is added up; or before or after they are reduced over ranks.
enum class GradientCast : std::uint8_t { kNone, kBeforeReduction, kAfterReduction };

// Optimizer states that live on the CPU while the update runs on the GPU, which brings them piece
// by piece and sends them back.
struct OffloadedStates {
  bool master = false, moment1 = false, moment2 = false;
  bool any() const { return master || moment1 || moment2; }
  friend bool operator==(const OffloadedStates&, const OffloadedStates&) = default;
};

// Element types of the model states. Parameters have the type that the kernel set computes in, or
// are the fp32 master themselves and are cast to it whenever they are gathered [Zhao23 sec 4.4].
// `grad`: what is added up, the compute type or fp32 (18 bytes per parameter [Narayanan21]), and
// without a cast also what backward writes. `master`: separate full-precision copy of the
// parameters; without one the parameters are the master. `main_grad`: the optimizer keeps a copy of
// the gradients in the type of the moments (20 bytes per parameter [Rajbhandari21 sec 3]).
struct PrecisionRecipe {
  DType param = DType::kF32;
  DType grad = DType::kF32;
  DType master = DType::kF32;
  DType moments = DType::kF32;
  bool separate_master = false;
  bool main_grad = false;
  GradientCast grad_cast = GradientCast::kNone;
  friend bool operator==(const PrecisionRecipe&, const PrecisionRecipe&) = default;
};

class OperatorSet {
 public:
  constexpr OperatorSet() = default;
  constexpr OperatorSet(LayerOperator op) { add(op); }
  constexpr OperatorSet(std::initializer_list<LayerOperator> operators) {
    for (const LayerOperator op : operators) add(op);
  }
  constexpr void add(LayerOperator op) { bits_ |= bit(op); }
  bool has(LayerOperator op) const { return (bits_ & bit(op)) != 0; }
  bool empty() const { return bits_ == 0; }
  std::uint32_t bits() const { return bits_; }
  friend OperatorSet operator|(OperatorSet a, OperatorSet b) { return a.bits_ |= b.bits_, a; }
  friend OperatorSet operator|(LayerOperator a, OperatorSet b) { return OperatorSet(a) | b; }
  OperatorSet without(OperatorSet others) const {
    return others.bits_ = bits_ & ~others.bits_, others;
  }
  bool meets(OperatorSet other) const { return (bits_ & other.bits_) != 0; }
  friend auto operator<=>(const OperatorSet&, const OperatorSet&) = default;

 private:
  static constexpr std::uint32_t bit(LayerOperator op) { return 1U << static_cast<unsigned>(op); }
  std::uint32_t bits_ = 0;
};

// Consecutive layers that keep the same for their backward.
struct RecomputeRun {
  Recompute mode = Recompute::kNone;
  std::int32_t layers = 0;  // 0, of the last run only: all that are left
  // Of mode kOperators: those that are recomputed, and those whose results go to another tier and
  // come back for backward [Huang20].
  OperatorSet operators{};
  OperatorSet on_cpu{};
  OperatorSet on_nvme{};
  // Whether each operator is named once at most, and one at least where the mode is kOperators.
  bool is_sound() const;
  friend bool operator==(const RecomputeRun&, const RecomputeRun&) = default;
};

struct Batch {
  std::int64_t global_batch = 1;  // sequences per optimizer step
  std::int64_t micro_batch = 1;   // sequences per replica and micro-step
  std::int64_t sequence = 1;      // tokens
  friend bool operator==(const Batch&, const Batch&) = default;
};

// What may run beside compute: communication over replicas [Li20], [Zhao23 sec 3.3], and updates.
struct Overlap {
  // False: gradients that ZeRO 0 or 1 keep whole are reduced after the last backward of the stage,
  // before the update; with ZeRO 2 or 3 compute waits for the reduction of every unit.
  bool gradients = true;
  // False: a gather of parameters starts when compute has come to its unit and compute waits; the
  // updated parameters of ZeRO 1 and 2 are gathered between the update and the next step.
  bool parameters = true;
  // True: as soon as the last micro-batch has given the gradients of a layer the host updates it,
  // beside the backward of the layers before it [Liao24]. False: after the backward of all.
  bool optimizer = false;
  // True: layers of the forward of one micro-batch and of the backward of another are worked off in
  // turns, so that tokens are exchanged between experts beside what the other computes
  // [DeepSeek24b sec 3.2.1].
  bool exchange = false;
  // True: the gradients of the experts' weights are computed after those of their inputs, beside
  // the exchange of the latter.
  bool weight_gradients = false;
  // False: the shared expert is computed before tokens are exchanged, not beside that.
  bool shared_expert = true;
  friend bool operator==(const Overlap&, const Overlap&) = default;
};

struct Plan {
  std::string model;     // name or path of a ModelConfig
  std::string hardware;  // name of a cluster; never enters the Job
  Parallel parallel;
  std::int32_t zero_stage = 0;  // 0..3 [Rajbhandari20 sec 5]
  StatePlacement placement;
  OffloadedStates offload;
  OptimizerChoice optimizer;
  TrainedChoice train;
  Gather gather;  // owned layers need ZeRO 3, tp 1 and no sharding groups
  // Each group of so many neighbouring replicas has a copy of every gathered unit, cut over that
  // group alone, from which backward gathers: secondary shards [Wang23 sec 3.2]. 0: none.
  std::int32_t secondary = 0;
  // Replicas, neighbours all, that share one copy of the parameters: fewer than share one of what
  // else is sharded [Chen23]. 0: as many.
  std::int32_t parameter_shards = 0;
  // Output head and loss are worked off in so many pieces of the micro-batch's tokens, each forward
  // and backward before the next: the logits of one piece exist at a time.
  std::int32_t head_chunks = 1;
  // Gather units in flight beyond the one in use: parameters ahead of it, gradients behind it.
  std::int32_t prefetch = 1;
  Overlap overlap;
  std::vector<RecomputeRun> recompute{{}};  // of the layers in order
  // Of so many layers one after the other only the input of the first is a checkpoint: backward
  // replays all of them from it before it goes through them [Chen16], [Narayanan21 sec 3.5]. More
  // than 1 where all layers are recomputed in full.
  std::int32_t checkpoint_layers = 1;
  // Checkpoints are cut over the tensor parallel ranks: Pa [Rajbhandari20 sec 6.1].
  bool partition_activations = false;
  // The update runs on the host beside the next step, which trains on parameters one step older
  // [Ren21 sec 5.2].
  bool delayed_update = false;
  // Of the embeddings, of what each half of a layer adds to its input, and of the probabilities of
  // attention [Korthikanti22 sec 4.1]. On kernel sets that have it.
  bool dropout = false;
  std::string kernel_set = "cpu.f32";
  PrecisionRecipe precision;
  LowPrecision low_precision;
  Batch batch;
  Schedule schedule = Schedule::kOneForwardOneBackward;  // of the pipeline [Narayanan21 sec 2.2]
  std::string schedule_file;                             // zplan.schedule/1 (schedule_file.h)
  std::vector<std::int32_t> stage_layers;                // of each piece; empty: evenly
  RankOrder order = RankOrder::kDataFirst;
  std::vector<std::int32_t> gpus;  // of a node, which its ranks have in turn; empty: all in order
  LaunchMode launch = LaunchMode::kStream;
  double slack = 0.05;  // memory placement may use this much more than the live peak
  bool clip = true;
  bool loss_scaling = false;
  // Of the tokens of a sequence an expert takes ceil(factor x tokens x k / E), in their order; the
  // others' choice of it is dropped [Lepikhin20 sec 2.2]. 0: it takes all.
  double capacity_factor = 0;
  Dispatcher dispatcher = Dispatcher::kAllToAll;  // where experts are on several ranks
  // The rank with the most work for its experts has so many times the mean of it. Room for the rows
  // that one rank sends to another is made for so many times their mean, too, where nothing is
  // dropped. 0, the worst case: the work is even, and there is room for whatever the router
  // chooses.
  double expert_imbalance = kUsualImbalance;

  // These stand in one source: each of them is longer than most of the code that copies plans.
  Plan();
  Plan(const Plan&);
  Plan(Plan&&) noexcept;
  Plan& operator=(const Plan&);
  Plan& operator=(Plan&&) noexcept;
  ~Plan();
  friend bool operator==(const Plan&, const Plan&);

  std::int64_t micro_steps() const {
    return batch.global_batch / (batch.micro_batch * parallel.dp);
  }
  // Whether the gradients of a step change the parameters a step later: step i + 1 trains on those
  // that were updated from the gradients of step i - 1.
  bool updates_late() const;
  // Of a step: one, or one after each micro-step, of whose gradients alone it is made.
  std::int64_t updates() const;
  // Ranks that have the same part of the model: what ZeRO cuts over them.
  std::int32_t replicas() const { return parallel.dp * parallel.cp; }
  // Tokens of each sequence that a rank works on, and those of all sequences of a micro-batch.
  std::int64_t rank_sequence() const { return batch.sequence / parallel.cp; }
  std::int64_t rank_tokens() const { return batch.micro_batch * rank_sequence(); }
  // Context parallel ranks that exchange heads for tokens.
  std::int32_t exchange_ranks() const { return parallel.cp / parallel.ring; }
  // Pieces that a rank has of each sequence: in a ring one of its first half and one of its second,
  // so that causal attention is as much work on each rank [Dubey24 sec 3.3.2].
  std::int32_t stretches() const { return parallel.ring > 1 ? 2 : 1; }
  std::int32_t shards() const { return parallel.shards == 0 ? replicas() : parallel.shards; }
  std::int32_t shards_of_parameters() const {
    return parameter_shards == 0 ? shards() : parameter_shards;
  }
  // Layers gathered, reduced and updated together.
  std::int32_t unit_layers() const { return gather.owned() ? shards() : gather.layers(); }
  // What a layer of the model keeps; and how it is recomputed, with effective() applied.
  RecomputeRun run_of(std::int64_t layer) const;
  Recompute recompute_of(std::int64_t layer) const { return effective(run_of(layer).mode); }
  // What a mode comes to: selective is none on a kernel set that never stores the scores.
  Recompute effective(Recompute mode) const;
  // Whether all layers are recomputed in full.
  bool all_full() const;
  // Whether the optimizer has a copy of the parameters: the recipe says so, or the optimizer lives
  // or runs apart from them, in some layers or in all.
  bool keeps_master() const;
  // Whether parameters are cast to the compute type on their way to the kernels.
  bool casts_params() const;
  // Bytes of the optimizer states of one parameter of a layer's matrices, scales of blocks left
  // out, and of all states with the parameter and its gradient.
  Bytes optimizer_bytes() const;
  Bytes state_bytes() const;
  // How many pieces the pipeline cuts the model into (planner/program/schedule/schedule.h), and how
  // many of the model's layers a piece has: what stage_layers says, else all pieces have equally
  // many, and where a rest is left the first pieces have one more.
  std::int32_t pieces() const;
  std::int32_t layers_of_piece(std::int64_t layers, std::int32_t piece) const;
};

// The recipe a kernel set trains with by default: 16 bytes per parameter for 16-bit and fp32 sets
// [Rajbhandari20 sec 3.1].
PrecisionRecipe default_recipe(std::string_view kernel_set);

// The recipes by name:
//   standard        default_recipe
//   fp32-gradients  18 bytes per parameter: gradients of 16-bit kernels added up in fp32
//   fp32-reduction  18: gradients of the compute type, cast to fp32, reduced and added up in it
//   half-reduction  18: the same, reduced in the compute type and added up in fp32
//   main-gradients  20: an fp32 copy of 16-bit gradients among the optimizer states
//   lean            8, 6 besides gradients: everything in bf16, rounded stochastically [Gupta15]
//   fsdp            16: fp32 parameters, cast at the gather; gradients of the compute type, cast to
//                   fp32 and reduced in it [Zhao23 sec 4.4], as LLM Foundry's DEFAULT [Foundry]
//   fsdp-pure       16: the same, reduced in the compute type and added up in fp32: its PURE
// Nothing: unknown, or not for the type that the set's kernels compute in.
inline constexpr std::string_view kRecipeNames[] = {
    "standard", "fp32-gradients", "main-gradients", "lean",
    "fsdp",     "fsdp-pure",      "fp32-reduction", "half-reduction"};
std::optional<PrecisionRecipe> find_recipe(std::string_view recipe, std::string_view kernel_set);
// Of kRecipeNames those that the kernel set has, in that order.
std::vector<std::string_view> recipes_of(std::string_view kernel_set);
// Its place in kRecipeNames; that of a plan with element types of its own is past the end.
std::size_t recipe_index(const Plan& plan);
std::string_view recipe_name(std::size_t index);  // "custom" past the end

// What legality asks of a model.
struct ModelShape {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t positions = 0;  // learned ones: no sequence is longer; 0: none
  std::int64_t attention = 0;  // bounds the columns of its tensors (models/model_config.h)
  std::int64_t uncut = 0;      // elements of a layer's matrices that each tensor parallel rank has
  // Greatest common divisors, of the matrices of layers that are cut: of their elements, and of the
  // widths of what stands side by side in them.
  std::int64_t matrix_divisor = 0;
  std::int64_t width_divisor = 0;
  std::int64_t experts = 0, experts_per_token = 0;  // of a layer; 0: none
  std::int64_t expert_ffn = 0;
  std::int64_t expert_bias = 0;       // columns of that of each expert's last product; 0: none
  std::int64_t dense_layers = 0;      // that have no experts
  std::int64_t kind_layers = 1;       // after which layers with and without begin again
  bool has_pattern = false;           // layers are of several kinds by a pattern
  bool has_mlp = true;                // some layers do
  bool has_states = false;            // that go through the whole sequence
  bool has_index = false;             // of keys that queries see
  std::int64_t state_heads = 0;       // common divisor of their heads and groups; 0: none
  std::int64_t encoder_layers = 0;    // the first, to whose output the others attend
  std::int64_t mtp_layers = 0;        // behind the last, of modules that predict further tokens
  std::int64_t shared_ffn = 0;        // columns of the expert that all tokens share
  bool balances_experts = false;      // by an auxiliary loss
  bool moves_selection_bias = false;  // by their loads
  std::int64_t turn_layers = 1;       // after which layers that take turns begin again
  bool cuts_vectors = false;          // over tensor parallel ranks: biases or sinks
  bool sinks = false;                 // heads have a score beside those of the keys
  bool plain_scores = true;           // of all keys up to the query's, scaled as usual
  bool whole_qk_norm = false;         // queries and keys are normalised over all heads together
  bool bare_first_branch = false;     // the first layer lacks a norm that the others have
  bool tied = false;                  // the embedding is the output head too
  // These are of a vision tower in front of it; with 0 layers there is none.
  std::int64_t vision_layers = 0;
  std::int64_t vision_hidden = 0;   // or the values of a patch, where these are more
  std::int64_t vision_ffn = 0;      // or the widest of its projectors
  std::int64_t vision_patches = 0;  // of a sequence
  std::int64_t vision_tokens = 0;   // that these become
  std::int64_t vision_divisor = 0;  // common, of its heads and the columns of its MLP
  std::int64_t vision_outside = 0;  // parameters around its layers
};
// Takes anything with these members: plans know nothing of models/ModelConfig.
template <typename Model>
ModelShape shape_of(const Model& model) {
  return {.layers = model.layers,
          .hidden = model.hidden,
          .ffn = model.ffn,
          .vocab = model.vocab,
          .heads = model.heads,
          .kv_heads = model.kv_heads,
          .positions = model.positions(),
          .attention = model.attention_bound(),
          .uncut = model.uncut_elements(),
          .matrix_divisor = model.matrix_divisor(),
          .width_divisor = model.width_divisor(),
          .experts = model.expert_count(),
          .experts_per_token = model.experts_per_token(),
          .expert_ffn = model.expert_ffn(),
          .expert_bias = model.has_expert_biases() ? model.hidden : 0,
          .dense_layers = model.dense_layers(),
          .kind_layers = model.kind_layers(),
          .has_pattern = model.has_pattern(),
          .has_mlp = model.has_mlp(),
          .has_states = model.has_states(),
          .has_index = model.index.has_value(),
          .state_heads = model.state_heads_divisor(),
          .encoder_layers = model.encoder_layers,
          .mtp_layers = model.mtp_layers,
          .shared_ffn = model.shared_ffn(),
          .balances_experts = model.balances_experts(),
          .moves_selection_bias = model.moves_selection_bias(),
          .turn_layers = model.layer.turn_layers(),
          .cuts_vectors = model.cuts_vectors(),
          .sinks = model.layer.attention_sinks,
          .plain_scores = model.has_plain_scores(),
          .whole_qk_norm = model.layer.whole_qk_norm,
          .bare_first_branch = model.layer.bare_first_branch,
          .tied = model.tied_embeddings,
          .vision_layers = model.vision_sizes().layers,
          .vision_hidden = model.vision_sizes().hidden,
          .vision_ffn = model.vision_sizes().ffn,
          .vision_patches = model.vision_sizes().patches,
          .vision_tokens = model.vision_sizes().tokens,
          .vision_divisor = model.vision_sizes().divisor,
          .vision_outside = model.vision_sizes().outside};
}

// Why no Job exists for this plan and model, in one line, or nothing. Names the nearest legal value
// where there is one. Sizes are within limits.h; no count of a Job exceeds 64 bits.
std::optional<std::string> illegal(const Plan& plan, const ModelShape& model);
// The same without what plan and model decide together; the stages must fit this many layers.
std::optional<std::string> illegal(const Plan& plan, std::int64_t layers);

std::string to_json(const Plan& plan);
Plan plan_from_json(const std::string& text, const std::string& file_name);
Plan load_plan(const std::string& path);

std::string_view name(Recompute recompute);
std::string_view name(LayerOperator op);
std::string_view name(Schedule schedule);
std::string_view name(LaunchMode launch);
std::string_view name(Dispatcher dispatcher);
std::string_view name(RankOrder order);
std::string_view name(GradientCast cast);

}  // namespace zplan
