#include "planner/cli/pin_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "planner/cli/words.h"
#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"
#include "planner/plan/limits.h"
#include "planner/program/kernel_set.h"

namespace zplan {
namespace {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<std::int32_t> number(std::string_view text) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1) return std::nullopt;
  return value;
}

std::optional<Recompute> recompute_mode(std::string_view word) {
  for (const Recompute mode : {Recompute::kNone, Recompute::kSelective, Recompute::kFull})
    if (word == name(mode)) return mode;
  return std::nullopt;
}

// "full", "full:12,none:20", "full:12,none"
std::vector<RecomputeRun> recompute_runs(const std::string& text) {
  std::vector<RecomputeRun> runs;
  for (const std::string_view part : split(text, ',')) {
    const std::size_t colon = part.find(':');
    const auto mode = recompute_mode(part.substr(0, colon));
    const auto layers =
        colon == part.npos ? std::optional<std::int32_t>(0) : number(part.substr(colon + 1));
    if (!mode || !layers) {
      throw_bad_input(fmt::format(
          "--recompute: expected none, selective, full or runs of layers such as full:12,none:20, "
          "got {}",
          in_quotes(text)));
    }
    runs.push_back({*mode, *layers});
  }
  return runs;
}

// "13,11,12,12"
std::vector<std::int32_t> stage_layers(const std::string& text) {
  std::vector<std::int32_t> layers;
  for (const std::string_view part : split(text, ',')) {
    const auto count = number(part);
    if (!count) {
      throw_bad_input(fmt::format("--stages: expected layers per stage such as 13,11,12,12, got {}",
                                  in_quotes(text)));
    }
    layers.push_back(*count);
  }
  return layers;
}

std::string kernel_set(const std::string& id) {
  try {
    return std::string(find_kernel_set(id).id);
  } catch (const Error& error) {
    throw_bad_input(fmt::format("--kernel-set: {}", error.what()));
  }
}

// "lean", "standard,lean", "any"
std::vector<std::string> recipes(const std::string& text) {
  if (text == kAnyRecipe) return {text};
  std::vector<std::string> names;
  const std::vector<std::string> known(std::begin(kRecipeNames), std::end(kRecipeNames));
  for (const std::string_view part : split(text, ',')) {
    if (std::find(known.begin(), known.end(), part) == known.end()) {
      throw_bad_input(fmt::format("--precision: expected any, or some of {}, got {}{}",
                                  fmt::join(known, ","), in_quotes(text),
                                  did_you_mean(std::string(part), known)));
    }
    names.emplace_back(part);
  }
  return names;
}

void add_shape(Syntax& syntax, Pins& pins) {
  syntax.integer("--dp", pins.dp, 1, kMaxDp, "Data parallel replicas");
  syntax.integer("--tp", pins.tp, 1, kMaxTp, "Tensor parallel ranks of a replica");
  syntax.integer("--pp", pins.pp, 1, kMaxStages, "Pipeline stages");
  syntax.parsed("--stages", "LIST", "Layers of each stage, e.g. 13,11,12,12 [even]",
                [&pins](const std::string& text) { pins.stage_layers = stage_layers(text); });
  syntax.choice<std::optional<Schedule>, Schedule>(
      "--schedule", pins.schedule, "Of the pipeline [1f1b]",
      {{"1f1b", Schedule::kOneForwardOneBackward}, {"gpipe", Schedule::kGpipe}});
  syntax.integer("--zero", pins.zero_stage, 0, 3, "ZeRO stage");
  syntax.integer("--shards", pins.shards, 1, kMaxDp,
                 "Replicas that share one copy of what ZeRO shards [all]");
  syntax.integer("--micro-batch", pins.micro_batch, 1, kMaxGlobalBatch,
                 "Sequences per replica and micro-step");
}

void add_homes(Syntax& syntax, Pins& pins) {
  const auto tier = [&](const char* names, std::optional<Tier>& target, const char* help) {
    syntax.choice<std::optional<Tier>, Tier>(
        names, target, help, {{"gpu", Tier::kGpu}, {"cpu", Tier::kCpu}, {"nvme", Tier::kNvme}});
  };
  tier("--params", pins.params, "Home of the parameters (off the GPU: ZeRO 3)");
  tier("--grads", pins.grads, "Home of the gradients (off the GPU: ZeRO 2 or 3)");
  tier("--optimizer", pins.optimizer, "Home of master copy and moments");
  tier("--activations", pins.activations, "Home of the checkpoints (off the GPU: recompute full)");
}

}  // namespace

void PinOptions::add_to(Syntax& syntax, Pins& pins) {
  syntax.group("Planning choices (searched or usual unless given)");
  add_shape(syntax, pins);
  syntax.flag("--sp", sequence_parallel_, "Sequence parallelism within tensor parallel groups");
  syntax.flag("--no-sp", no_sequence_parallel_, "No sequence parallelism");
  syntax.parsed("--recompute", "MODE", "none, selective, full, or runs of layers: full:12,none:20",
                [&pins](const std::string& text) { pins.recompute = recompute_runs(text); });
  syntax.flag("--partition-activations", partition_activations_,
              "Checkpoints cut over the tensor parallel ranks");
  syntax.choice<std::optional<GatherUnit>, GatherUnit>(
      "--gather", pins.gather, "Parameters gathered at a time",
      {{"layer", GatherUnit::kLayer}, {"operator", GatherUnit::kOperator}});
  syntax.integer("--unit-layers", pins.unit_layers, 1, kMaxUnitLayers,
                 "Layers gathered and reduced together, with --gather layer [1]");
  syntax.flag("--owners", owners_, "Each layer owned by one rank, which broadcasts it (ZeRO 3)");
  syntax.integer("--prefetch", pins.prefetch, 0, kMaxPrefetch, "Gathers ahead of the one in use");
  syntax.integer("--tiles", pins.tiles, 1, kMaxTiles, "Pieces that each matrix is worked off in");
  add_homes(syntax, pins);
  syntax.flag("--delayed-update", delayed_update_,
              "Update on the host beside the next step, which uses older parameters");
  syntax.choice<std::optional<LaunchMode>, LaunchMode>(
      "--launch", pins.launch,
      "Kernels one by one, or as CUDA graphs where no host is between [stream]",
      {{"stream", LaunchMode::kStream}, {"graph", LaunchMode::kGraph}});
  syntax.parsed("--kernel-set", "ID",
                "Kernels to plan for, e.g. cpu.f32, cuda.sm70.fp16 [the cluster's]",
                [&pins](const std::string& id) { pins.kernel_set = kernel_set(id); });
  syntax.parsed("--precision", fmt::format("{}|{}", fmt::join(kRecipeNames, "|"), kAnyRecipe),
                "Element types of the states; of a list (a,b) the fastest [standard]",
                [&pins](const std::string& text) { pins.recipes = recipes(text); });
  syntax.flag("--no-clip", no_clip_, "Train without gradient clipping");
}

void PinOptions::finish(Pins& pins) const {
  if (sequence_parallel_ && no_sequence_parallel_) {
    throw_bad_input("--sp and --no-sp contradict each other");
  }
  if (sequence_parallel_) pins.sequence_parallel = true;
  if (no_sequence_parallel_) pins.sequence_parallel = false;
  if (partition_activations_) pins.partition_activations = true;
  if (delayed_update_) pins.delayed_update = true;
  if (no_clip_) pins.clip = false;
  if (owners_) pins.owners = true;
}

std::vector<std::string> idle_pins(const Pins& pins, const Plan& plan, const Cluster& cluster) {
  std::vector<std::string> lines;
  const auto say = [&](bool idle, const char* option, const std::string& why) {
    if (idle) lines.push_back(fmt::format("{} has no effect: {}", option, why));
  };
  const Parallel& p = plan.parallel;
  const StatePlacement& at = plan.placement;
  const bool in_rings = plan.zero_stage >= 2 || at.params != Tier::kGpu;
  const std::string whole = fmt::format("ZeRO {} moves no units of the model", plan.zero_stage);
  say(pins.prefetch && !in_rings, "--prefetch", whole);
  say(pins.sequence_parallel.value_or(false) && p.tp == 1, "--sp", "tp is 1");
  say(pins.recipes.size() == 1 && pins.recipes[0] == kAnyRecipe &&
          recipes_of(plan.kernel_set).size() == 1,
      "--precision any", fmt::format("kernel set {} has one recipe only", plan.kernel_set));
  say(pins.schedule && p.pp == 1, "--schedule", "there is one pipeline stage");
  say(pins.stage_layers && p.pp == 1, "--stages", "there is one pipeline stage");
  say(pins.shards && plan.shards() == p.dp, "--shards",
      plan.zero_stage == 0 ? "ZeRO 0 shards nothing" : "these are all replicas");
  bool idle = false;
  for (const RecomputeRun& run : plan.recompute) idle |= plan.effective(run.mode) != run.mode;
  say(pins.recompute && idle, "--recompute selective",
      fmt::format("kernel set {} never stores the scores of attention", plan.kernel_set));
  const std::int64_t ranks = std::int64_t{p.dp} * p.tp * p.pp;
  if (ranks < cluster.devices()) {
    lines.push_back(fmt::format("{} of {} GPUs stay idle: dp {} x tp {} x pp {} is {}",
                                grouped(cluster.devices() - ranks), grouped(cluster.devices()),
                                p.dp, p.tp, p.pp, count_of(ranks, "rank")));
  }
  return lines;
}

}  // namespace zplan
