#include "models/layer_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "planner/core/error.h"

namespace zplan {
namespace {

struct MixerLetter {
  char letter;
  Mixer mixer;
};
constexpr MixerLetter kMixers[] = {
    {'M', Mixer::kMamba},     {'G', Mixer::kDelta}, {'*', Mixer::kAttention}, {'K', Mixer::kKimi},
    {'S', Mixer::kSelective}, {'H', Mixer::kBoth},  {'C', Mixer::kShort}};
struct FeedForwardLetter {
  char letter;
  FeedForward feed_forward;
};
constexpr FeedForwardLetter kFeedForwards[] = {{'E', FeedForward::kExperts},
                                               {'-', FeedForward::kMlp}};
constexpr std::string_view kLetters = "M, G, K, S, H, C, *, E or -";

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  if (text.find(' ') == std::string_view::npos) {
    for (std::size_t i = 0; i < text.size(); ++i) words.push_back(text.substr(i, 1));
    return words;
  }
  while (!text.empty()) {
    const std::size_t begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    text.remove_prefix(end);
  }
  return words;
}

// A mixer, what follows it, or both in this order.
std::optional<LayerParts> parts_of(std::string_view word) {
  LayerParts parts{Mixer::kNone, FeedForward::kNone};
  const auto* const mixer = std::ranges::find(kMixers, word.front(), &MixerLetter::letter);
  if (mixer != std::end(kMixers)) {
    parts.mixer = mixer->mixer;
    word.remove_prefix(1);
  }
  if (word.empty()) return parts;
  const auto* const last =
      std::ranges::find(kFeedForwards, word.front(), &FeedForwardLetter::letter);
  if (last == std::end(kFeedForwards) || word.size() > 1) return std::nullopt;
  parts.feed_forward = last->feed_forward;
  return parts;
}

}  // namespace

std::string layer_word(const LayerParts& parts) {
  std::string word;
  for (const MixerLetter& one : kMixers)
    if (one.mixer == parts.mixer) word += one.letter;
  for (const FeedForwardLetter& one : kFeedForwards)
    if (one.feed_forward == parts.feed_forward) word += one.letter;
  return word;
}

std::string pattern_fault(std::string_view text, std::int64_t layers) {
  const std::vector<std::string_view> words = words_of(text);
  if (words.empty()) return "expected a layer, got none";
  for (const std::string_view word : words)
    if (!parts_of(word))
      return fmt::format(
          "expected layers of one mixer and one of E and - at most, each {}, got "
          "\"{}\"",
          kLetters, word);
  const auto count = static_cast<std::int64_t>(words.size());
  if (layers % count == 0) return "";
  return fmt::format(
      "expected as many layers as the model has, {}, or a number that divides it, "
      "got {}",
      layers, count);
}

LayerPattern pattern_of(std::string_view text, std::int64_t layers) {
  const std::vector<std::string_view> words = words_of(text);
  LayerPattern pattern;
  for (std::size_t i = 0; i < static_cast<std::size_t>(layers); ++i)
    pattern.push_back(parts_of(words[i % words.size()]).value());
  return pattern;
}

LayerPattern read_pattern(const JsonNode& node, std::int64_t layers) {
  const std::string text = node.non_empty_string();
  if (const std::string fault = pattern_fault(text, layers); !fault.empty()) node.fail(fault);
  return pattern_of(text, layers);
}

std::int64_t pattern_period(std::span<const LayerParts> pattern) {
  const std::size_t layers = pattern.size();
  for (std::size_t period = 1; period < layers; ++period) {
    if (layers % period != 0) continue;
    bool repeats = true;
    for (std::size_t i = period; i < layers && repeats; ++i)
      repeats = pattern[i] == pattern[i - period];
    if (repeats) return static_cast<std::int64_t>(period);
  }
  return static_cast<std::int64_t>(layers);
}

std::string pattern_words(std::span<const LayerParts> pattern) {
  const auto period = static_cast<std::size_t>(pattern_period(pattern));
  std::vector<std::string> words;
  for (const LayerParts& parts : pattern.first(period)) words.push_back(layer_word(parts));
  const bool are_letters =
      std::ranges::all_of(words, [](const std::string& word) { return word.size() == 1; });
  // A word of two letters by itself would read as two layers.
  if (!are_letters && words.size() == 1 && pattern.size() > 1) words.push_back(words.front());
  if (!are_letters && words.size() == 1) return words.front() + " ";
  std::string text;
  for (const std::string& word : words) text += (are_letters || text.empty() ? "" : " ") + word;
  return text;
}

std::string_view name(Mixer mixer) {
  constexpr std::string_view kNames[] = {"none",
                                         "attention",
                                         "Mamba-2",
                                         "gated delta net",
                                         "Kimi delta attention",
                                         "Mamba-1",
                                         "Mamba-2 beside attention",
                                         "gated short convolution"};
  return kNames[static_cast<std::size_t>(mixer)];
}

}  // namespace zplan
