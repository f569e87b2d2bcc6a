#include <fmt/format.h>

#include <algorithm>

#include "hwprofiles/memory_quantity.h"
#include "planner/core/text.h"
#include "planner/cost/module_kernels.h"
#include "planner/plan/choices.h"
#include "planner/program/kernels/newest_kernel_set.h"
#include "planner/validate/record_subjects.h"

namespace zplan {
namespace {

// [TransformerEngine pytorch/attention/dot_product_attention/utils.py] Neither FlashAttention nor
// cuDNN takes heads whose size is no multiple of 8, and Transformer Engine goes on without them.
// PyTorch pads such heads [PyTorch aten/src/ATen/native/transformers/attention.cpp].
bool may_fuse(const ModelConfig& model, const StackProfile& stack) {
  constexpr std::int64_t kMultiple = 8;
  return stack.rates.modules != Modules::kMegatron ||
         (model.head_size() % kMultiple == 0 && model.value_size() % kMultiple == 0);
}

// [TorchAO float8/float8_linear.py] With scales of rows each product casts both of its operands, as
// one that is taken along columns has other scales. [derived] Tables have the cast of the first
// operand; the second is a weight, of few bytes, but for the weight gradient: a quarter of all
// activations that three products take.
constexpr double kRowCasts = 0.25;

bool casts_by_row(const RunRecord& run) {
  return run.software.fp8_rows.value_or(false) || run.precision.fp8_recipe == "rowwise";
}

// The format of the operands of products in 8 or 4 bits; empty: they are in more.
std::string_view codes_of(const RunPrecision& p) {
  if (p.compute == "mxfp8" || p.compute == "nvfp4") return p.compute;
  if (p.compute != "fp8") return "";
  if (p.fp8_recipe == "mxfp8" || p.fp8_recipe == "nvfp4") return *p.fp8_recipe;
  return p.fp8_recipe == "blockwise" ? "fp8_block" : "fp8";
}

double loss_traffic(Modules modules) {
  return module_kernels(KernelId::kCrossEntropy, modules).traffic;
}

bool has_module(const RunRecord& run, std::string_view module) {
  return is_among(*run.software.graphed_modules, module);
}

// [derived] Modules in graphs launch nothing; attention and the MLP, or what there is of experts
// outside of their products, are taken as half of a layer's operators each. [derived] Of the
// operators of a layer of experts (planner/cost/module_kernels.cpp) the router's are 0.27, and of
// the others those that count rows 0.28.
constexpr double kOfRouter = 0.27, kOfCounts = 0.28;

double launched_share(const RunRecord& run) {
  if (!run.software.cuda_graphs.value_or(true) || !run.software.graphed_modules ||
      run.software.graphed_modules->empty())
    return 1;
  if (has_module(run, "layer")) return 0;
  const bool attention = has_module(run, "attn");
  const bool others = has_module(run, "mlp") || has_module(run, "moe");
  double of_others = others ? 0 : 0.5;
  if (has_module(run, "moe_router")) of_others *= 1 - kOfRouter;
  if (has_module(run, "moe_preprocess")) of_others *= 1 - kOfCounts;
  return (attention ? 0 : 0.5) + of_others;
}

// [TransformerEngine pytorch/graph.py] Gradients of what a graph gives and of what it reads, which
// are [T, h] each, lie in places of its own; those of pipeline stages share them.
Bytes held_by_graphs(const RunRecord& run, const ModelConfig& model) {
  const RunParallel& ranks = run.parallel;
  if (ranks.pp > 1) return {0};
  const bool has_parts = model.has_pattern();
  std::int64_t graphs = 0;
  if (has_module(run, "attn"))
    graphs += has_parts ? model.layers_with(Mixer::kAttention) : model.layers;
  if (has_module(run, "mamba")) graphs += model.layers_with(Mixer::kMamba);
  if (has_module(run, "moe_router")) graphs += model.expert_layers();
  constexpr std::int64_t kGradients = 2, kStored = 2;
  const std::int64_t sequence_ranks =
      ranks.cp.value_or(1) * (ranks.sequence_parallel.value_or(false) ? ranks.tp : 1);
  const std::int64_t tokens = run.micro_batch.value_or(1) * run.model.seq / sequence_ranks;
  return {graphs * kGradients * kStored * tokens * model.hidden};
}

// Elements that kernels of one kind move for a token, over its width.
struct Moved {
  KernelId kernel;
  double bytes;
  bool fused;
};

// [derived] Of the traffic of norms, activation, rotary positions and residuals together, where
// some of them are kernels of their own: each weighs what its compulsory reads and writes come to.
double elementwise_share(const ModelConfig& model, const RunKernels& kernels, Modules modules) {
  const auto hidden = static_cast<double>(model.hidden);
  const auto turned = static_cast<double>((model.heads + model.kv_heads) * model.head_size());
  const bool rms = model.norm == Norm::kRmsNorm;
  const Moved all[] = {
      {rms ? KernelId::kRmsNormForward : KernelId::kLayerNormForward, 4 * hidden,
       kernels.fused_norm.value_or(false)},
      {model.gated_mlp ? KernelId::kSwigluForward : KernelId::kGeluForward,
       (model.gated_mlp ? 3.0 : 2.0) * static_cast<double>(model.ffn),
       kernels.fused_activation.value_or(false)},
      {KernelId::kRope, model.position == Position::kRope ? 2 * turned : 0,
       kernels.fused_rope.value_or(false)},
      {KernelId::kResidualLayerNormForward, 6 * hidden, false},
  };
  double before = 0, after = 0;
  for (const Moved& one : all) {
    const double traffic = module_kernels(one.kernel, modules).traffic;
    before += one.bytes * traffic;
    after += one.bytes * (one.fused ? std::min(traffic, 1.0) : traffic);
  }
  return after / before;
}

void fuse_loss(const RunRecord& run, PlannedRun& out) {
  const auto& how = run.kernels.cross_entropy;
  if (!how || *how == "compiled") return;  // what it keeps is another matter (record_memory.cpp)
  StackRates& rates = out.cluster.stack;
  if (!is_pytorch(rates.modules)) return;
  const Modules as = *how == "eager" ? Modules::kEager : Modules::kNative;
  rates.loss *= loss_traffic(as) / loss_traffic(rates.modules);
}

// [PyTorch] FlashAttention 2 runs on newer devices as it does on those it was written for.
void age_attention(const RunRecord& run, const std::vector<StackProfile>& stacks, int capability,
                   StackRates& rates) {
  const auto& kernels = run.kernels.attention;
  if (kernels == "flash_2" || kernels == "sdpa") {
    const auto fsdp = std::ranges::find(stacks, "fsdp", &StackProfile::name);
    rates.attention_older =
        std::max(rates.attention_older, fsdp->rates_on(capability).attention_older);
  } else if (kernels == "flash_3" || kernels == "flash_4" || kernels == "cudnn" ||
             kernels == "te") {
    rates.attention_older = 1;
  }
}

// [derived] Liger Kernel's rule (ops/fused_linear_cross_entropy.py): as many tokens at once, to the
// next power of two, as have logits of the size of their inputs.
std::int64_t linear_loss_pieces(std::int64_t tokens, const ModelConfig& model) {
  const std::int64_t more = (model.vocab + model.hidden - 1) / model.hidden;
  std::int64_t at_once = 1;
  while (at_once < (tokens + more - 1) / more) at_once *= 2;
  return (tokens + at_once - 1) / at_once;
}

std::int64_t head_pieces(const RunRecord& run, const PlannedRun& out) {
  const RunKernels& kernels = run.kernels;
  const std::int64_t tokens = out.plan.rank_tokens();
  if (kernels.head_chunks) return *kernels.head_chunks;
  if (kernels.head_chunk_tokens)
    return std::max<std::int64_t>(1, tokens / *kernels.head_chunk_tokens);
  return kernels.cross_entropy == "linear" ? linear_loss_pieces(tokens, out.model) : 1;
}

}  // namespace

Reason choose_kernels(const RunRecord& run, const StackProfile& stack, const DeviceFacts& device,
                      PlannedRun& out) {
  Plan& plan = out.plan;
  const std::string& format = run.precision.compute;
  const bool wanted = run.flash_attention.value_or(stack.fused);
  const bool fused = wanted && may_fuse(out.model, stack);
  if (wanted && !fused)
    out.flags.push_back(fmt::format("attention unfused: no fused kernel for heads of size {}",
                                    out.model.head_size()));
  const std::string_view codes = codes_of(run.precision);
  const LayerProducts products = codes.empty() ? LayerProducts::kAsStored : LayerProducts::kFp8;
  DType compute = DType::kBf16;
  if (format == "fp16") {
    compute = DType::kF16;
  } else if (format == "fp32") {
    compute = DType::kF32;
  } else if (format != "bf16" && codes.empty()) {
    return not_modelled(fmt::format("products in {}", visible(format)));
  }
  const KernelSet* set = newest_kernel_set(device.capability, compute, products, fused, codes);
  if (set == nullptr)
    return fmt::format("{} kernels in {} for {}", fused ? "fused" : "unfused", format, device.name);
  plan.kernel_set = set->id;
  const bool decided = std::ranges::any_of(
      stack.choices, [](const auto& choice) { return choice.first == "/loss_scaling"; });
  if (!decided) plan.loss_scaling = set->loss_scaling;
  plan.loss_scaling = run.precision.loss_scaling.value_or(plan.loss_scaling);
  plan.dropout = run.model.dropout.value_or(plan.dropout) && set->dropout;
  return std::nullopt;
}

void choose_launches(const RunRecord& run, PlannedRun& out) {
  const RunSoftware& said = run.software;
  StackRates& rates = out.cluster.stack;
  const double launched = launched_share(run);
  if (said.cuda_graphs)
    out.plan.launch = *said.cuda_graphs ? LaunchMode::kGraph : LaunchMode::kStream;
  const bool in_part = said.graphed_modules && !said.graphed_modules->empty() && launched > 0;
  if (in_part) {
    out.plan.launch = LaunchMode::kStream;
    rates.host_forward *= launched;
    rates.host_backward *= launched;
    out.cluster.memory.graphs = held_by_graphs(run, out.model);
    out.flags.push_back("graphs of some modules: as so many fewer launches");
  }
  rates.foreach_update = said.foreach_update.value_or(rates.foreach_update);
  rates.dense_mask = said.dense_mask.value_or(rates.dense_mask);
  if (casts_by_row(run)) rates.fp8_casts = std::max(rates.fp8_casts, kRowCasts);
  if (!is_pytorch(rates.modules)) {
    if (said.compiled.value_or(false)) out.flags.emplace_back("layers compiled: as the software's");
    return;
  }
  const bool compiled = said.compiled.value_or(rates.modules == Modules::kCompiled);
  rates.modules = compiled ? Modules::kCompiled : Modules::kEager;
  if (compiled && said.eager_loss.value_or(false))
    rates.loss *= loss_traffic(Modules::kEager) / loss_traffic(Modules::kCompiled);
}

void choose_fused_kernels(const RunRecord& run, const std::vector<StackProfile>& stacks,
                          int capability, PlannedRun& out) {
  StackRates& rates = out.cluster.stack;
  const RunKernels& kernels = run.kernels;
  fuse_loss(run, out);
  age_attention(run, stacks, capability, rates);
  rates.elementwise *= elementwise_share(out.model, kernels, rates.modules);
  const bool parts = !kernels.fused_norm.value_or(true) ||
                     !kernels.fused_activation.value_or(true) || !kernels.fused_rope.value_or(true);
  if (parts && !is_pytorch(rates.modules))
    out.flags.emplace_back("kernels of norms, activations and positions fused as the software's");
  if (kernels.sums_gradients) rates.sums_apart = !*kernels.sums_gradients;
  const auto& how = kernels.attention;
  if (how == "flex" || how == "triton" || how == "xformers" || how == "aiter" || how == "splash") {
    out.flags.push_back("attention by other kernels than were measured");
    out.stack_stated = false;
  }
}

// Pieces of so many tokens are as many as can be cut evenly; a number of pieces that is stated and
// cannot be cut is none.
void choose_head(const RunRecord& run, PlannedRun& out) {
  const std::int64_t stated = head_pieces(run, out);
  const Batch& batch = out.plan.batch;
  Plan alone;
  alone.parallel.cp = out.plan.parallel.cp;
  alone.parallel.ring = out.plan.parallel.ring;
  alone.batch = {batch.micro_batch, batch.micro_batch, batch.sequence};
  const auto fits = [&](std::int64_t pieces) {
    alone.head_chunks = static_cast<std::int32_t>(pieces);
    return !illegal(alone, 1);
  };
  const auto most = decision("/head_chunks").range.max;
  std::int64_t pieces = std::min(stated, static_cast<std::int64_t>(most) + 1);
  if (!fits(pieces)) pieces = run.kernels.head_chunks ? 1 : pieces - 1;
  while (pieces > 1 && !fits(pieces)) --pieces;
  out.plan.head_chunks = static_cast<std::int32_t>(pieces);
  if (pieces == stated) return;
  out.flags.push_back(fmt::format("the output head in {} instead of {}",
                                  pieces == 1 ? "one piece" : fmt::format("{} pieces", pieces),
                                  stated));
}

}  // namespace zplan
