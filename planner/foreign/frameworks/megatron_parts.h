// Megatron-LM's options are read in these parts, in this order.
#pragma once

#include "planner/core/json_reader.h"
#include "planner/foreign/frameworks/keys_to_plan.h"

namespace zplan {

// `root`: what was read, with the launcher and the script beside the options.
void check_megatron_options(const KeysToPlan& to, const KeyTable& table, const JsonNode& root);
void read_megatron_ranks(const KeysToPlan& to, const JsonNode& root);
void read_megatron_precision(const KeysToPlan& to);
void read_megatron_sharding(const KeysToPlan& to);
void read_megatron_recomputation(const KeysToPlan& to);
void read_megatron_homes(const KeysToPlan& to);
void read_megatron_pipeline(const KeysToPlan& to);
// This reads what runs beside the exchange of experts, once all else is read.
void read_megatron_overlap(const KeysToPlan& to);

// All of them but the former two.
void read_megatron_plan(const KeysToPlan& to);

// What is reduced together, once all else is read.
Gather megatron_gather(const KeysToPlan& to);

// Megatron-DeepSpeed began as Megatron-LM and adds options of its own.
bool is_megatron_fork(const ConfigReader& config);

}  // namespace zplan
