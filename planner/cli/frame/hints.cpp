#include "planner/cli/frame/hints.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "hwprofiles/cluster_name.h"
#include "hwprofiles/cluster_spelling.h"
#include "hwprofiles/hw_profile.h"
#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

constexpr std::string_view kNodesAdvice = "--cluster 2x8xH100, which has the number of nodes";

// Spelt in small letters with dashes; "--micro_batch" is looked up as "--micro-batch".
constexpr OptionHint kOptionHints[] = {
    // What is trained.
    {"--lora", "--train", "--train lora"},
    {"--peft", "--train", "--train lora"},
    {"--use-lora", "--train", "--train lora"},
    {"--qlora", "--lora-base", "--train lora --lora-base nf4"},
    {"--load-in-4bit", "--lora-base", "--train lora --lora-base nf4"},
    {"--lora-r", "--lora-rank", "--lora-rank N"},
    {"--model-name", "--model", "--model NAME"},
    {"--model-name-or-path", "--model", "--model NAME or --model FOLDER"},
    {"--model-size", "--model", "--model 13B"},
    {"--num-params", "--model", "--model 13B"},
    {"--parameters", "--model", "--model 13B"},
    // The cluster.
    {"--nodes", "--cluster", kNodesAdvice},
    {"--num-nodes", "--cluster", kNodesAdvice},
    {"--nnodes", "--cluster", kNodesAdvice},
    {"--hardware", "--cluster", "--cluster NAME, as zplan clusters lists them"},
    {"--machine", "--cluster", "--cluster NAME, as zplan clusters lists them"},
    {"--system", "--cluster", "--cluster NAME, as zplan clusters lists them"},
    {"--gpu", "--cluster", "--cluster NAME, as zplan clusters lists them"},
    {"--gpu-type", "--cluster", "--cluster NAME, as zplan clusters lists them"},
    {"--gpu-name", "--cluster", "--cluster NAME, as zplan clusters lists them"},
    {"--device", "--cluster", "--cluster NAME, as zplan clusters lists them"},
    {"--devices", "--cluster", "--cluster NAME, as zplan clusters lists them"},
    {"--accelerator", "--cluster", "--cluster NAME, as zplan clusters lists them"},
    {"--num-gpus", "--gpus", "--gpus N"},
    {"--ngpus", "--gpus", "--gpus N"},
    {"--n-gpus", "--gpus", "--gpus N"},
    {"--gpu-count", "--gpus", "--gpus N"},
    {"--world-size", "--gpus", "--gpus N"},
    {"--nproc-per-node", "--gpus-per-node", "--gpus-per-node N"},
    {"--gpu-memory", "--max-gpu-memory", "--max-gpu-memory 60GiB, or --set gpu.memory=80GiB"},
    // The software.
    {"--framework", "--for", "--for SOFTWARE"},
    {"--software", "--for", "--for SOFTWARE"},
    {"--library", "--for", "--for SOFTWARE"},
    // The batch.
    {"--batch", "--global-batch", "--global-batch N, the sequences of a step"},
    {"--batch-size", "--global-batch", "--global-batch N, the sequences of a step"},
    {"--bs", "--global-batch", "--global-batch N, the sequences of a step"},
    {"--gbs", "--global-batch", "--global-batch N"},
    {"--global-batch-size", "--global-batch", "--global-batch N"},
    {"--train-batch-size", "--global-batch", "--global-batch N"},
    {"--mbs", "--micro-batch", "--micro-batch N"},
    {"--micro-batch-size", "--micro-batch", "--micro-batch N"},
    {"--train-micro-batch-size-per-gpu", "--micro-batch", "--micro-batch N"},
    {"--per-device-train-batch-size", "--micro-batch", "--micro-batch N"},
    {"--local-batch-size", "--micro-batch", "--micro-batch N"},
    {"--gradient-accumulation-steps", "--micro-batch",
     "--micro-batch N: accumulation steps follow from --global-batch, --micro-batch and --dp"},
    {"--grad-accum", "--micro-batch",
     "--micro-batch N: accumulation steps follow from --global-batch, --micro-batch and --dp"},
    {"--gas", "--micro-batch",
     "--micro-batch N: accumulation steps follow from --global-batch, --micro-batch and --dp"},
    {"--sequence", "--seq", "--seq N"},
    {"--sequence-length", "--seq", "--seq N"},
    {"--seq-len", "--seq", "--seq N"},
    {"--seq-length", "--seq", "--seq N"},
    {"--seqlen", "--seq", "--seq N"},
    {"--max-seq-len", "--seq", "--seq N"},
    {"--context", "--seq", "--seq N"},
    {"--context-length", "--seq", "--seq N"},
    {"--ctx", "--seq", "--seq N"},
    // Parallelism.
    {"--tensor-parallel", "--tp", "--tp N"},
    {"--tensor-parallel-size", "--tp", "--tp N"},
    {"--tensor-model-parallel-size", "--tp", "--tp N"},
    {"--pipeline-parallel", "--pp", "--pp N"},
    {"--pipeline-parallel-size", "--pp", "--pp N"},
    {"--pipeline-model-parallel-size", "--pp", "--pp N"},
    {"--data-parallel", "--dp", "--dp N"},
    {"--data-parallel-size", "--dp", "--dp N"},
    {"--data-parallel-replicate-degree", "--dp", "--dp N"},
    {"--context-parallel", "--cp", "--cp N"},
    {"--context-parallel-size", "--cp", "--cp N"},
    {"--ulysses", "--cp", "--cp N"},
    {"--expert-parallel", "--ep", "--ep N"},
    {"--expert-model-parallel-size", "--ep", "--ep N"},
    {"--sequence-parallel", "--sp", "--sp"},
    {"--virtual-pipeline", "--chunks", "--schedule interleaved --chunks N"},
    {"--num-layers-per-virtual-pipeline-stage", "--chunks", "--schedule interleaved --chunks N"},
    {"--zero-stage", "--zero", "--zero N"},
    {"--stage", "--zero", "--zero N"},
    {"--ddp", "--zero", "--zero 0"},
    {"--fsdp", "--zero", "--zero 3"},
    {"--use-distributed-optimizer", "--zero", "--zero 1"},
    // Numbers.
    {"--fp8", "--precision", "--precision fp8"},
    {"--bf16", "--kernel-set", "--kernel-set ID; bf16 is usual where the GPU has it"},
    {"--fp16", "--kernel-set", "--kernel-set ID; fp16 is usual where the GPU has no bf16"},
    {"--dtype", "--kernel-set", "--kernel-set ID, or --precision for the model states"},
    {"--mixed-precision", "--precision", "--precision standard, the default"},
    // Memory.
    {"--offload", "--optimizer", "--optimizer cpu, or --params cpu with --zero 3"},
    {"--cpu-offload", "--optimizer", "--optimizer cpu, or --params cpu with --zero 3"},
    {"--offload-optimizer", "--optimizer", "--optimizer cpu"},
    {"--offload-param", "--params", "--params cpu --zero 3"},
    {"--nvme-offload", "--optimizer", "--optimizer nvme"},
    {"--checkpointing", "--recompute", "--recompute full"},
    {"--gradient-checkpointing", "--recompute", "--recompute full"},
    {"--activation-checkpointing", "--recompute", "--recompute full"},
    {"--recompute-activations", "--recompute", "--recompute selective"},
    {"--recompute-granularity", "--recompute", "--recompute full or --recompute selective"},
    {"--flash-attention", "--kernel-set", "--kernel-set ID; fused attention is usual"},
    // The run.
    {"--budget", "--search-budget",
     "--search-budget N for the millions of operations that a search simulates; what a run costs "
     "is zplan need --price 2.5/h"},
    {"--budget", "--price", "--price 2.5/h, of a GPU-hour: what the run costs"},
    {"--budget-tokens", "--tokens", "--tokens 300B"},
    {"--train-tokens", "--tokens", "--tokens 300B"},
    {"--cost", "--price", "--price 2.5/h, of a GPU-hour"},
    {"--gpu-price", "--price", "--price 2.5/h, of a GPU-hour"},
    {"--price-per-hour", "--price", "--price 2.5/h, of a GPU-hour"},
    {"--deadline", "--within", "--within 30d"},
    {"--out", "--output", "--output FILE"},
    {"--format", "--json", "--json"},
};

constexpr std::string_view kNumber = "N";  // any value that begins with a digit

constexpr ValueHint kValueHints[] = {
    {"--params", kNumber, "a model's size is --model 13B"},
    {"--optimizer", "adam", "type --optimizer-kind adamw"},
    {"--optimizer", "adamw", "type --optimizer-kind adamw"},
    {"--optimizer", "muon", "type --optimizer-kind muon"},
    {"--optimizer", "sgd", "type --optimizer-kind sgd"},
    {"--optimizer", "adafactor", "type --optimizer-kind adafactor"},
    {"--precision", "bf16", "type --precision standard, which computes in bf16 or fp16"},
    {"--precision", "fp16", "type --precision standard, which computes in bf16 or fp16"},
    {"--precision", "fp32", "zplan help kernel-sets lists the kernel sets with fp32"},
    {"--schedule", "vpp", "type --schedule interleaved"},
    {"--schedule", "zero-bubble", "type --schedule zb-h1 or --schedule zb-v"},
    {"--train", "full", "type --train all"},
    {"--train", "qlora", "type --train lora --lora-base nf4"},
};

constexpr SubcommandHint kSubcommandHints[] = {
    {"estimate", "plan", "zplan plan --model M --cluster C"},
    {"fit", "plan", "zplan plan --model M --cluster C"},
    {"fits", "plan", "zplan plan --model M --cluster C"},
    {"search", "plan", "zplan plan --model M --cluster C"},
    {"optimize", "plan", "zplan plan --model M --cluster C"},
    {"tune", "plan", "zplan plan --model M --cluster C"},
    {"throughput", "plan", "zplan plan --model M --cluster C"},
    {"cost", "plan", "zplan plan --model M --cluster C --tokens 300B --price 2.5/h"},
    {"price", "plan", "zplan plan --model M --cluster C --tokens 300B --price 2.5/h"},
    {"memory-usage", "memory", "zplan memory --model M --cluster C"},
    {"mem", "memory", "zplan memory --model M --cluster C"},
    {"vram", "memory", "zplan memory --model M --cluster C"},
    {"train", "run", "zplan run PLAN.json"},
    {"launch", "run", "zplan run PLAN.json"},
    {"execute", "run", "zplan run PLAN.json"},
    {"simulate-step", "simulate", "zplan simulate PLAN.json"},
    {"predict", "simulate", "zplan simulate PLAN.json"},
    {"trace", "simulate", "zplan simulate PLAN.json --trace trace.json"},
    {"time", "goodput", "zplan goodput --model M --cluster C --tokens 300B"},
    {"size", "max", "zplan max --cluster C"},
    {"largest", "max", "zplan max --cluster C"},
    {"how-many", "need", "zplan need --model M --tokens 300B"},
    {"convert", "export", "zplan export PLAN.json --to megatron -o DIR"},
    {"config", "export", "zplan export PLAN.json --to megatron -o DIR"},
    {"import", "check", "zplan check CONFIG --model M --cluster C"},
    {"lint", "check", "zplan check CONFIG --model M --cluster C"},
    {"verify", "run", "zplan run PLAN.json --check"},
    {"hardware", "clusters", "zplan clusters"},
    {"gpus", "clusters", "zplan clusters"},
    {"nodes", "clusters", "zplan clusters"},
    {"benchmark", "calibrate", "zplan calibrate"},
    {"profile", "calibrate", "zplan calibrate"},
    {"list", "models", "zplan models or zplan clusters"},
    {"why", "why-not", "zplan why-not FAMILY --model M --cluster C"},
    {"whatif", "what-if", "zplan what-if --model M --cluster C --set NAME=VALUE"},
    {"man", "manual", "zplan manual"},
    {"version", "plan", "zplan --version"},
};

std::string spelt(std::string_view typed) {
  std::string out = to_lower(typed);
  std::ranges::replace(out, '_', '-');
  return out;
}

bool has(const std::vector<std::string>& known, std::string_view name) {
  return std::ranges::find(known, name) != known.end();
}

// The dashes, which all options have, do not make two of them alike.
std::optional<std::string> nearest_option(const std::string& typed,
                                          const std::vector<std::string>& known) {
  const auto bare = [](std::string_view name) {
    return std::string(name.substr(std::min(name.size(), name.find_first_not_of('-'))));
  };
  std::vector<std::string> names;
  for (const std::string& name : known) names.push_back(bare(name));
  const auto nearest = nearest_name(bare(typed), names);
  if (!nearest) return std::nullopt;
  return fmt::format("; did you mean \"--{}\"?", *nearest);
}

// Returns the cluster as the user types it with so many nodes: "dgx-h100x2", "2x8xH100"; empty: it
// has a count of nodes already, or none can stand with it.
std::string cluster_of_nodes(const TypedNodes& nodes) {
  const bool has_both = !nodes.cluster.empty() && !nodes.count.empty();
  if (!has_both || nodes.count.find_first_not_of("0123456789") != nodes.count.npos) return "";
  try {
    const VariedName name = split_settings(nodes.cluster);
    const bool is_path = looks_like_path(name.plain);
    const std::string whole = is_path ? "" : whole_node_of(name.plain);
    const Cluster one = load_any_cluster(whole.empty() ? name.plain : whole);
    const bool is_of_gpus = catalogue_name(name.plain) != name.plain;  // "8xH100"
    std::string counted = fmt::format("{}x{}", name.plain, nodes.count);
    if (is_of_gpus) counted = fmt::format("{}x{}", nodes.count, name.plain);
    if (is_of_gpus && !whole.empty())
      counted = fmt::format("{}x{}x{}", nodes.count, one.node.devices_per_node, name.plain);
    if (one.nodes != 1 || load_any_cluster(counted).node.name != one.node.name) return "";
    return with_settings(counted, name.settings);
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

std::span<const OptionHint> option_hints() { return kOptionHints; }
std::span<const ValueHint> value_hints() { return kValueHints; }
std::span<const SubcommandHint> subcommand_hints() { return kSubcommandHints; }

std::string option_advice(const std::string& typed, const std::vector<std::string>& known,
                          std::string_view pages, const TypedNodes& nodes) {
  const std::string word = spelt(typed);
  for (const OptionHint& hint : kOptionHints) {
    if (hint.typed != word || !has(known, hint.target)) continue;
    const std::string counted = hint.advice == kNodesAdvice ? cluster_of_nodes(nodes) : "";
    if (!counted.empty()) return fmt::format("; type --cluster {}", counted);
    return fmt::format("; type {}", hint.advice);
  }
  return nearest_option(word, known).value_or(fmt::format("; {}", pages));
}

std::string value_advice(std::string_view option, std::string_view value) {
  const std::string word = spelt(value);
  const bool is_number = !word.empty() && word[0] >= '0' && word[0] <= '9';
  for (const ValueHint& hint : kValueHints)
    if (hint.option == option && (hint.value == word || (hint.value == kNumber && is_number)))
      return fmt::format("; {}", hint.advice);
  return "";
}

std::string subcommand_advice(const std::string& typed, const std::vector<std::string>& known) {
  const std::string word = spelt(typed);
  for (const SubcommandHint& hint : kSubcommandHints)
    if (hint.typed == word) return fmt::format("; type {}", hint.advice);
  return did_you_mean(word, known);
}

}  // namespace zplan
