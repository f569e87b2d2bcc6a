#include "planner/validate/run_stack.h"

#include <algorithm>

#include "planner/core/error.h"

namespace zplan {
namespace {

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

const StackProfile* cited(std::string_view source, int capability,
                          const std::vector<StackProfile>& stacks) {
  const StackProfile* found = nullptr;
  std::size_t longest = 0;
  for (const StackProfile& stack : stacks) {
    if (stack.newest_capability > 0 && stack.newest_capability < capability) continue;
    for (const std::string& word : stack.software) {
      if (word.size() <= longest || !has_word(source, word)) continue;
      longest = word.size();
      found = &stack;
    }
  }
  return found;
}

std::string_view usual(const RunRecord& run, const DeviceFacts& device) {
  constexpr int kAmpere = 80;
  const std::int32_t zero = run.parallel.zero_stage.value_or(0);
  const bool offloads = run.offload.optimizer != "gpu" || run.offload.params != "gpu";
  if (device.capability < kAmpere) {
    if (run.offload.params != "gpu") return "deepspeed_infinity";
    return zero > 0 || offloads ? "deepspeed2020" : "megatron2020";
  }
  if (device.capability > kAmpere && !device.peer_link) {
    if (run.offload.params == "nvme") return "fuyou";
    return run.precision.compute == "fp8" ? "llmq" : "fsdp2023";
  }
  if (device.capability > kAmpere || run.flash_attention.value_or(true))
    return zero == 3 ? "fsdp2023" : "nemo2024";
  if (zero > 0) return zero == 3 ? "deepspeed_infinity" : "deepspeed2020";
  if (run.parallel.sequence_parallel.value_or(false)) return "megatron2022";
  return run.parallel.pp > 1 ? "megatron_deepspeed" : "megatron2020";
}

}  // namespace

bool has_word(std::string_view text, std::string_view word) {
  for (std::size_t at = text.find(word); at != text.npos; at = text.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool begins = at == 0 || !is_word_character(text[at - 1]);
    if (begins && (end == text.size() || !is_word_character(text[end]))) return true;
  }
  return false;
}

const StackProfile& stack_of(const RunRecord& run, const DeviceFacts& device,
                             const std::vector<StackProfile>& stacks) {
  if (const StackProfile* stack = cited(run.source, device.capability, stacks)) return *stack;
  const std::string_view name = usual(run, device);
  const auto found = std::find_if(stacks.begin(), stacks.end(),
                                  [&](const StackProfile& stack) { return stack.name == name; });
  ZPLAN_ASSERT(found != stacks.end());
  return *found;
}

}  // namespace zplan
