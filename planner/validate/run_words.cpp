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
// Attention's backward is worked off in so many pieces where the words do not count them.
constexpr std::int32_t kSomePieces = 2;

// Returns true if the words name an option.
bool says(const RunRecord& run, std::string_view option) {
  return run.recompute_detail && run.recompute_detail->find(option) != std::string::npos;
}

// The operators of a layer whose results are not kept; none: the words name none.
OperatorSet operators_of(const RunRecord& run) {
  OperatorSet result;
  for (const Word& word : kWords)
    if (says(run, word.option)) result = result | word.operators;
  return result;
}

// Layers that are recomputed whole, of "10 of 80 layers"; 0: the words count none.
std::int32_t layers_of(const RunRecord& run) {
  if (!run.recompute_detail) return 0;
  const std::string_view words = *run.recompute_detail;
  const std::size_t end = words.find(fmt::format(" of {} layers", run.model.layers));
  if (end == words.npos || end == 0) return 0;
  const std::size_t begin = words.find_last_not_of("0123456789", end - 1) + 1;
  std::int32_t layers = 0;
  std::from_chars(words.data() + begin, words.data() + end, layers);
  return layers;
}

// The number behind an option that ends with "="; 1: not said.
std::int32_t pieces_of(const RunRecord& run, std::string_view option) {
  if (!says(run, option)) return 1;
  const std::string& words = *run.recompute_detail;
  const char* const from = words.data() + words.find(option) + option.size();
  std::int32_t pieces = 1;
  std::from_chars(from, words.data() + words.size(), pieces);
  return std::max(1, pieces);
}

void recomputation_to_keys(RunRecord& run) {
  if (!run.recompute && says(run, "automatic")) run.recompute = kAutomatic;
  const OperatorSet operators = operators_of(run);
  if (run.recompute && *run.recompute != "none" && !operators.empty()) {
    run.recomputed.modules.emplace();
    for (const LayerOperator op : kAll)
      if (operators.has(op)) run.recomputed.modules->emplace_back(name(op));
  }
  const std::int32_t layers = layers_of(run);
  if (run.recompute == "selective" && !run.recomputed.modules && layers > 0)
    run.recomputed.layers = layers;
}

void offload_to_keys(RunRecord& run) {
  if (run.offload.activations != "gpu" && says(run, "--offload-residual"))
    run.offload.activation_modules = {{"layer_inputs"}};
  std::vector<std::string> states;
  if (says(run, "--offload-master")) states.emplace_back("master");
  if (says(run, "--offload-opt-m")) states.emplace_back("moment1");
  if (says(run, "--offload-opt-v")) states.emplace_back("moment2");
  if (!states.empty()) run.offload.states = std::move(states);
}

}  // namespace

void words_to_keys(RunRecord& run) {
  run.software.cited = run.source;
  if (run.model.experts) run.experts.routing = "unknown";
  if (!run.software.compiled && has_word(run.source, "torch.compile")) run.software.compiled = true;
  // [MegatronCore] The path of a test names the option that compiles the cross entropy.
  if (has_word(run.source, "cross_entropy_loss_fusion")) run.kernels.cross_entropy = "compiled";
  if (run.flash_attention) run.kernels.attention = *run.flash_attention ? "fused" : "unfused";
  recomputation_to_keys(run);
  offload_to_keys(run);
  if (const std::int32_t pieces = pieces_of(run, "--lmhead-chunks="); pieces > 1)
    run.kernels.head_chunks = pieces;
  if (says(run, "--attn-bwd-chunks"))
    run.kernels.attention_backward_pieces =
        std::max(kSomePieces, pieces_of(run, "--attn-bwd-chunks="));
}

}  // namespace zplan
