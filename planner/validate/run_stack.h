// This finds whose software a run used: the profile or the trainer that the record names, else the
// first of its libraries that has a profile. Of the first form, which names neither, it is the
// stack with the longest word of `software` that stands in the citation as a word of its own, of
// those that are not older than the device. Of several with that word the one that the run's
// features speak for (below), else one that fuses attention as the run does. Where no word of
// `software` stands there, the same with those of `weak_software`. Where none does either, it is a
// guess by features, which widens every interval:
//
//   before sm_80   parameters off the GPU: deepspeed_infinity; ZeRO or offload: deepspeed2020;
//                  else megatron2020
//   later          cards without peer links in fp8: llmq; states off the GPU, or ZeRO 2: deepspeed;
//                  ZeRO 3: fsdp; attention that is not fused on sm_80: megatron2022 where sequence
//                  parallel, megatron_deepspeed in a pipeline, else megatron2020; others:
//                  megatron_core where tensors or layers are cut, else fsdp [assumed]
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

struct RunStack {
  const StackProfile* stack = nullptr;
  bool stated = false;  // by the citation; else it is a guess
};
RunStack stack_of(const RunRecord& run, const DeviceFacts& device,
                  const std::vector<StackProfile>& stacks);

}  // namespace zplan
