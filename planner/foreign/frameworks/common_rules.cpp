#include "planner/foreign/frameworks/common_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "planner/plan/limits.h"

namespace zplan {
namespace {

// What a launcher is told under the first of the names that it has; 0: no number.
std::int64_t launched(const JsonNode& root, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    if (const auto node = find_key(root, fmt::format("launcher.{}", name)))
      return node->is_number() ? node->integer(1, kMaxDp) : 0;
  return 0;
}

}  // namespace

void divide_ranks(const KeysToPlan& to, std::string_view key) {
  Parallel& p = to.plan.parallel;
  const std::int64_t ranks = to.around.ranks, cut = std::int64_t{p.tp} * p.pp * p.cp;
  if (ranks % cut != 0)
    to.config.add(Trouble::kError, key, fmt::format("{} ranks are no multiple of {}", ranks, cut));
  p.dp = static_cast<std::int32_t>(std::max<std::int64_t>(ranks / cut, 1));
}

void compare_ranks(ConfigReader& config, const Surroundings& around, std::string_view key,
                   std::int64_t started) {
  if (started == around.ranks) return;
  config.add(Trouble::kAssumed, key,
             fmt::format("{} starts {} rank{}, the cluster has {} GPUs: planned for these",
                         key.empty() ? "the launcher" : "this", started, started == 1 ? "" : "s",
                         around.ranks));
}

void check_launcher(ConfigReader& config, const Surroundings& around, const JsonNode& root) {
  const std::int64_t per_node =
      launched(root, {"--nproc_per_node", "--nproc-per-node", "--num_gpus"});
  if (per_node == 0) return;
  const std::int64_t nodes = launched(root, {"--nnodes", "--num_nodes"});
  compare_ranks(config, around, "", per_node * std::max<std::int64_t>(nodes, 1));
}

void fit_batch(const KeysToPlan& to, std::string_view key, Trouble trouble) {
  Batch& batch = to.plan.batch;
  const std::int64_t together = batch.micro_batch * to.plan.parallel.dp;
  if (batch.global_batch % together == 0) return;
  const std::int64_t fits = std::max<std::int64_t>(batch.global_batch / together, 1) * together;
  to.config.add(trouble, key,
                fmt::format("{} is no multiple of micro-batch {} x {} replicas; {} is taken here",
                            batch.global_batch, batch.micro_batch, to.plan.parallel.dp, fits));
  batch.global_batch = fits;
}

}  // namespace zplan
