#include "planner/cli/frame/syntax.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <utility>

#include "planner/cli/frame/hints.h"
#include "planner/cli/frame/split.h"
#include "planner/core/error.h"
#include "planner/core/nearest.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

constexpr std::size_t kHelpColumn = 38, kHelpWidth = 100;

// "--model" of "-m,--model".
std::string last_name(const std::string& names) { return names.substr(names.rfind(',') + 1); }

class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::string usage) : usage_(std::move(usage)) {
    column_width(kHelpColumn);
    label("Positionals", "Arguments");
  }
  std::string make_usage(const CLI::App* /*app*/, std::string /*name*/) const override {
    return fmt::format("\nUsage: {}\n", usage_);
  }
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_type_name().empty() ? "" : " " + option->get_type_name();
  }

 private:
  std::string usage_;
};

// A line that is too long is broken at spaces; what follows stands in the column of the help.
// Examples, which can be copied, are left as they are.
std::string wrapped(std::string line) {
  std::string out;
  const std::string indent(kHelpColumn, ' ');
  const bool is_of_option = line.size() > kHelpColumn && line[kHelpColumn - 1] == ' ' &&
                            line[kHelpColumn] != ' ' && !line.starts_with("  ./");
  while (line.size() > kHelpWidth && is_of_option) {
    const std::size_t space = line.rfind(' ', kHelpWidth);
    if (space == line.npos || space <= kHelpColumn) break;
    out += line.substr(0, space) + "\n";
    line = indent + line.substr(space + 1);
  }
  return out + line;
}

// No two empty lines in a row, none at the end, no line too long.
std::string tidy(const std::string& help) {
  std::string out;
  for (const std::string& line : split(help, '\n'))
    if (!line.empty() || !out.ends_with("\n\n")) out += wrapped(line) + "\n";
  while (out.ends_with("\n\n")) out.pop_back();
  return out;
}

// CLI11's words for too few and too many values, made ours: "--dp: At Most 1 required but ..",
// "json was given a disallowed flag override".
std::string mismatch(const CLI::ArgumentMismatch& error) {
  const std::string text = error.what();
  if (text.find("flag override") != text.npos)
    return fmt::format("--{}: takes no value", text.substr(0, text.find(' ')));
  const bool many = text.find("At Most") != text.npos;
  return text.substr(0, text.find(':')) + (many ? ": given more than once" : ": expected a value");
}

}  // namespace

struct Syntax::Parser {
  // The help leaves out the options of a group; the line says where they stand.
  struct Elsewhere {
    std::string group, line;
  };

  CLI::App app;
  std::string usage;
  std::vector<Elsewhere> elsewhere;

  // Returns "zplan memory" of "zplan memory PLAN.json [options]", or "zplan".
  std::string call() const {
    const std::vector<std::string> words = split(usage, ' ');
    const bool is_named = words.size() > 1 && !words[1].empty() && words[1][0] >= 'a';
    return is_named ? fmt::format("{} {}", words[0], words[1]) : words[0];
  }

  // Says which pages list the options.
  std::string pages() const {
    std::string out = fmt::format("{} --help lists the options", call());
    for (const Elsewhere& other : elsewhere) out += "; " + other.line;
    return out;
  }

  std::string help() {
    std::string lines;
    for (const Elsewhere& other : elsewhere) {
      for (CLI::Option* option : app.get_options())
        if (option->get_group() == other.group) option->group("");
      lines += fmt::format("\n{}\n", other.line);
    }
    app.footer(lines + app.get_footer());
    return tidy(app.help());
  }

  std::vector<std::string> option_names() const {
    std::vector<std::string> names;
    for (const CLI::Option* option : app.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
    return names;
  }

  std::string table() const {
    std::string lines =
        fmt::format("{}\t{}\n{}\t{}\n", kAboutRow, app.get_description(), kUsageRow, usage);
    const std::string footer = app.get_footer();
    for (std::size_t at = 0; at < footer.size();) {
      const std::size_t end = std::min(footer.find('\n', at), footer.size());
      lines += fmt::format("{}\t{}\n", kFooterRow, footer.substr(at, end - at));
      at = end + 1;
    }
    for (const CLI::Option* option : app.get_options())
      lines += fmt::format("{}\t{}\t{}\t{}\n", option->get_group(), option->get_name(true, true),
                           option->get_type_name(), option->get_description());
    return lines;
  }

  // The value of a word such as "--nodes=2" or "--nodes" "2".
  static std::string value_of(const std::string& word, const std::vector<std::string>& arguments) {
    if (const std::size_t equals = word.find('='); equals != word.npos)
      return word.substr(equals + 1);
    const auto at = std::find(arguments.begin(), arguments.end(), word);
    return arguments.end() - at > 1 ? at[1] : "";
  }

  std::string typed_cluster() const {
    const CLI::Option* const option = app.get_option_no_throw("--cluster");
    const bool is_given = option != nullptr && !option->results().empty();
    return is_given ? option->results().front() : "";
  }

  // What no option took.
  void reject_rest(const std::vector<std::string>& arguments) const {
    const std::vector<std::string> rest = app.remaining();
    for (const std::string& word : rest) {
      if (word.size() < 2 || word[0] != '-') continue;
      const std::string name = word.substr(0, word.find('='));
      throw_bad_input(fmt::format("unknown option {}{}", in_quotes(name),
                                  option_advice(name, option_names(), pages(),
                                                {typed_cluster(), value_of(word, arguments)})));
    }
    if (!rest.empty()) throw_bad_input(fmt::format("unexpected argument {}", in_quotes(rest[0])));
  }
};

Syntax::Syntax(const std::string& description, const std::string& usage, const std::string& footer)
    : parser_(std::make_unique<Parser>()) {
  CLI::App& app = parser_->app;
  parser_->usage = usage;
  app.description(description);
  app.formatter(std::make_shared<HelpFormatter>(usage));
  app.footer(footer);
  app.set_help_flag("-h,--help", "Show this help and exit");
  app.allow_extras();  // reject_rest knows better what to say
}

Syntax::~Syntax() = default;

void Syntax::group(const std::string& title, const std::string& elsewhere) {
  group_ = title;
  if (!elsewhere.empty()) parser_->elsewhere.push_back({title, elsewhere});
}

void Syntax::parsed(const std::string& names, const std::string& type, const std::string& help,
                    const std::function<void(const std::string&)>& set) {
  const auto set_or_fail = [names, set](const std::string& word) {
    if (word.empty()) throw_bad_input(last_name(names) + ": expected a value, got \"\"");
    set(word);
  };
  parser_->app.add_option_function<std::string>(names, set_or_fail, help)
      ->type_name(type)
      ->group(group_);
}

void Syntax::text(const std::string& names, std::string& target, const std::string& type,
                  const std::string& help) {
  parsed(names, type, help, [&target](const std::string& word) { target = word; });
}

void Syntax::text(const std::string& names, std::optional<std::string>& target,
                  const std::string& type, const std::string& help) {
  parsed(names, type, help, [&target](const std::string& word) { target = word; });
}

void Syntax::texts(const std::string& names, std::vector<std::string>& target,
                   const std::string& type, const std::string& help) {
  parsed_each(names, type, help, [&target](const std::string& word) { target.push_back(word); });
}

void Syntax::parsed_each(const std::string& names, const std::string& type, const std::string& help,
                         const std::function<void(const std::string&)>& set) {
  const auto set_or_fail = [names, set](const std::vector<std::string>& words) {
    for (const std::string& word : words) {
      if (word.empty()) throw_bad_input(last_name(names) + ": expected a value, got \"\"");
      set(word);
    }
  };
  parser_->app.add_option_function<std::vector<std::string>>(names, set_or_fail, help)
      ->type_name(type)
      ->allow_extra_args(false)
      ->group(group_);
}

void Syntax::integer(const std::string& names, std::int64_t min, std::int64_t max,
                     const std::string& help, const std::function<void(std::int64_t)>& set) {
  parsed(names, "N", help, [names, min, max, set](const std::string& word) {
    std::int64_t number = 0;
    const char* const last = word.data() + word.size();
    const auto [end, error] = std::from_chars(word.data(), last, number);
    if (error != std::errc{} || end != last || number < min || number > max) {
      throw_bad_input(fmt::format("{}: expected a whole number from {} to {}, got {}",
                                  last_name(names), min, max, in_quotes(word)));
    }
    set(number);
  });
}

void Syntax::share(const std::string& names, double& target, double most, const std::string& help) {
  parsed(names, "SHARE", help, [names, most, &target](const std::string& word) {
    double number = 0;
    const char* const last = word.data() + word.size();
    const auto [end, error] = std::from_chars(word.data(), last, number);
    if (error != std::errc{} || end != last || !(number >= 0 && number <= most)) {
      throw_bad_input(fmt::format("{}: expected a share from 0 to {}, got {}", last_name(names),
                                  most, in_quotes(word)));
    }
    target = number;
  });
}

void Syntax::choice(const std::string& names, const std::string& help,
                    const std::vector<std::string>& words,
                    const std::function<void(std::size_t)>& set) {
  const std::string type = joined(words, "|");
  parsed(names, type, help, [names, words, set](const std::string& word) {
    const auto found = std::find(words.begin(), words.end(), word);
    if (found == words.end()) {
      const std::string advice = value_advice(last_name(names), word);
      throw_bad_input(fmt::format("{}: expected {}, got {}{}", last_name(names),
                                  joined(words, " or "), in_quotes(word),
                                  advice.empty() ? did_you_mean(word, words) : advice));
    }
    set(static_cast<std::size_t>(found - words.begin()));
  });
}

void Syntax::flag(const std::string& names, bool& target, const std::string& help) {
  parser_->app.add_flag(names, target, help)->group(group_)->disable_flag_override();
}

void Syntax::positional(const std::string& name, std::string& target, const std::string& help) {
  parser_->app.add_option(name, target, help)->type_name("");
}

void Syntax::positionals(const std::string& name, std::vector<std::string>& target,
                         const std::string& help) {
  parser_->app.add_option(name, target, help)->type_name("");
}

std::optional<std::string> Syntax::read(const std::vector<std::string>& arguments) {
  CLI::App& app = parser_->app;
  if (arguments == std::vector{std::string(kDescribe)}) return parser_->table();
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    return parser_->help();
  } catch (const CLI::ArgumentMismatch& error) {
    parser_->reject_rest(arguments);
    throw_bad_input(mismatch(error));
  } catch (const CLI::ParseError& error) {
    parser_->reject_rest(arguments);
    throw_bad_input(error.what());
  }
  parser_->reject_rest(arguments);
  return std::nullopt;
}

std::string Syntax::page() const {
  parser_->app.set_help_flag();
  return parser_->help();
}

std::optional<double> number_with(const std::string& word,
                                  std::initializer_list<std::pair<std::string_view, double>> all) {
  double number = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, status] = std::from_chars(word.data(), end, number);
  if (status != std::errc{} || !(number > 0)) return std::nullopt;
  const std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  for (const auto& [known, factor] : all)
    if (suffix == known) return number * factor;
  return std::nullopt;
}

void Syntax::duration(const std::string& name, const std::string& help, Seconds& target) {
  parsed(name, "TIME", help, [name, &target](const std::string& word) {
    const auto seconds = number_with(
        word, {{"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}, {"y", 365.25 * 86400}});
    if (!seconds)
      throw_bad_input(fmt::format("{}: expected a time such as 5s, 10min, 2h or 30d, got {}", name,
                                  in_quotes(word)));
    target = {*seconds};
  });
}

}  // namespace zplan
