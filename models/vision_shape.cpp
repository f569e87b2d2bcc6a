#include "models/vision_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>

namespace zplan {
namespace {

using ProjectorKind = ProjectorStep::Kind;
constexpr std::int64_t kMostProjectorColumns = 1 << 20;
constexpr std::string_view kProjectorBias = "+bias";

struct ProjectorWord {
  std::string_view word;
  ProjectorKind kind;
};
constexpr ProjectorWord kProjectorWords[] = {
    {"layernorm", ProjectorKind::kLayerNorm}, {"rmsnorm", ProjectorKind::kRmsNorm},
    {"merge", ProjectorKind::kMerge},         {"mean", ProjectorKind::kMean},
    {"gelu", ProjectorKind::kGelu},           {"silu", ProjectorKind::kSilu},
    {"swiglu", ProjectorKind::kSwiglu}};

// The parts of a text between separators, those that are empty left out.
std::vector<std::string_view> separated(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(separator), text.size());
    if (end > 0) parts.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// "512" or "512+bias"; nothing: it is no product.
std::optional<ProjectorStep> product_of(std::string_view word) {
  ProjectorStep step{.kind = ProjectorKind::kProduct, .bias = word.ends_with(kProjectorBias)};
  if (step.bias) word.remove_suffix(kProjectorBias.size());
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), step.out);
  const bool whole = error == std::errc{} && end == word.data() + word.size();
  if (!whole || step.out < 1 || step.out > kMostProjectorColumns) return std::nullopt;
  return step;
}

std::optional<ProjectorStep> step_of(std::string_view word) {
  for (const ProjectorWord& row : kProjectorWords)
    if (row.word == word) return ProjectorStep{.kind = row.kind};
  return product_of(word);
}

// Steps follow what the step before gives.
struct Chain {
  std::int64_t columns;
  bool merged = false;
};
std::optional<std::string> follow(ProjectorStep& step, Chain& chain, std::int64_t merge) {
  step.in = chain.columns;
  if (step.kind != ProjectorKind::kProduct) step.out = chain.columns;
  if (step.kind == ProjectorKind::kMerge || step.kind == ProjectorKind::kMean) {
    if (chain.merged) return "merge or mean once";
    chain.merged = true;
    if (step.kind == ProjectorKind::kMerge) step.out = chain.columns * merge;
  }
  if (step.kind == ProjectorKind::kSwiglu) {
    if (chain.columns % 2 != 0) return "an even number of columns before swiglu";
    step.out = chain.columns / 2;
  }
  step.merged = chain.merged;
  chain.columns = step.out;
  return std::nullopt;
}

std::optional<std::string> read_projector(const VisionShape& vision, std::string_view words,
                                          Projector& steps) {
  Chain chain{vision.hidden, vision.merge == 1};
  for (const std::string_view word : separated(words, ' ')) {
    auto step = step_of(word);
    if (!step)
      return fmt::format(
          "layernorm, rmsnorm, merge, mean, gelu, silu, swiglu, N or N+bias, got \"{}\"", word);
    if (auto fault = follow(*step, chain, vision.merge)) return fault;
    steps.push_back(*step);
  }
  if (!chain.merged) return "merge or mean, since a token has several patches";
  const bool has_product = std::ranges::any_of(
      steps, [](const ProjectorStep& step) { return step.kind == ProjectorKind::kProduct; });
  if (!has_product) return "a product";
  return std::nullopt;
}

}  // namespace

std::vector<Projector> VisionShape::projectors() const {
  std::vector<Projector> all;
  for (const std::string_view words : separated(projector, ';')) {
    all.emplace_back();
    read_projector(*this, words, all.back());
  }
  return all;
}

std::int64_t VisionShape::parameters_outside() const {
  std::int64_t sum = hidden * (patch + (patch_bias ? 1 : 0) + positions);
  if (embedding_norm) sum += hidden * (rms_norm ? 1 : 2);
  for (const Projector& steps : projectors())
    for (const ProjectorStep& step : steps) {
      sum += norm_vectors_of(step.kind) * step.in;
      if (step.kind == ProjectorKind::kProduct) sum += (step.in + (step.bias ? 1 : 0)) * step.out;
    }
  return sum;
}

VisionSizes VisionShape::sizes() const {
  VisionSizes sizes{.layers = layers,
                    .hidden = std::max(hidden, patch),
                    .ffn = ffn,
                    .patches = all_patches(),
                    .tokens = tokens(),
                    .divisor = std::gcd(heads, ffn),
                    .outside = parameters_outside()};
  for (const Projector& steps : projectors())
    for (const ProjectorStep& step : steps) sizes.ffn = std::max({sizes.ffn, step.in, step.out});
  return sizes;
}

std::optional<std::string> projector_fault(const VisionShape& vision, std::int64_t hidden) {
  for (const std::string_view words : separated(vision.projector, ';')) {
    Projector steps;
    if (auto fault = read_projector(vision, words, steps)) return fault;
    if (steps.back().out != hidden)
      return fmt::format("steps that give {} columns, the text model's hidden, got {}", hidden,
                         steps.back().out);
  }
  return std::nullopt;
}

}  // namespace zplan
