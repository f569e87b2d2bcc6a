#include "planner/cli/frame/manual.h"

#include <fmt/format.h>

#include <algorithm>

namespace zplan {
namespace {

// What roff would take for its own is written so that it is not.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\':
        out += "\\e";
        break;
      case '-':
        out += "\\-";
        break;
      case '\'':
        out += "\\(aq";
        break;
      case '`':
        out += "\\(ga";
        break;
      case '^':
        out += "\\(ha";
        break;
      case '~':
        out += "\\(ti";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// A line of the page, of which a dot at the beginning is no request.
std::string line(std::string_view text) {
  return fmt::format("{}{}\n", text.starts_with('.') ? "\\&" : "", escaped(text));
}

std::string bold(std::string_view text) { return fmt::format("\\fB{}\\fR", escaped(text)); }
std::string italic(std::string_view text) { return fmt::format("\\fI{}\\fR", escaped(text)); }

std::string option_entry(const DescribedOption& option) {
  std::string names;
  for (const std::string& name : option.names)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", bold(name));
  const std::string value = option.type.empty() ? "" : " " + italic(option.type);
  return fmt::format(".TP\n{}{}\n{}", names, value, line(option.help));
}

bool is_same(const DescribedOption& a, const DescribedOption& b) {
  return a.names == b.names && a.type == b.type && a.help == b.help;
}

using Options = std::vector<DescribedOption>;

// In order of their first option.
std::vector<Options> groups_of(const DescribedCommand& command) {
  std::vector<Options> groups;
  for (const DescribedOption& option : command.options) {
    auto at = std::find_if(groups.begin(), groups.end(), [&](const Options& group) {
      return group.front().group == option.group;
    });
    if (at == groups.end()) at = groups.insert(groups.end(), Options{});
    at->push_back(option);
  }
  return groups;
}

bool has_group(const DescribedCommand& command, const Options& group) {
  const std::vector<Options> own = groups_of(command);
  return std::any_of(own.begin(), own.end(), [&](const Options& other) {
    return std::equal(group.begin(), group.end(), other.begin(), other.end(), is_same);
  });
}

std::string preformatted(const std::vector<std::string>& lines) {
  std::string out = ".nf\n";
  bool is_begun = false;
  for (const std::string& one : lines) {
    is_begun = is_begun || !one.empty();
    if (is_begun) out += one.empty() ? ".sp\n" : line(one);
  }
  return is_begun ? out + ".fi\n" : "";
}

std::string section_of(const DescribedCommand& command, const DescribedCommand& first) {
  std::string out = fmt::format(".SS {}\n{}.PP\n{}\n", command.name, line(command.about + "."),
                                bold(command.usage));
  for (const Options& group : groups_of(command)) {
    const std::string& title = group.front().group;
    if (command.name != first.name && has_group(first, group)) {
      out += fmt::format(".PP\n{}: as those of {}.\n", italic(title), bold(first.name));
      continue;
    }
    if (!title.empty()) out += fmt::format(".PP\n{}:\n", italic(title));
    for (const DescribedOption& option : group) out += option_entry(option);
  }
  const std::string footer = preformatted(command.footer);
  return footer.empty() ? out : out + ".PP\n" + footer;
}

}  // namespace

std::string manual_page(const DescribedCommand& top, const std::vector<DescribedCommand>& commands,
                        std::string_view exit_codes) {
  const std::string about = top.about.substr(top.about.find(": ") + 2);
  std::string out = fmt::format(".TH ZPLAN 1 \"\" \"zplan " ZPLAN_VERSION
                                "\" \"User Commands\"\n.SH NAME\nzplan \\- {}.SH SYNOPSIS\n{}\n",
                                line(about), bold(top.usage));
  out += ".SH DESCRIPTION\nWithout a subcommand zplan does what " + bold("plan") + " does.\n";
  for (const DescribedCommand& command : commands)
    out += fmt::format(".TP\n{}\n{}", bold(command.name), line(command.about + "."));
  out += ".SH SUBCOMMANDS\n";
  for (const DescribedCommand& command : commands) out += section_of(command, commands.front());
  return out + ".SH EXAMPLES\n" + preformatted(top.footer) + ".SH \"EXIT STATUS\"\n" +
         line(exit_codes);
}

}  // namespace zplan
