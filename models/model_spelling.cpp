#include "models/model_spelling.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

using Words = std::vector<std::string>;

// They may end a name and do not change the shape.
constexpr std::string_view kSameShape[] = {"hf", "instruct", "chat", "base", "it", "pt"};
constexpr std::string_view kFirst = "meta";  // may begin one

constexpr std::size_t kMostShown = 3;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return c >= 'a' && c <= 'z'; }

// Returns the end of a number with its unit: "2.5", "7b", "8x7b".
std::size_t number_end(std::string_view text, std::size_t at) {
  constexpr std::string_view kUnits = "bmtke";
  while (at < text.size() && (is_digit(text[at]) ||
                              (text[at] == '.' && at + 1 < text.size() && is_digit(text[at + 1]))))
    ++at;
  if (at + 1 < text.size() && text[at] == 'x' && is_digit(text[at + 1]))
    return number_end(text, at + 1);
  const bool is_unit = at < text.size() && kUnits.find(text[at]) != kUnits.npos &&
                       (at + 1 == text.size() || !is_letter(text[at + 1]));
  return is_unit ? at + 1 : at;
}

Words without_last(Words words) {
  const auto leaves_shape = [](const std::string& word) {
    return std::ranges::find(kSameShape, word) != std::end(kSameShape);
  };
  while (words.size() > 1 && leaves_shape(words.back())) words.pop_back();
  return words;
}

Words sorted(Words words) {
  std::ranges::sort(words);
  return words;
}

Words names_of(const ModelConfig& model) {
  Words names{model.name};
  names.insert(names.end(), model.aliases.begin(), model.aliases.end());
  for (const ModelVariant& variant : model.variants)
    names.insert(names.end(), variant.names.begin(), variant.names.end());
  return names;
}

bool is_called(const ModelConfig& model, const Words& words) {
  return std::ranges::any_of(
      names_of(model), [&](const std::string& name) { return sorted(model_words(name)) == words; });
}

const ModelConfig* find_called(const std::vector<ModelConfig>& models, const Words& words) {
  const auto found =
      std::ranges::find_if(models, [&](const ModelConfig& one) { return is_called(one, words); });
  return found == models.end() ? nullptr : &*found;
}

std::string organisation_of(std::string_view typed) {
  const std::size_t slash = typed.find('/');
  return slash == typed.npos ? "" : to_lower(typed.substr(0, slash));
}

// Returns whether an alias of the model is of the same organisation, or the text names none.
bool is_of_organisation(const ModelConfig& model, std::string_view typed) {
  const std::string organisation = organisation_of(typed);
  if (organisation.empty()) return true;
  return std::ranges::any_of(model.aliases, [&](const std::string& alias) {
    return organisation_of(alias) == organisation;
  });
}

// Returns whether there is more than a size: "llama 8b", "8x7b".
bool names_a_family(const Words& words) {
  return std::ranges::any_of(words, [](const std::string& word) {
    return is_letter(word[0]) || word.find('x') != std::string::npos;
  });
}

// Returns the names whose words those of the text are among.
Words names_with(const std::vector<ModelConfig>& models, const Words& words) {
  Words names;
  for (const ModelConfig& model : models) {
    if (model.name.starts_with("tiny-")) continue;
    const bool has_all = std::ranges::any_of(names_of(model), [&](const std::string& name) {
      return std::ranges::includes(sorted(model_words(name)), words);
    });
    if (has_all) names.push_back(model.name);
  }
  return names;
}

[[noreturn]] void ask(std::string_view typed, const Words& names) {
  Words shown;
  for (const std::string& name : names)
    if (shown.size() < kMostShown) shown.push_back(in_quotes(name));
  const std::size_t others = names.size() - shown.size();
  throw_bad_input(fmt::format("model {}: expected a name that leaves no other open, such as {}{}",
                              in_quotes(typed), joined(shown, " or "),
                              others > 0 ? fmt::format(" ({} more: zplan models)", others) : ""));
}

}  // namespace

std::vector<std::string> model_words(std::string_view name) {
  const std::string lower =
      to_lower(name.substr(name.find('/') == name.npos ? 0 : name.find('/') + 1));
  const std::string_view text(lower);
  Words words;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    if (is_digit(text[at])) end = number_end(text, at);
    if (is_letter(text[at]))
      while (end < text.size() && is_letter(text[end])) ++end;
    if (is_digit(text[at]) || is_letter(text[at])) words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  if (words.size() > 1 && words.front() == kFirst) words.erase(words.begin());
  return words;
}

std::optional<SpelledModel> spelled_model(std::string_view typed) {
  const Words words = model_words(typed), short_words = without_last(words);
  if (words.empty()) return std::nullopt;
  const std::vector<ModelConfig> models = model_catalogue();
  const ModelConfig* found = find_called(models, sorted(words));
  const bool is_whole = found != nullptr;
  if (!is_whole) found = find_called(models, sorted(short_words));
  if (found == nullptr) {
    if (!names_a_family(short_words) || !organisation_of(typed).empty()) return std::nullopt;
    const Words names = names_with(models, sorted(short_words));
    if (!names.empty()) ask(typed, names);
    return std::nullopt;
  }
  SpelledModel out{.model = *found, .sentence = {}};
  const ModelVariant* const variant = take_variant(out.model, typed);
  if (variant != nullptr)
    out.sentence =
        fmt::format("{} is taken for {}, which has its shape; its weights have {} positions",
                    visible(typed), found->name, variant->trained_positions);
  else if (!is_whole || !is_of_organisation(*found, typed))
    out.sentence = fmt::format("{} is taken for {}", visible(typed), found->name);
  return out;
}

const ModelVariant* take_variant(ModelConfig& model, std::string_view typed) {
  const Words words = model_words(typed), short_words = without_last(words);
  for (const ModelVariant& variant : model.variants)
    for (const std::string& name : variant.names) {
      const Words own = model_words(name);
      if (own != words && own != short_words) continue;
      model.trained_positions = variant.trained_positions;
      model.sequence = std::min(model.sequence, variant.trained_positions);
      return &variant;
    }
  return nullptr;
}

std::string nearest_model_name(std::string_view typed) {
  std::vector<std::string> of_hub, others;
  for (const ModelConfig& model : model_catalogue()) {
    others.push_back(model.name);
    for (const std::string& alias : model.aliases)
      (alias.find('/') == std::string::npos ? others : of_hub).push_back(alias);
  }
  const std::size_t slash = typed.find('/');
  if (slash == typed.npos) return did_you_mean(typed, others);
  std::string nearest = did_you_mean(typed, of_hub);
  return nearest.empty() ? did_you_mean(typed.substr(slash + 1), others) : nearest;
}

}  // namespace zplan
