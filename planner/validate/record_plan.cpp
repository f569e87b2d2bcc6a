#include "planner/validate/record_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "hwprofiles/build_cluster.h"
#include "hwprofiles/memory_quantity.h"
#include "models/model_formulas.h"
#include "planner/core/error.h"
#include "planner/core/text.h"
#include "planner/plan/choice_text.h"
#include "planner/plan/choices.h"
#include "planner/validate/record_subjects.h"
#include "planner/validate/run_form.h"
#include "planner/validate/run_homes.h"
#include "planner/validate/run_model.h"
#include "planner/validate/run_spelling.h"
#include "planner/validate/run_stack.h"

namespace zplan {
namespace {

// What a record says and its plan leaves out.
struct Simplification {
  bool (*applies)(const RunRecord& run, const PlannedRun& planned);
  const char* flag;
};
constexpr Simplification kSimplifications[] = {
    {[](const RunRecord& run, const PlannedRun& planned) {
       return run.recompute == "selective" && !run.recomputed.modules &&
              planned.plan.recompute_of(0) == Recompute::kNone;
     },
     "selective recomputation is none with fused attention"},
    {[](const RunRecord& run, const PlannedRun& planned) {
       return run.model.dropout.value_or(false) && !planned.plan.dropout;
     },
     "dropout beside fused attention is left out"},
    {[](const RunRecord& run, const PlannedRun& planned) {
       return run.model.routed.load_balancing == "seq_aux_loss" && planned.model.balances_experts();
     },
     "auxiliary loss of each sequence as that of the micro-batch"},
};

// Of an optimizer whose states are off the GPU: it runs on the CPU, or fetches those that are
// named.
void choose_offload(const RunRecord& run, Plan& plan) {
  if (!run.offload.states) return;
  const auto& states = *run.offload.states;
  plan.offload = {is_among(states, "master"), is_among(states, "moment1"),
                  is_among(states, "moment2")};
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
  if (!run.global_batch) out.flags.emplace_back("a global batch of one micro-step assumed");
  if (batch.global_batch != global)
    out.flags.push_back(fmt::format("{:.4g} micro-steps rounded to {}",
                                    static_cast<double>(global) / static_cast<double>(together),
                                    out.plan.micro_steps()));
}

bool is_compiled(const RunRecord& run, const StackProfile& stack) {
  return is_pytorch(stack.rates.modules) &&
         run.software.compiled.value_or(stack.rates.modules == Modules::kCompiled);
}

// [PyTorch functorch/partitioners.py] A compiled layer computes again what is pointwise, unless
// backward hands it to a product; a loss that is compiled keeps the logits and writes their
// gradient beside them.
void keep_as_compiled(const RunRecord& run, StackMemory& memory) {
  for (const MemoryQuantity q :
       {MemoryQuantity::kRmsNorm, MemoryQuantity::kGated, MemoryQuantity::kGelu})
    memory[q] = {};
  constexpr double kGradient = 2, kUncertainty = 0.2;  // bytes of a logit's, beside the logit
  if (!run.software.eager_loss.value_or(false) && memory.has(MemoryQuantity::kLoss))
    memory[MemoryQuantity::kLoss] = {.from = {{0, kGradient}},
                                     .uncertainty = kUncertainty,
                                     .source = "assumed",
                                     .ref = "compiled"};
}

// What the stack holds where the record says of dropout and the loss what it did.
StackMemory memory_of(const RunRecord& run, const StackProfile& stack) {
  StackMemory memory = stack.memory;
  if (!run.model.dropout.value_or(true)) memory[MemoryQuantity::kResidual] = {};
  const RunKernels& kernels = run.kernels;
  if (memory.has(MemoryQuantity::kCompiledLoss) && kernels.cross_entropy == "compiled")
    memory[MemoryQuantity::kLoss] = memory[MemoryQuantity::kCompiledLoss];
  // A fused kernel keeps nothing of what operators of PyTorch keep between them.
  if (kernels.cross_entropy == "fused" || kernels.cross_entropy == "linear")
    memory[MemoryQuantity::kLoss] = {};
  if (is_compiled(run, stack)) keep_as_compiled(run, memory);
  if (said(run, "/experts/grouped_gemm") == "false") memory[MemoryQuantity::kGroupedLibraries] = {};
  if (run.experts.routing == "balanced") memory[MemoryQuantity::kUnevenExperts] = {};
  if (kernels.fused_norm.value_or(false)) memory[MemoryQuantity::kRmsNorm] = {};
  if (kernels.fused_activation.value_or(false))
    memory[MemoryQuantity::kGated] = memory[MemoryQuantity::kGelu] = {};
  if (run.parallel.tp_comm_overlap.value_or(false) && run.parallel.tp > 1) return memory;
  memory[MemoryQuantity::kOverlapLibraries] = {};
  return memory;
}

// Of software that chose homes by itself: those that its stack has.
bool takes_homes(const StackProfile& stack, Plan& plan) {
  const auto decides = [](const auto& choice) { return choice.first == "/recompute"; };
  if (!std::ranges::any_of(stack.choices, decides)) return false;
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

// A record of activations that leave the GPU must say which they are.
Reason inexpressible_plan(const RunRecord& run) {
  const bool known = run.recompute == "full" || run.offload.activation_modules.has_value();
  if (run.offload.activations != "gpu" && !known && !chooses_homes(run))
    return "activations swapped one by one";
  return std::nullopt;
}

// Returns the number of equal documents of a sequence whose length is nearest to that which is
// stated, as ratios go.
std::int64_t documents_of(std::int64_t sequence, std::int64_t tokens) {
  std::int64_t best = 1;
  const auto off = [&](std::int64_t documents) {
    return std::abs(std::log(static_cast<double>(sequence) / static_cast<double>(documents) /
                             static_cast<double>(tokens)));
  };
  for (std::int64_t low = 1; low * low <= sequence; ++low) {
    if (sequence % low != 0) continue;
    for (const std::int64_t documents : {low, sequence / low})
      if (off(documents) < off(best)) best = documents;
  }
  return best;
}

// Documents that attention keeps apart, where they are of one length, are sequences of that length:
// as many tokens, and positions that begin again. A length that does not divide the sequence is
// taken as the nearest that does.
RunRecord as_documents(RunRecord run, std::vector<std::string>& flags) {
  const auto& tokens = run.sequences.document_tokens;
  if (!tokens) return run;
  const std::int64_t documents = documents_of(run.model.seq, *tokens);
  constexpr std::int64_t kMost = 1'000'000'000;  // sequences of a step
  const std::int64_t most = std::max(run.micro_batch.value_or(1), run.global_batch.value_or(1));
  if (documents > kMost / most) {
    flags.push_back(fmt::format("documents of {} tokens not kept apart", *tokens));
    return run;
  }
  run.model.seq /= documents;
  if (run.model.seq != *tokens)
    flags.push_back(fmt::format("documents of {} tokens taken as of {}", *tokens, run.model.seq));
  run.micro_batch = run.micro_batch.value_or(1) * documents;
  if (run.global_batch) *run.global_batch *= documents;
  return run;
}

// A network that is only named is taken as the system's, which is InfiniBand.
void note_network(const RunRecord& run, PlannedRun& out) {
  const std::string named = folded(said(run, "/hardware/network"));
  if (run.hardware.nodes == 1 || run.hardware.scale_out_gb_s_per_gpu || named.empty()) return;
  if (named.find("infiniband") == named.npos && named.find("ib") != 0)
    out.flags.emplace_back(
        "a network as the system's: scale_out_gb_s_per_gpu would state its rate");
}

void build_hardware(const RunRecord& run, const RunCatalogues& catalogues,
                    const StackProfile& stack, int capability, PlannedRun& out) {
  HardwareRequest request{.device = run.hardware.device,
                          .system = run.hardware.system.value_or(""),
                          .gpus_per_node = run.hardware.gpus_per_node,
                          .nodes = run.hardware.nodes};
  constexpr double kGiga = 1e9;
  if (run.hardware.scale_out_gb_s_per_gpu)
    request.scale_out = BytesPerSecond{*run.hardware.scale_out_gb_s_per_gpu * kGiga};
  note_network(run, out);
  BuiltCluster built = build_cluster(catalogues.hardware, catalogues.profiles, request);
  out.cluster = std::move(built.cluster);
  out.cluster.stack = rates_of(run, stack, capability, catalogues.stacks);
  out.cluster.memory = memory_of(run, stack);
  out.flags.insert(out.flags.end(), built.assumed.begin(), built.assumed.end());
}

// [MegatronCore] Ranks that cut heads repeat those of keys and values where they are fewer.
void repeat_key_heads(PlannedRun& out) {
  const std::int64_t ranks = out.plan.parallel.tp * out.plan.exchange_ranks();
  ModelConfig& model = out.model;
  if (model.latent || model.kv_heads % ranks == 0 || ranks % model.kv_heads != 0) return;
  out.flags.push_back(
      fmt::format("key-value heads, {} in all, repeated for {} ranks", model.kv_heads, ranks));
  model.kv_heads = ranks;
}

// A count of parameters that is not the model's says that the record describes another.
void note_parameters(const RunRecord& run, PlannedRun& out) {
  constexpr double kClose = 0.02, kBillion = 1e9;
  if (!run.model.params) return;
  const auto counted = static_cast<double>(parameter_count(out.model));
  if (std::abs(*run.model.params / counted - 1) > kClose)
    out.flags.push_back(fmt::format("{:.3g}B parameters stated, {:.3g}B counted",
                                    *run.model.params / kBillion, counted / kBillion));
}

// Facts beside the decisions of the plan.
void note_asides(const RunRecord& run, PlannedRun& out) {
  for (const RunKeyUse use : {RunKeyUse::kAside, RunKeyUse::kFlagged}) {
    const std::vector<std::string> found = flagged_facts(run, use);
    if (use == RunKeyUse::kAside && !found.empty()) out.stack_stated = false;
    out.flags.insert(out.flags.end(), found.begin(), found.end());
  }
  for (const Simplification& each : kSimplifications)
    if (each.applies(run, out)) out.flags.emplace_back(each.flag);
}

Reason choose_all(const RunRecord& run, const RunCatalogues& catalogues, const StackProfile& stack,
                  const DeviceFacts& device, PlannedRun& out) {
  for (const auto& [pointer, text] : stack.choices) set_choice(out.plan, pointer, text);
  choose_launches(run, out);
  if (Reason why = choose_parallel(run, stack, out)) return why;
  repeat_key_heads(out);
  choose_pieces(run, out.plan);
  if (Reason why = choose_kernels(run, stack, device, out)) return why;
  choose_fused_kernels(run, catalogues.stacks, device.capability, out);
  if (Reason why = choose_recipe(run, stack, out)) return why;
  if (Reason why = choose_optimizer(run, out)) return why;
  if (Reason why = choose_trained(run, out)) return why;
  if (Reason why = choose_experts(run, out)) return why;
  if (Reason why = choose_recompute(run, stack, out)) return why;
  choose_offload(run, out.plan);
  choose_codes(run, stack, out);
  choose_batch(run, out);
  choose_head(run, out);
  return std::nullopt;
}

Reason fill(const RunRecord& stated, const RunCatalogues& catalogues, const StackProfile* stack,
            PlannedRun& out) {
  const DeviceFacts& device = catalogues.hardware.device(stated.hardware.device);
  if (stack == nullptr) {
    const RunStack found = stack_of(stated, device, catalogues.stacks);
    stack = found.stack;
    out.stack_stated = found.stated;
  }
  out.stack = stack->name;
  if (Reason why = unmodelled(stated)) return why;
  if (Reason why = inexpressible_plan(stated)) return why;
  if (Reason why = inexpressible_model(stated.model)) return why;

  const RunRecord run = as_documents(stated, out.flags);
  build_hardware(run, catalogues, *stack, device.capability, out);
  if (Reason why = choose_links(run, catalogues.hardware, out)) return why;
  out.model = model_of(run, out.flags);
  note_parameters(run, out);
  out.plan.model = out.model.name;
  out.plan.hardware = out.cluster.name;
  if (Reason why = choose_all(run, catalogues, *stack, device, out)) return why;
  const bool asks = chooses_homes(run) && !takes_homes(*stack, out.plan);
  note_asides(run, out);
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
