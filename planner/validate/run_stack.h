// Whose software a run used: the stack with the longest word of `software` that stands in the
// citation as a word of its own, of those that are not older than the device; where none does, by
// what the run did on which generation of devices [assumed]:
//
//   before sm_80   parameters off the GPU: deepspeed_infinity; ZeRO or offload: deepspeed2020;
//                  else megatron2020
//   sm_80          fused attention: ZeRO 3 fsdp2023, else nemo2024;
//                  without: ZeRO 3 deepspeed_infinity, ZeRO 1 and 2 deepspeed2020, sequence
//                  parallelism megatron2022, pipelines megatron_deepspeed, else megatron2020
//   later          cards without peer links: parameters on drives fuyou, fp8 llmq, else fsdp2023;
//                  others: ZeRO 3 fsdp2023, else nemo2024
//
// Never by id, group or name of the model.
#pragma once

#include <string_view>
#include <vector>

#include "hwprofiles/hardware_catalogue.h"
#include "hwprofiles/stack.h"
#include "planner/validate/runs.h"

namespace zplan {

// Whether `word` stands in the text, no letter or digit before or after it. Case counts.
bool has_word(std::string_view text, std::string_view word);

const StackProfile& stack_of(const RunRecord& run, const DeviceFacts& device,
                             const std::vector<StackProfile>& stacks);

}  // namespace zplan
