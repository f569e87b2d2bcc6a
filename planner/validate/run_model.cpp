#include "planner/validate/run_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "planner/core/text.h"

namespace zplan {
namespace {

// Of head sizes that are even and cut the width into heads that split over tp the nearest to 128,
// as ratios go; where there is none, a head per rank.
std::int64_t nearest_heads(const RunRecord& run) {
  constexpr std::int64_t kUsual = 128, kLeast = 32, kMost = 512;
  const std::int64_t hidden = run.model.hidden, tp = run.parallel.tp;
  std::int64_t best = 0;
  const auto ratio = [=](std::int64_t size) {
    return static_cast<double>(std::max(size, kUsual)) /
           static_cast<double>(std::min(size, kUsual));
  };
  for (std::int64_t size = kLeast; size <= kMost; size += 2) {
    const bool cuts = hidden % size == 0 && hidden / size % tp == 0;
    if (cuts && (best == 0 || ratio(size) < ratio(best))) best = size;
  }
  return best == 0 ? tp : hidden / best;
}

constexpr std::string_view kLearned = "learned", kRope = "rope", kAlibi = "alibi", kNone = "none";

// Which linear layers have biases: all of them, but none with RMSNorm or in MPT.
Biases biases_of(const RunModel& m) {
  return m.norm == "rmsnorm" || m.family == "mpt" ? Biases::kNone : Biases::kAll;
}

// As stated, else as the gated MLP of Llama or the plain one of GPT goes with.
std::string_view position_of(const RunModel& m) {
  if (m.position) return *m.position;
  return m.gated_ffn ? kRope : kLearned;
}

}  // namespace

std::optional<std::string> inexpressible_model(const RunModel& m) {
  if (m.experts) return "experts";
  const std::string_view position = position_of(m);
  if (position != kLearned && position != kRope && position != kAlibi && position != kNone)
    return fmt::format("positions {}", in_quotes(position));
  if (m.norm && m.norm != "layernorm" && m.norm != "rmsnorm")
    return fmt::format("norm {}", in_quotes(*m.norm));
  return std::nullopt;
}

ModelConfig model_of(const RunRecord& run, std::vector<std::string>& flags) {
  const RunModel& m = run.model;
  const std::string_view position = position_of(m);
  const bool rotary = position == kRope;
  ModelConfig model;
  model.name = m.name;
  set_architecture(model, rotary ? Architecture::kLlama : Architecture::kGpt);
  if (!rotary && position != kLearned) model.position = Position::kNone;
  if (position == kAlibi) flags.emplace_back("ALiBi without its biases of the scores");
  if (m.norm) model.norm = *m.norm == "rmsnorm" ? Norm::kRmsNorm : Norm::kLayerNorm;
  model.biases = biases_of(m);
  model.gated_mlp = m.gated_ffn;
  model.layers = m.layers;
  model.hidden = m.hidden;
  model.heads = m.heads.value_or(nearest_heads(run));
  model.kv_heads = m.kv_heads.value_or(model.heads);
  if (m.head_dim && *m.head_dim * model.heads != m.hidden) model.own_head_size = *m.head_dim;
  model.ffn = m.ffn.value_or(4 * m.hidden);
  model.vocab = m.vocab;
  model.sequence = m.seq;
  model.tied_embeddings = m.tied_embeddings.value_or(!rotary);
  constexpr std::int64_t kUsualTheta = 10'000;
  if (rotary) model.rope_theta = kUsualTheta;
  model.global_batch = run.global_batch.value_or(1);
  model.source = run.source;
  if (!m.heads) flags.push_back(fmt::format("{} heads assumed", model.heads));
  return model;
}

}  // namespace zplan
