// Accelerate's configuration, as `accelerate config` writes it, with FSDP of either version.
//
//   Plan              key
//   zero_stage        fsdp_config: fsdp_reshard_after_forward (version 2), fsdp_sharding_strategy
//   (1) shards            parallelism_config: dp_replicate_size x dp_shard_size; HYBRID_SHARD: a
//   node tp, cp            parallelism_config_tp_size, _cp_size gather unit fsdp_auto_wrap_policy:
//   TRANSFORMER_BASED_WRAP is a layer homes             fsdp_offload_params: parameters, gradients
//   and optimizer to the CPU recompute         fsdp_activation_checkpointing batch             the
//   training script's: the user says it
// A file with `deepspeed_config` says a few of DeepSpeed's keys by other names.
#pragma once

#include <vector>

#include "planner/core/json_reader.h"
#include "planner/foreign/frameworks/setup.h"

namespace zplan {

bool is_accelerate(const JsonNode& root);
Setup read_accelerate(const JsonNode& root, const Surroundings& around);
std::vector<KeyValue> accelerate_keys(const Plan& plan, const ModelConfig& model);

}  // namespace zplan
