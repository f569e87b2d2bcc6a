#include "planner/plan/choice_text.h"

#include <fmt/format.h>

#include <charconv>
#include <string>

#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"
#include "planner/plan/choices.h"

namespace zplan {
namespace {

const Decision& find_row(std::string_view pointer) {
  std::vector<std::string> pointers;
  for (const Decision& row : kChoices) {
    if (row.pointer == pointer) return row;
    pointers.emplace_back(row.pointer);
  }
  throw_bad_input(fmt::format("unknown decision {}{}", in_quotes(pointer),
                              did_you_mean(std::string(pointer), pointers)));
}

// Of the type that the plain value has.
struct TextReader {
  const Decision& row;
  std::string_view text;

  Setting operator()(bool) const {
    if (text != "true" && text != "false") fail("true or false");
    return text == "true";
  }
  Setting operator()(std::int64_t) const {
    std::int64_t value = 0;
    if (!number(value) || value < row.range.min || value > row.range.max)
      fail(fmt::format("an integer from {} to {}", row.range.min, row.range.max));
    return value;
  }
  Setting operator()(double) const {
    if (!row.word_of_zero.empty() && text == row.word_of_zero) return 0.0;
    double value = 0;
    const bool read = number(value);
    if (!read || !(value >= static_cast<double>(row.range.min)) ||
        !(value <= static_cast<double>(row.range.max)))
      fail(fmt::format("a number from {} to {}", row.range.min, row.range.max));
    return value;
  }
  Setting operator()(const std::string&) const {
    const auto words = row.field.words;
    if (!words.empty() && std::find(words.begin(), words.end(), text) == words.end())
      fail(joined(words, " or "));
    return std::string(text);
  }
  Setting operator()(const Gather&) const {
    const std::optional<Gather> gather = gather_from_words(text);
    if (!gather) fail(std::string(kGatherForms));
    return *gather;
  }
  Setting operator()(const std::vector<std::int32_t>&) const {
    fail("no value: it depends on the model");
  }
  Setting operator()(const std::vector<RecomputeRun>&) const {
    const std::optional<RecomputeRun> run = recompute_from_words(text);
    if (!run) fail("none, selective, full or operators such as norm+fc1");
    return std::vector<RecomputeRun>{*run};
  }

 private:
  template <typename Number>
  bool number(Number& value) const {
    const char* const end = text.data() + text.size();
    const auto [stop, status] = std::from_chars(text.data(), end, value);
    return status == std::errc{} && stop == end;
  }
  [[noreturn]] void fail(const std::string& expected) const {
    throw_bad_input(
        fmt::format("decision {}: expected {}, got {}", row.pointer, expected, in_quotes(text)));
  }
};

}  // namespace

void set_choice(Plan& plan, std::string_view pointer, std::string_view text) {
  const Decision& row = find_row(pointer);
  row.field.set(plan, std::visit(TextReader{row, text}, row.plain()));
}

void pin_choice(Pins& pins, std::string_view pointer, std::string_view text) {
  const Decision& row = find_row(pointer);
  const Setting value = std::visit(TextReader{row, text}, row.plain());
  pins.set_setting(row, value);
  if (std::holds_alternative<Gather>(value) && text.find(':') != text.npos)
    pins.tunes_units = false;
}

}  // namespace zplan
