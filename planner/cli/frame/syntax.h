// Syntax: the options of one subcommand. Says what is wrong with a command line in one form,
//   --option: expected ..., got ...
// and says what to type instead when an option is unknown (hints.h). CLI11 stays behind it, in
// syntax.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "planner/core/units.h"

namespace zplan {

template <typename Value>
struct Choice {
  std::string_view word;
  Value value;
};

// What one reads instead of the help: the options as a table. A line each,
//   group <tab> names <tab> type of the value <tab> help
// with an empty type where it takes none. An argument without dashes has its name there. Before
// them stand lines of two fields: what the subcommand does, its usage, and each line of its footer.
inline constexpr std::string_view kDescribe = "--describe-options";
inline constexpr std::string_view kAboutRow = "about", kUsageRow = "usage", kFooterRow = "footer";

// "2.5", "300B": a number above 0 and one of the suffixes; nothing: neither.
std::optional<double> number_with(const std::string& word,
                                  std::initializer_list<std::pair<std::string_view, double>> all);

class Syntax {
 public:
  // `usage` follows "Usage: "; `footer` closes the help.
  Syntax(const std::string& description, const std::string& usage, const std::string& footer);
  ~Syntax();

  // Heading of the options that follow. Where they stand on a page of their own, `elsewhere` says
  // which, and the help has that line in their place.
  void group(const std::string& title, const std::string& elsewhere = "");

  // `names` is "-o,--output" or "--output"; messages use the last.
  void text(const std::string& names, std::string& target, const std::string& type,
            const std::string& help);
  void text(const std::string& names, std::optional<std::string>& target, const std::string& type,
            const std::string& help);
  // May be given several times, with one value each.
  void texts(const std::string& names, std::vector<std::string>& target, const std::string& type,
             const std::string& help);
  void flag(const std::string& names, bool& target, const std::string& help);
  // `set` checks the word and throws Error.
  void parsed(const std::string& names, const std::string& type, const std::string& help,
              const std::function<void(const std::string&)>& set);
  // The same, once or several times.
  void parsed_each(const std::string& names, const std::string& type, const std::string& help,
                   const std::function<void(const std::string&)>& set);
  // An argument without dashes; stays empty when there is none.
  void positional(const std::string& name, std::string& target, const std::string& help);
  // Any number of them.
  void positionals(const std::string& name, std::vector<std::string>& target,
                   const std::string& help);

  void integer(const std::string& names, std::int64_t min, std::int64_t max,
               const std::string& help, const std::function<void(std::int64_t)>& set);
  // A time above 0: "5s", "10min", "2h", "30d", "5.8y".
  void duration(const std::string& name, const std::string& help, Seconds& target);
  // A number from 0 to `most`.
  void share(const std::string& names, double& target, double most, const std::string& help);
  // `set` takes the place among the words.
  void choice(const std::string& names, const std::string& help,
              const std::vector<std::string>& words, const std::function<void(std::size_t)>& set);

  // Target: an integer or an optional one.
  template <typename Target>
  void integer(const std::string& names, Target& target, std::int64_t min, std::int64_t max,
               const std::string& help) {
    integer(names, min, max, help, [&target](std::int64_t number) {
      if constexpr (std::is_integral_v<Target>) {
        target = static_cast<Target>(number);
      } else {
        target = static_cast<typename Target::value_type>(number);
      }
    });
  }

  template <typename Target, typename Value>
  void choice(const std::string& names, Target& target, const std::string& help,
              std::vector<Choice<Value>> choices) {
    std::vector<std::string> words;
    for (const auto& c : choices) words.emplace_back(c.word);
    choice(names, help, words,
           [&target, choices = std::move(choices)](std::size_t i) { target = choices[i].value; });
  }

  // Fills the targets; returns the help text, or the table of options, when it was asked for.
  // Throws Error.
  std::optional<std::string> read(const std::vector<std::string>& arguments);
  // Returns the help without the option that asks for it, for a page that is no subcommand.
  std::string page() const;

 private:
  struct Parser;

  std::unique_ptr<Parser> parser_;
  std::string group_ = "Options";
};

}  // namespace zplan
