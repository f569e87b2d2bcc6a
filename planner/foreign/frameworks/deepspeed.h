// DeepSpeed's configuration, ds_config.json, of the version in keys/deepspeed.json.
//
//   Plan                     key
//   tp; cp                   tensor_parallel.autotp_size; sequence_parallel_size (Ulysses)
//   zero_stage               zero_optimization.stage
//   optimizer, grads         offload_optimizer.device; gradients go with it from stage 2 on
//   params                   offload_param.device, at stage 3
//   gather unit              leaf_module.classes (a layer), else each module by itself
//   prefetch                 stage3_prefetch_bucket_size: elements of so many units
//   secondary shards         zero_hpz_partition_size
//   overlap                  overlap_comm
//   precision, kernels       bf16, fp16, data_types.grad_accum_dtype
//   batch                    train_micro_batch_size_per_gpu, gradient_accumulation_steps,
//                            train_batch_size
//   clip, optimizer          gradient_clipping, optimizer.type
//
// Recomputation and the sequence are the training script's: the Trainer's arguments or the user say
// them. A pipeline is in code only. Counts of DeepSpeed are elements.
#pragma once

#include <vector>

#include "planner/core/json_reader.h"
#include "planner/foreign/frameworks/setup.h"

namespace zplan {

bool is_deepspeed(const JsonNode& root);

Setup read_deepspeed(const JsonNode& root, const Surroundings& around);

// The keys of a plan, in the order in which they are written.
std::vector<KeyValue> deepspeed_keys(const Plan& plan, const ModelConfig& model);

}  // namespace zplan
