// torchtitan's configuration: TOML up to 0.2, and the options of the same names from 0.3 on
// (torchtitan_options.h).
//
//   Plan                key
//   dp, shards          parallelism.data_parallel_replicate_degree, .data_parallel_shard_degree
//   tp, pp, cp, ep      parallelism.*_parallel_degree
//   zero_stage          fsdp_reshard_after_forward: always 3, never 2; no sharding 0
//   schedule            parallelism.pipeline_parallel_schedule
//   batch               training.local_batch_size: of a replica, in a pipeline all its
//   micro-batches recompute           activation_checkpoint.mode: full; selective keeps every other
//   layer recipe              training.mixed_precision_reduce
#pragma once

#include <optional>
#include <vector>

#include "planner/core/json_reader.h"
#include "planner/foreign/frameworks/setup.h"

namespace zplan {

bool is_torchtitan(const JsonNode& root);
// Of the flavors that it names those that the catalogue has.
std::optional<ModelConfig> torchtitan_model(const JsonNode& root);
Setup read_torchtitan(const JsonNode& root, const Surroundings& around);
std::vector<KeyValue> torchtitan_keys(const Plan& plan, const ModelConfig& model);

}  // namespace zplan
