#include "planner/validate/run_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "planner/validate/run_stack.h"

namespace zplan {
namespace {

struct Word {
  std::string_view option;
  OperatorSet operators;
};
using enum LayerOperator;
constexpr LayerOperator kAll[] = {kNorm, kQkv, kAttention, kProjection, kFc1, kActivation};
const Word kWords[] = {
    {"--recompute-norm", {kNorm}},
    {"--recompute-swiglu", {kActivation}},
    {"--recompute-ffn", {kFc1, kActivation}},
    {"--recompute-att", {kAttention}},
    {"SAVE_QKV_OUT_PROJ", {kNorm, kAttention, kFc1, kActivation}},
    {"SAVE_DOT_ONLY", {kNorm, kAttention, kActivation}},
    {"minimal_flash", {kNorm, kActivation}},
    {"save_qkv_proj", {kNorm, kAttention, kProjection, kFc1, kActivation}},
    // [PyTorch torch/utils/checkpoint.py] Since 2.1 a recomputation that is not reentrant ends with
    // the last tensor that backward needs: the input of the layer's last product.
    {"early stop", {kNorm, kQkv, kAttention, kProjection, kFc1, kActivation}},
};

}  // namespace

bool says(const RunRecord& run, std::string_view option) {
  return run.recompute_detail && run.recompute_detail->find(option) != std::string::npos;
}

OperatorSet recomputed_operators(const RunRecord& run) {
  OperatorSet result;
  for (const Word& word : kWords) {
    if (!says(run, word.option)) continue;
    for (const LayerOperator op : kAll)
      if (word.operators.has(op)) result.add(op);
  }
  return result;
}

std::int32_t recomputed_layers(const RunRecord& run) {
  if (!run.recompute_detail) return 0;
  const std::string_view words = *run.recompute_detail;
  const std::size_t end = words.find(fmt::format(" of {} layers", run.model.layers));
  if (end == words.npos || end == 0) return 0;
  const std::size_t begin = words.find_last_not_of("0123456789", end - 1) + 1;
  std::int32_t layers = 0;
  std::from_chars(words.data() + begin, words.data() + end, layers);
  return layers;
}

bool compiles_loss(const RunRecord& run) {
  return has_word(run.source, "cross_entropy_loss_fusion");
}

std::int32_t head_chunks(const RunRecord& run) {
  constexpr std::string_view kOption = "--lmhead-chunks=";
  if (!says(run, kOption)) return 1;
  const std::string& words = *run.recompute_detail;
  const char* const from = words.data() + words.find(kOption) + kOption.size();
  std::int32_t chunks = 1;
  std::from_chars(from, words.data() + words.size(), chunks);
  return std::max(1, chunks);
}

OffloadedStates offloaded_states(const RunRecord& run) {
  return {says(run, "--offload-master"), says(run, "--offload-opt-m"),
          says(run, "--offload-opt-v")};
}

}  // namespace zplan
