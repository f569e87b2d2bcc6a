// What the readers of all frameworks demand alike of ranks and batches.
#pragma once

#include <cstdint>
#include <string_view>

#include "planner/core/json_reader.h"
#include "planner/foreign/frameworks/keys_to_plan.h"

namespace zplan {

// Sets the replicas: those that tensor, pipeline and context parallelism, which are set, leave of
// the job's ranks. An error of `key` where they leave no whole number.
void divide_ranks(const KeysToPlan& to, std::string_view key);

// Ranks that `key`, or without one the launcher, starts: the plan is for the job's.
void compare_ranks(ConfigReader& config, const Surroundings& around, std::string_view key,
                   std::int64_t started);

// The same of the launcher in a command line: torchrun's or DeepSpeed's. `root`: all of the line.
void check_launcher(ConfigReader& config, const Surroundings& around, const JsonNode& root);

// The global batch, which is set, is a multiple of the micro-batch of all replicas: else the next
// one below is taken, or the least there is. `trouble`: of whom says another.
void fit_batch(const KeysToPlan& to, std::string_view key, Trouble trouble = Trouble::kError);

}  // namespace zplan
