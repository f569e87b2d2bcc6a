// The options of an exported training script for PyTorch's fully sharded data parallelism (FSDP2):
// a file of our own, in which what PyTorch takes has PyTorch's names.
//
//   Plan              key
//   zero_stage, dp    mesh.replicate, mesh.shard; fully_shard.reshard_after_forward
//   recipe            mixed_precision.param_dtype, .reduce_dtype (MixedPrecisionPolicy)
//   homes             offload.to_cpu: parameters, gradients and optimizer (CPUOffloadPolicy)
//   batch             training.micro_batch, .accumulation, .sequence
//   recompute, clip   training.recompute, .clip
#pragma once

#include <vector>

#include "planner/core/json_reader.h"
#include "planner/foreign/frameworks/setup.h"

namespace zplan {

bool is_fsdp_options(const JsonNode& root);
Setup read_fsdp_options(const JsonNode& root, const Surroundings& around);
std::vector<KeyValue> fsdp_options_keys(const Plan& plan, const ModelConfig& model);

}  // namespace zplan
