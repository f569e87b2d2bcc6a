#include "hwprofiles/cluster_count.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "planner/core/text.h"

namespace zplan {
namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::size_t kMostDigits = 7;
constexpr std::size_t kMostCounts = 2;

constexpr std::pair<std::string_view, CountOf> kWords[] = {
    {"nodes", CountOf::kNodes},  {"node", CountOf::kNodes},      {"servers", CountOf::kNodes},
    {"server", CountOf::kNodes}, {"machines", CountOf::kNodes},  {"machine", CountOf::kNodes},
    {"hosts", CountOf::kNodes},  {"instances", CountOf::kNodes}, {"racks", CountOf::kNodes},
    {"gpus", CountOf::kGpus},    {"gpu", CountOf::kGpus},        {"cards", CountOf::kGpus},
    {"chips", CountOf::kGpus}};
constexpr std::string_view kOf[] = {"of", "with", "x"};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpaces = " ,";
  const std::size_t begin = std::min(text.find_first_not_of(kSpaces), text.size());
  const std::size_t end = text.find_last_not_of(kSpaces);
  return end == text.npos ? std::string_view() : text.substr(begin, end + 1 - begin);
}

// Returns whether a hyphen there is the sign of a number, which no count has: "dgx2x-1",
// "-16xh100".
bool is_sign(std::string_view text, std::size_t at) {
  if (text[at] != '-' || at + 1 == text.size() || kDigits.find(text[at + 1]) == kDigits.npos)
    return false;
  constexpr std::string_view kBefore = " x*:", kBeforeTimes = " 0123456789";
  if (at == 0) return true;
  if (kBefore.find(text[at - 1]) == kBefore.npos) return false;
  return text[at - 1] != 'x' || at == 1 || kBeforeTimes.find(text[at - 2]) != kBeforeTimes.npos;
}

// In lower case, with spaces between words and an x for each sign of multiplication.
std::string plain(std::string_view typed) {
  constexpr std::string_view kTimes = "\u00d7";
  std::string out;
  const std::string text = to_lower(typed);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto is_digit = [&](std::size_t at) {
      return at < text.size() && kDigits.find(text[at]) != kDigits.npos;
    };
    if (std::string_view(text).substr(i).starts_with(kTimes)) {
      out += 'x';
      i += kTimes.size() - 1;
    } else if (is_sign(text, i)) {
      out += '-';
    } else if (text[i] == '*' || (text[i] == ':' && is_digit(i + 1))) {
      out += 'x';
    } else if (text[i] == ',' && i > 0 && is_digit(i - 1) && is_digit(i + 3) && !is_digit(i + 4)) {
      continue;  // of "1,024"
    } else {
      out += text[i] == '_' || text[i] == '-' || text[i] == '(' || text[i] == ')' ? ' ' : text[i];
    }
  }
  return std::string(trimmed(out));
}

std::optional<int> number_of(std::string_view digits) {
  int number = 0;
  if (digits.empty() || digits.size() > kMostDigits) return std::nullopt;
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

struct Cut {
  TypedCount count;
  std::string_view rest;
};

// "2 nodes of 8xh100" -> 2 nodes, "8xh100"; "16xh100" -> 16, "h100".
std::optional<Cut> count_before(std::string_view text) {
  const std::size_t end = std::min(text.find_first_not_of(kDigits), text.size());
  const auto number = number_of(text.substr(0, end));
  if (!number || end == text.size()) return std::nullopt;
  const bool is_apart = text[end] == ' ';
  std::string_view rest = trimmed(text.substr(end));
  for (const auto& [word, of] : kWords) {
    if (!rest.starts_with(word) || !rest.substr(word.size()).starts_with(' ')) continue;
    rest = trimmed(rest.substr(word.size()));
    for (const std::string_view link : kOf)
      if (rest.starts_with(link) && (link == "x" || rest.substr(link.size()).starts_with(' ')))
        rest = trimmed(rest.substr(link.size()));
    return Cut{{*number, of}, rest};
  }
  if (rest.starts_with('x')) return Cut{{*number, CountOf::kAny}, trimmed(rest.substr(1))};
  return is_apart ? std::optional(Cut{{*number, CountOf::kAny}, rest}) : std::nullopt;
}

// "h100 x16" -> 16, "h100"; "dgx h100 4 nodes" -> 4 nodes, "dgx h100".
std::optional<Cut> count_after(std::string_view text) {
  CountOf of = CountOf::kAny;
  for (const auto& [word, what] : kWords)
    if (of == CountOf::kAny && text.ends_with(word)) {
      of = what;
      text = trimmed(text.substr(0, text.size() - word.size()));
    }
  const std::size_t last = text.find_last_not_of(kDigits);
  if (last == text.npos || last + 1 == text.size()) return std::nullopt;
  const auto number = number_of(text.substr(last + 1));
  if (!number) return std::nullopt;
  const bool is_apart = text[last] == ' ';
  std::string_view rest = trimmed(text.substr(0, last + 1));
  const bool multiplies = rest.ends_with('x');
  if (!multiplies && (of == CountOf::kAny || !is_apart)) return std::nullopt;
  if (multiplies) rest = trimmed(rest.substr(0, rest.size() - 1));
  return Cut{{*number, of}, rest};
}

// Drops "gpus" behind a name; returns whether nodes stood there.
bool drop_word_behind(std::string& kind) {
  for (const auto& [word, of] : kWords) {
    if (!kind.ends_with(word) || kind.size() == word.size()) continue;
    if (kind[kind.size() - word.size() - 1] != ' ') continue;
    kind = std::string(trimmed(std::string_view(kind).substr(0, kind.size() - word.size())));
    return of == CountOf::kNodes && word.ends_with('s');
  }
  return false;
}

void add_readings(const CountedKind& read, std::vector<CountedKind>& all) {
  if (read.kind.empty()) return;
  all.push_back(read);
  all.back().of_nodes = drop_word_behind(all.back().kind);
  if (read.before.size() + read.after.size() == kMostCounts) return;
  if (const auto cut = count_before(read.kind); cut && read.after.empty()) {
    CountedKind next = read;
    next.before.push_back(cut->count);
    next.kind = std::string(cut->rest);
    add_readings(next, all);
  }
  if (const auto cut = count_after(read.kind)) {
    CountedKind next = read;
    next.after.insert(next.after.begin(), cut->count);
    next.kind = std::string(cut->rest);
    add_readings(next, all);
  }
}

}  // namespace

std::vector<CountedKind> readings_of(std::string_view typed) {
  std::vector<CountedKind> all;
  add_readings({.kind = plain(typed), .before = {}, .after = {}}, all);
  std::ranges::stable_sort(
      all, {}, [](const CountedKind& read) { return read.before.size() + read.after.size(); });
  return all;
}

}  // namespace zplan
