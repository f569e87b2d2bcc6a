#include "planner/validate/record_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "hwprofiles/build_cluster.h"
#include "hwprofiles/memory_quantity.h"
#include "planner/core/error.h"
#include "planner/core/text.h"
#include "planner/cost/module_kernels.h"
#include "planner/plan/choice_text.h"
#include "planner/plan/choices.h"
#include "planner/program/kernels/newest_kernel_set.h"
#include "planner/validate/run_homes.h"
#include "planner/validate/run_model.h"
#include "planner/validate/run_stack.h"
#include "planner/validate/run_words.h"

namespace zplan {
namespace {

using Reason = std::optional<std::string>;

// What a record says and its plan leaves out.
struct Simplification {
  bool (*applies)(const RunRecord& run, const PlannedRun& planned);
  const char* flag;
};
constexpr Simplification kSimplifications[] = {
    {[](const RunRecord& run, const PlannedRun& planned) {
       return run.recompute == "selective" && planned.plan.recompute_of(0) == Recompute::kNone;
     },
     "selective recomputation is none with fused attention"},
    {[](const RunRecord& run, const PlannedRun& planned) {
       return run.model.dropout.value_or(false) && !planned.plan.dropout;
     },
     "dropout beside fused attention is left out"},
    {[](const RunRecord& run, const PlannedRun&) { return says(run, "--attn-bwd-chunks"); },
     "attention's backward in one piece"},
};

bool decides(const StackProfile& stack, std::string_view pointer) {
  return std::ranges::any_of(stack.choices,
                             [&](const auto& choice) { return choice.first == pointer; });
}

bool is_pytorch(Modules modules) {
  return modules == Modules::kEager || modules == Modules::kCompiled;
}

// [TransformerEngine pytorch/attention/dot_product_attention/utils.py] Neither FlashAttention nor
// cuDNN takes heads whose size is no multiple of 8, and Transformer Engine goes on without them.
// PyTorch pads such heads [PyTorch aten/src/ATen/native/transformers/attention.cpp].
bool may_fuse(const ModelConfig& model, const StackProfile& stack) {
  constexpr std::int64_t kMultiple = 8;
  return stack.rates.modules != Modules::kMegatron ||
         (model.head_size() % kMultiple == 0 && model.value_size() % kMultiple == 0);
}

Reason choose_kernels(const RunRecord& run, const StackProfile& stack, const DeviceFacts& device,
                      PlannedRun& out) {
  Plan& plan = out.plan;
  const std::string& format = run.precision.compute;
  const bool wanted = run.flash_attention.value_or(stack.fused);
  const bool fused = wanted && may_fuse(out.model, stack);
  if (wanted && !fused)
    out.flags.push_back(fmt::format("attention unfused: no fused kernel for heads of size {}",
                                    out.model.head_size()));
  const LayerProducts products = format == "fp8" ? LayerProducts::kFp8 : LayerProducts::kAsStored;
  DType compute = DType::kBf16;
  if (format == "fp16") {
    compute = DType::kF16;
  } else if (format == "fp32") {
    compute = DType::kF32;
  } else if (format != "bf16" && format != "fp8") {
    return fmt::format("products in {}", in_quotes(format));
  }
  const KernelSet* set = newest_kernel_set(device.capability, compute, products, fused);
  if (set == nullptr)
    return fmt::format("{} kernels in {} for {}", fused ? "fused" : "unfused", format, device.name);
  plan.kernel_set = set->id;
  if (!decides(stack, "/loss_scaling")) plan.loss_scaling = set->loss_scaling;
  plan.dropout = run.model.dropout.value_or(plan.dropout) && set->dropout;
  return std::nullopt;
}

// Some casts between states and kernels are of some ZeRO stages only.
bool goes_with_stage(const PrecisionRecipe& recipe, const Plan& plan) {
  Plan alone;
  alone.kernel_set = plan.kernel_set;
  alone.loss_scaling = plan.loss_scaling;
  alone.zero_stage = plan.zero_stage;
  alone.precision = recipe;
  return !illegal(alone, 1);
}

// [PyTorch] Parameters in fp32 that no gather of FSDP casts are cast by torch.autocast for each
// product. Where the software is a guess, so is what it keeps its parameters in.
bool casts_for_products(const RunRecord& run, const std::optional<PrecisionRecipe>& usual,
                        const PlannedRun& out) {
  constexpr std::int32_t kGathers = 2;  // from this ZeRO stage on
  const bool gathers = out.plan.zero_stage >= kGathers;
  if (gathers || run.precision.compute == "fp32" || !is_pytorch(out.cluster.stack.modules))
    return false;
  if (run.precision.param_bytes)
    return *run.precision.param_bytes == static_cast<double>(size_of(DType::kF32).value);
  return out.stack_stated && usual && usual->param == DType::kF32;
}

void choose_recipe(const RunRecord& run, const StackProfile& stack, PlannedRun& out) {
  Plan& plan = out.plan;
  const RunPrecision& stated = run.precision;
  const bool states = stated.param_bytes || stated.grad_bytes || stated.optimizer_bytes_per_param;
  plan.precision = default_recipe(plan.kernel_set);
  const auto usual = find_recipe(stack.recipe, plan.kernel_set);
  if (usual && goes_with_stage(*usual, plan)) plan.precision = *usual;
  out.cluster.stack.autocast = casts_for_products(run, usual, out);
  if (out.cluster.stack.autocast) {
    out.flags.emplace_back("parameters in fp32, cast for each product");
    return;
  }
  if (!states) {
    if (usual && plan.precision != *usual)
      out.flags.push_back(fmt::format("recipe {} of the stack is not for ZeRO stage {}: standard",
                                      stack.recipe, plan.zero_stage));
    return;
  }
  const auto off = [](std::optional<double> bytes, Bytes have) {
    return bytes ? std::abs(*bytes - static_cast<double>(have.value)) : 0.0;
  };
  double least = -1;
  for (const std::string_view name : recipes_of(plan.kernel_set)) {
    Plan candidate = plan;
    candidate.precision = *find_recipe(name, plan.kernel_set);
    if (!goes_with_stage(candidate.precision, plan)) continue;
    // Homes of the states do not decide which bytes a recipe keeps.
    candidate.placement = {};
    const double sum = off(stated.param_bytes, size_of(candidate.precision.param)) +
                       off(stated.grad_bytes, size_of(candidate.precision.grad)) +
                       off(stated.optimizer_bytes_per_param, candidate.optimizer_bytes());
    if (least >= 0 && sum >= least) continue;
    least = sum;
    plan.precision = candidate.precision;
  }
  if (least > 0) out.flags.emplace_back("recipe with other bytes per parameter than stated");
}

// The words of a home are those of a tier: the reader allows no others.
Tier tier_of(const std::string& home) { return *parse_name<Tier>(home); }

// With which states may live off the GPU.
std::int32_t least_stage(const RunOffload& offload) {
  if (offload.params != "gpu") return 3;
  return offload.grads != "gpu" ? 2 : 0;
}

Reason inexpressible_plan(const RunRecord& run) {
  if (run.parallel.schedule == "interleaved" && run.parallel.interleave.value_or(1) < 2)
    return "interleaved pipeline of chunks that are not stated";
  // What else goes away than inputs of layers is known where the software chose.
  const bool inputs_only = run.recompute == "full" || says(run, "--offload-residual");
  if (run.offload.activations != "gpu" && !inputs_only && !chooses_homes(run))
    return "activations swapped one by one";
  return std::nullopt;
}

// Where the layers do not come to equal pieces, but do with the embedding and the head counted as a
// layer each, the first and the last piece have a layer less.
void choose_pieces(const RunRecord& run, Plan& plan) {
  const std::int32_t pieces = plan.pieces();
  if (run.model.layers % pieces == 0 || (run.model.layers + 2) % pieces != 0) return;
  plan.stage_layers.assign(static_cast<std::size_t>(pieces),
                           static_cast<std::int32_t>((run.model.layers + 2) / pieces));
  --plan.stage_layers.front();
  --plan.stage_layers.back();
}

// Runs of layers by what the stack recomputes of which share of them; the last has what is left.
std::vector<RecomputeRun> selected_by(const StackProfile& stack, std::int32_t layers) {
  std::vector<RecomputeRun> runs;
  for (const RecomputedShare& share : stack.selective) {
    const auto part = static_cast<std::int32_t>(std::lround(share.layers * layers));
    RecomputeRun& run = runs.emplace_back(*recompute_from_words(share.recompute));
    run.layers = std::max(1, part);
  }
  runs.back().layers = 0;
  return runs;
}

void choose_recompute(const RunRecord& run, const StackProfile& stack, Plan& plan) {
  if (chooses_homes(run)) plan.recompute = {{Recompute::kFull}};  // until homes are chosen
  if (!run.recompute) return;
  plan.recompute = {*recompute_from_words(*run.recompute)};
  if (*run.recompute == "none") return;
  if (const OperatorSet named = recomputed_operators(run); !named.empty()) {
    plan.recompute = {{.mode = Recompute::kOperators, .operators = named}};
  } else if (*run.recompute != "selective") {
    return;
  } else if (const std::int32_t whole = recomputed_layers(run); whole > 0) {
    plan.recompute = {{Recompute::kFull}};
    if (whole < run.model.layers)
      plan.recompute = {{.mode = Recompute::kFull, .layers = whole}, {}};
  } else if (!stack.selective.empty() && run.model.layers > 1) {
    plan.recompute = selected_by(stack, static_cast<std::int32_t>(run.model.layers));
  }
}

// Of an optimizer whose states are off the GPU: it runs on the CPU, or fetches those that are
// named.
void choose_offload(const RunRecord& run, Plan& plan) {
  plan.offload = offloaded_states(run);
  plan.offload.master = plan.offload.master && plan.precision.separate_master;
  if (plan.offload.any()) plan.placement.optimizer = Tier::kGpu;
}

void choose_batch(const RunRecord& run, PlannedRun& out) {
  Batch& batch = out.plan.batch;
  const std::int64_t dp = out.plan.parallel.dp;
  batch.sequence = run.model.seq;
  batch.micro_batch = run.micro_batch.value_or(1);
  const std::int64_t together = batch.micro_batch * dp;
  const std::int64_t global = run.global_batch.value_or(together);
  batch.global_batch = nearest_multiple(global, together);
  if (!run.micro_batch) out.flags.emplace_back("micro-batch 1 assumed");
  if (batch.global_batch != global)
    out.flags.push_back(fmt::format("{:.4g} micro-steps rounded to {}",
                                    static_cast<double>(global) / static_cast<double>(together),
                                    out.plan.micro_steps()));
}

void choose_parallel(const RunRecord& run, const StackProfile& stack, Plan& plan) {
  const RunParallel& p = run.parallel;
  plan.parallel = {.dp = p.dp,
                   .tp = p.tp,
                   .pp = p.pp,
                   .sequence_parallel = p.tp > 1 && p.sequence_parallel.value_or(false)};
  // [MegatronCore] Keys and values go around rings unless the record says more.
  plan.parallel.cp = plan.parallel.ring = p.cp.value_or(1);
  plan.zero_stage = p.zero_stage.value_or(0);
  if (!p.zero_stage || p.dp == 1)
    plan.zero_stage = std::max(plan.zero_stage, least_stage(run.offload));
  if (plan.zero_stage > 0)
    for (const auto& [pointer, text] : stack.sharded) set_choice(plan, pointer, text);
  if (p.shard_group && plan.zero_stage > 0 && *p.shard_group < p.dp)
    plan.parallel.shards = *p.shard_group;
  if (p.schedule) set_choice(plan, "/parallel/schedule", *p.schedule);
  if (p.interleave > 1) {
    plan.schedule = Schedule::kInterleaved;
    plan.parallel.chunks = *p.interleave;
  }
  plan.placement = {.params = tier_of(run.offload.params),
                    .grads = tier_of(run.offload.grads),
                    .optimizer = tier_of(run.offload.optimizer),
                    .activations = tier_of(run.offload.activations)};
  plan.delayed_update = run.offload.delayed_update;
  plan.overlap.gradients = p.overlap_grad_reduce.value_or(plan.overlap.gradients);
  plan.overlap.parameters = p.overlap_param_gather.value_or(plan.overlap.parameters);
}

// [TorchAO float8/float8_linear.py] With scales of rows each product casts both of its operands, as
// one that is taken along columns has other scales. [derived] Tables have the cast of the first
// operand; the second is a weight, of few bytes, but for the weight gradient: a quarter of all
// activations that three products take.
constexpr double kRowCasts = 0.25;

double loss_traffic(Modules modules) {
  return module_kernels(KernelId::kCrossEntropy, modules).traffic;
}

// The record's words on launches, compilation and kernels go before the stack's ways.
void choose_launches(const RunRecord& run, PlannedRun& out) {
  const RunSoftware& said = run.software;
  StackRates& rates = out.cluster.stack;
  if (said.cuda_graphs)
    out.plan.launch = *said.cuda_graphs ? LaunchMode::kGraph : LaunchMode::kStream;
  rates.foreach_update = said.foreach_update.value_or(rates.foreach_update);
  rates.dense_mask = said.dense_mask.value_or(rates.dense_mask);
  if (said.fp8_rows.value_or(false)) rates.fp8_casts = std::max(rates.fp8_casts, kRowCasts);
  if (!is_pytorch(rates.modules)) return;
  const bool compiled =
      rates.modules == Modules::kCompiled || has_word(run.source, "torch.compile");
  rates.modules = said.compiled.value_or(compiled) ? Modules::kCompiled : Modules::kEager;
  if (rates.modules == Modules::kCompiled && said.eager_loss.value_or(false))
    rates.loss *= loss_traffic(Modules::kEager) / loss_traffic(Modules::kCompiled);
}

// Pieces that cannot be cut evenly are none.
void choose_head(const RunRecord& run, PlannedRun& out) {
  const std::int32_t pieces = head_chunks(run);
  const Batch& batch = out.plan.batch;
  Plan alone;
  alone.batch = {batch.micro_batch, batch.micro_batch, batch.sequence};
  alone.head_chunks = pieces;
  if (!illegal(alone, 1)) {
    out.plan.head_chunks = pieces;
  } else if (pieces > 1) {
    out.flags.push_back(fmt::format("the output head in one piece instead of {}", pieces));
  }
}

// What the stack holds where the record says of dropout and the loss what it did.
StackMemory memory_of(const RunRecord& run, const StackProfile& stack) {
  StackMemory memory = stack.memory;
  if (!run.model.dropout.value_or(true)) memory[MemoryQuantity::kResidual] = {};
  if (memory.has(MemoryQuantity::kCompiledLoss) && compiles_loss(run))
    memory[MemoryQuantity::kLoss] = memory[MemoryQuantity::kCompiledLoss];
  if (run.parallel.tp_comm_overlap.value_or(false) && run.parallel.tp > 1) return memory;
  memory[MemoryQuantity::kOverlapLibraries] = {};
  return memory;
}

// Of software that chose homes by itself: those that its stack has.
bool takes_homes(const StackProfile& stack, Plan& plan) {
  if (!decides(stack, "/recompute")) return false;
  for (const auto& [pointer, text] : stack.choices)
    if (pointer == "/recompute" || pointer == "/placement/activations")
      set_choice(plan, pointer, text);
  return true;
}

// Collectives of tensor parallel ranks that run piece by piece beside products stay exposed in
// part: where Transformer Engine does it as in nemo2024, else as is usual.
double exposed_of_pieces(Modules modules, const std::vector<StackProfile>& stacks) {
  if (modules == Modules::kMegatron)
    return std::ranges::find(stacks, "nemo2024", &StackProfile::name)->rates.tensor_exposed;
  return std::ranges::find(stack_rates(), &StackRates::tensor_exposed, &StackRate::member)->usual;
}

// The record's words go before the usual ways of the software. [MegatronCore] tp_comm_overlap off:
// the products of a layer wait for all that tensor parallel ranks exchange. Sums of input gradients
// beside weight gradients are another option.
StackRates rates_of(const RunRecord& run, const StackProfile& stack, int capability,
                    const std::vector<StackProfile>& stacks) {
  StackRates rates = stack.rates_on(capability);
  if (const auto& overlap = run.parallel.tp_comm_overlap)
    rates.tensor_exposed =
        *overlap ? std::min(rates.tensor_exposed, exposed_of_pieces(rates.modules, stacks)) : 1;
  return rates;
}

Reason fill(const RunRecord& run, const RunCatalogues& catalogues, const StackProfile* stack,
            PlannedRun& out) {
  const DeviceFacts& device = catalogues.hardware.device(run.hardware.device);
  if (stack == nullptr) {
    const RunStack found = stack_of(run, device, catalogues.stacks);
    stack = found.stack;
    out.stack_stated = found.stated;
  }
  out.stack = stack->name;
  if (Reason why = inexpressible_plan(run)) return why;
  if (Reason why = inexpressible_model(run.model)) return why;

  HardwareRequest request{.device = run.hardware.device,
                          .system = run.hardware.system.value_or(""),
                          .gpus_per_node = run.hardware.gpus_per_node,
                          .nodes = run.hardware.nodes};
  constexpr double kGiga = 1e9;
  if (run.hardware.scale_out_gb_s_per_gpu)
    request.scale_out = BytesPerSecond{*run.hardware.scale_out_gb_s_per_gpu * kGiga};
  BuiltCluster built = build_cluster(catalogues.hardware, catalogues.profiles, request);
  out.cluster = std::move(built.cluster);
  out.cluster.stack = rates_of(run, *stack, device.capability, catalogues.stacks);
  out.cluster.memory = memory_of(run, *stack);
  out.flags = std::move(built.assumed);

  out.model = model_of(run, out.flags);
  out.plan.model = out.model.name;
  out.plan.hardware = out.cluster.name;
  for (const auto& [pointer, text] : stack->choices) set_choice(out.plan, pointer, text);
  choose_launches(run, out);
  choose_parallel(run, *stack, out.plan);
  choose_pieces(run, out.plan);
  if (Reason why = choose_kernels(run, *stack, device, out)) return why;
  choose_recipe(run, *stack, out);
  choose_recompute(run, *stack, out.plan);
  choose_offload(run, out.plan);
  choose_batch(run, out);
  choose_head(run, out);
  const bool asks = chooses_homes(run) && !takes_homes(*stack, out.plan);
  for (const Simplification& each : kSimplifications)
    if (each.applies(run, out)) out.flags.emplace_back(each.flag);
  validate(out.model);
  if (Reason why = illegal(out.plan, shape_of(out.model))) return why;
  if (!asks) return std::nullopt;
  out.plan = with_chosen_homes(out.plan, out.model, out.cluster);
  out.flags.emplace_back("homes of activations as the planner chooses them");
  return std::nullopt;
}

}  // namespace

PlannedRun plan_run(const RunRecord& run, const RunCatalogues& catalogues,
                    const StackProfile* stack) {
  PlannedRun out;
  try {
    out.unsupported = fill(run, catalogues, stack, out).value_or("");
  } catch (const Error& error) {  // unknown devices and systems, models that are none
    out.unsupported = error.what();
  }
  return out;
}

}  // namespace zplan
