#include "planner/validate/run_stack.h"

#include <algorithm>
#include <cctype>

#include "planner/core/error.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

bool is_word_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Finds the trainers, or the libraries, with the longest word of the citation; none: no word of any
// stands in it.
std::vector<const StackProfile*> cited(std::string_view source, int capability,
                                       const std::vector<StackProfile>& stacks, bool libraries,
                                       std::vector<std::string> StackProfile::*words) {
  std::vector<const StackProfile*> found;
  std::size_t longest = 0;
  for (const StackProfile& stack : stacks) {
    if (stack.library != libraries) continue;
    if (stack.newest_capability > 0 && stack.newest_capability < capability) continue;
    for (const std::string& word : stack.*words) {
      if (word.size() < longest || !has_word(source, word)) continue;
      if (word.size() > longest) found.clear();
      longest = word.size();
      found.push_back(&stack);
    }
  }
  return found;
}

std::string_view usual_before_ampere(const RunRecord& run) {
  if (run.offload.params != "gpu") return "deepspeed_infinity";
  const bool zero = run.parallel.zero_stage.value_or(0) > 0;
  return zero || run.offload.optimizer != "gpu" ? "deepspeed2020" : "megatron2020";
}

std::string_view usual(const RunRecord& run, const DeviceFacts& device) {
  constexpr int kAmpere = 80;
  if (device.capability < kAmpere) return usual_before_ampere(run);
  const std::int32_t zero = run.parallel.zero_stage.value_or(0);
  if (device.capability > kAmpere && !device.peer_link && run.precision.compute == "fp8")
    return "llmq";
  if (zero == 2 || run.offload.params != "gpu" || run.offload.optimizer != "gpu")
    return "deepspeed";
  const RunParallel& ranks = run.parallel;
  const bool old = device.capability == kAmpere && !run.flash_attention.value_or(true);
  if (zero == 3) return "fsdp";
  if (!old) return ranks.tp == 1 && ranks.pp == 1 ? "fsdp" : "megatron_core";
  if (ranks.sequence_parallel.value_or(false)) return "megatron2022";
  return ranks.pp > 1 ? "megatron_deepspeed" : "megatron2020";
}

const StackProfile* named(std::string_view name, const std::vector<StackProfile>& stacks) {
  const auto found = std::ranges::find(stacks, name, &StackProfile::name);
  ZPLAN_ASSERT(found != stacks.end());
  return &*found;
}

// Returns the words of a name in lower case, without numbers of editions: "PyTorch FSDP2" is
// " pytorch fsdp ", "NeMo 25.02" is " nemo ".
std::string words_of_name(std::string_view name) {
  std::string out = " ";
  for (const char c : name)
    out +=
        is_word_character(c) ? static_cast<char>(std::tolower(static_cast<unsigned char>(c))) : ' ';
  out += ' ';
  std::string words;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t end = out.find_first_not_of("0123456789", i);
    if (end > i && out[end] == ' ') i = end;
    if (out[i] != ' ' || !words.ends_with(' ')) words += out[i];
  }
  return words;
}

// Finds the profiles with the longest words that stand in the name of a software, of those not
// older than the device.
std::vector<const StackProfile*> called(std::string_view name, int capability,
                                        const std::vector<StackProfile>& stacks) {
  const std::string words = words_of_name(name);
  std::vector<const StackProfile*> found;
  std::size_t longest = 1;
  for (const StackProfile& stack : stacks) {
    if (stack.newest_capability > 0 && stack.newest_capability < capability) continue;
    for (const auto* list : {&stack.software, &stack.weak_software})
      for (const std::string& one : *list) {
        const std::string wanted = words_of_name(one);
        if (wanted.size() < longest || words.find(wanted) == words.npos) continue;
        if (wanted.size() > longest) found.clear();
        longest = wanted.size();
        if (found.empty() || found.back() != &stack) found.push_back(&stack);
      }
  }
  return found;
}

// The trainer's profiles, else those of the first library that has one.
std::vector<const StackProfile*> stated_by(const RunSoftware& software, int capability,
                                           const std::vector<StackProfile>& stacks) {
  std::vector<std::string> names = software.libraries.value_or(std::vector<std::string>());
  if (software.name) names.insert(names.begin(), *software.name);
  for (const std::string& name : names)
    if (auto found = called(name, capability, stacks); !found.empty()) return found;
  return {};
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

RunStack stack_of(const RunRecord& run, const DeviceFacts& device,
                  const std::vector<StackProfile>& stacks) {
  if (run.software.name) {
    const auto profile = std::ranges::find(stacks, *run.software.name, &StackProfile::name);
    if (profile != stacks.end()) return {&*profile, true};
  }
  const auto with_words = [&](bool libraries, std::vector<std::string> StackProfile::*words) {
    return cited(run.software.cited, device.capability, stacks, libraries, words);
  };
  std::vector<const StackProfile*> candidates = stated_by(run.software, device.capability, stacks);
  if (candidates.empty()) candidates = with_words(false, &StackProfile::software);
  if (candidates.empty()) candidates = with_words(true, &StackProfile::software);
  if (candidates.empty()) candidates = with_words(false, &StackProfile::weak_software);
  if (candidates.empty()) candidates = with_words(true, &StackProfile::weak_software);
  const StackProfile* const guess = named(usual(run, device), stacks);
  if (candidates.empty()) return {guess, false};
  if (std::ranges::find(candidates, guess) != candidates.end()) return {guess, true};
  const auto fits = [&](const StackProfile* stack) {
    return stack->fused == run.flash_attention.value_or(stack->fused);
  };
  const auto fused_alike = std::ranges::find_if(candidates, fits);
  const StackProfile* const found =
      fused_alike != candidates.end() ? *fused_alike : candidates.front();
  const bool by_another = !run.model.experts && !found->without_experts.empty();
  return {by_another ? named(found->without_experts, stacks) : found, true};
}

}  // namespace zplan
