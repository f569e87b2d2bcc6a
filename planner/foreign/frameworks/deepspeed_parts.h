// DeepSpeed's configuration is read in these parts, in this order.
#pragma once

#include <cstdint>
#include <string_view>

#include "planner/foreign/frameworks/keys_to_plan.h"

namespace zplan {

// [assumed] more than any model has.
constexpr std::int64_t kMostElements = std::int64_t{1} << 62;

void read_deepspeed_homes(const KeysToPlan& to);
void read_deepspeed_precision(const KeysToPlan& to);
void read_deepspeed_gathers(const KeysToPlan& to);
void read_deepspeed_batch(const KeysToPlan& to);

// Of a GPU, beside the Job's.
Bytes deepspeed_buckets(const KeysToPlan& to);

// What no parser of DeepSpeed's notices.
void check_deepspeed_rules(const KeysToPlan& to);

// Home of what "offload_optimizer" or "offload_param" sends away.
Tier deepspeed_home(const ConfigReader& config, std::string_view section);

}  // namespace zplan
