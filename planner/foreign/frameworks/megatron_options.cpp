#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planner/foreign/frameworks/megatron_parts.h"

namespace zplan {
namespace {

// Programs of Megatron-LM's.
constexpr std::string_view kPrograms[] = {"pretrain_gpt.py",    "pretrain_bert.py",
                                          "pretrain_t5.py",     "pretrain_mamba.py",
                                          "pretrain_hybrid.py", "pretrain_retro.py"};

// Options at which it stops, and those that took their place.
constexpr std::pair<std::string_view, std::string_view> kNoLonger[] = {
    {"--batch-size", "--micro-batch-size"},
    {"--warmup", "--lr-warmup-fraction"},
    {"--model-parallel-size", "--tensor-model-parallel-size"},
    {"--checkpoint-activations", "--recompute-granularity full"}};

// Whose the options are that Megatron-LM does not have: of its own programs nobody's.
std::string owner_of(const JsonNode& root) {
  const auto script = find_key(root, "script");
  if (!script || !script->is_string()) return "the program that is started";
  const std::string path = script->string();
  const std::string name = path.substr(path.rfind('/') + 1);
  return std::ranges::find(kPrograms, name) != std::end(kPrograms) ? "" : name;
}

}  // namespace

bool is_megatron_fork(const ConfigReader& config) {
  return config.has("--deepspeed") || config.has("--deepspeed_config") ||
         config.has("--zero-stage");
}

void check_megatron_options(const KeysToPlan& to, const KeyTable& table, const JsonNode& root) {
  if (is_megatron_fork(to.config)) {
    to.config.add(Trouble::kNotModelled, "--deepspeed",
                  "of Megatron-DeepSpeed the options are read that Megatron-LM has, and the stage "
                  "of ZeRO; check DeepSpeed's own configuration beside it");
    return;
  }
  to.config.check_keys(owner_of(root));
  for (const auto& [option, now] : kNoLonger)
    if (to.config.has(option))
      to.config.add(
          Trouble::kRemoved, option,
          fmt::format("{} {} stops at it: use {}", table.framework(), table.version(), now));
}

}  // namespace zplan
