// The command line of Megatron-LM, or its options as YAML, of the version in keys/megatron.json.
//
//   Plan                   option
//   tp, pp, cp, ep         --tensor-, --pipeline-, --context-, --expert-model-parallel-size, ..
//   schedule, chunks       --num-virtual-stages-per-pipeline-rank,
//                          --num-layers-per-virtual-pipeline-stage: interleaved
//   zero_stage             --use-distributed-optimizer: 1; --use-megatron-fsdp with
//                          --data-parallel-sharding-strategy: 1, 2, 3; --use-torch-fsdp2: 3
//   shards                 --num-distributed-optimizer-instances: replicas / shards
//   recipe                 gradients are added up in fp32 unless --grad-reduce-in-bf16
//   recompute              --recompute-granularity, -method, -num-layers, -modules
//   homes                  --optimizer-cpu-offload, --optimizer-offload-fraction,
//                          --cpu-offloading-num-layers
//   model                  --num-layers, --hidden-size .. (megatron_model.h)
#pragma once

#include <optional>
#include <vector>

#include "planner/core/json_reader.h"
#include "planner/foreign/frameworks/setup.h"

namespace zplan {

bool is_megatron(const JsonNode& root);

Setup read_megatron(const JsonNode& root, const Surroundings& around);

// Of "--option"; of a switch that is on the value is "true".
std::vector<KeyValue> megatron_keys(const Plan& plan, const ModelConfig& model);

// The options, wherever they stand in a command line or a file.
JsonNode megatron_options(const JsonNode& root);

}  // namespace zplan
