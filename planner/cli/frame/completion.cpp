#include "planner/cli/frame/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "hwprofiles/cluster_file.h"
#include "hwprofiles/hw_profile.h"
#include "hwprofiles/quantities.h"
#include "hwprofiles/stack.h"
#include "models/model_config.h"
#include "planner/cli/frame/pin_options.h"
#include "planner/cli/frame/schemas.h"
#include "planner/cli/frame/split.h"
#include "planner/cli/frame/syntax.h"
#include "planner/core/error.h"
#include "planner/core/text.h"
#include "planner/program/kernels/kernel_set.h"

namespace zplan {
namespace {

using Words = std::vector<std::string>;

void add(Words& words, const std::string& name, const std::vector<std::string>& aliases) {
  words.push_back(name);
  words.insert(words.end(), aliases.begin(), aliases.end());
}

Words models() {
  Words words;
  for (const ModelConfig& model : model_catalogue()) add(words, model.name, model.aliases);
  return words;
}

Words clusters() {
  Words words;
  for (const HwProfile& node : node_catalogue()) add(words, node.name, node.aliases);
  for (const std::string& name : cluster_names()) words.push_back(name);
  return words;
}

Words stacks() {
  Words words;
  for (const StackProfile& stack : stack_catalogue()) {
    words.push_back(stack.name);
    for (const SoftwareName& own : stack.names)
      if (std::find(words.begin(), words.end(), own.name) == words.end()) words.push_back(own.name);
  }
  return words;
}

Words kernel_set_names() {
  Words words;
  for (const KernelSet& set : kernel_sets()) words.emplace_back(set.id);
  return words;
}

// "nvme="
Words quantities() {
  Words words;
  for (const HardwareQuantity& quantity : hardware_quantities())
    words.push_back(fmt::format("{}=", quantity.name));
  return words;
}

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }

// Of "gpu|cpu|nvme" all; what stands for something else, "FILE" or "layers:N", is no word.
Words listed(const std::string& type) {
  Words words;
  for (const std::string& word : split(type, '|')) {
    const bool is_word =
        std::none_of(word.begin(), word.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
    if (is_word && std::any_of(word.begin(), word.end(), is_lower)) words.push_back(word);
  }
  return words;
}

bool takes_file(const std::string& type) {
  return type.find("FILE") != type.npos || type.find("DIR") != type.npos ||
         type.find(".json") != type.npos;
}

// What may follow an option, or stand in an argument's place.
struct Values {
  Words words;
  bool files = false;
  friend bool operator==(const Values&, const Values&) = default;
};

struct Catalogue {
  std::string_view option;
  Words (*words)();
  bool files;
};
constexpr Catalogue kCatalogues[] = {{"--model", models, true},
                                     {"--cluster", clusters, true},
                                     {"--base", clusters, true},
                                     {"--for", stacks, true},
                                     {"--kernel-set", kernel_set_names, false},
                                     {"--set", quantities, false}};

// Of a sweep: what it plans for, what it pins, and quantities.
Words axes(const DescribedCommand& command) {
  Words words;
  constexpr std::string_view kUsual[] = {"--model", "--cluster",      "--for",
                                         "--gpus",  "--global-batch", "--seq"};
  for (const DescribedOption& option : command.options) {
    const bool is_usual =
        std::find(std::begin(kUsual), std::end(kUsual), option.name()) != std::end(kUsual);
    const bool pins = option.group == kPinsGroup && !option.name().starts_with("--no-");
    if (is_usual || pins) words.push_back(option.name().substr(2) + "=");
  }
  const Words more = quantities();
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Values values_of(const DescribedCommand& command, const DescribedOption& option) {
  if (option.is_argument()) {
    if (command.name == "models") return {models(), true};
    if (command.name == "clusters") return {clusters(), true};
    if (command.name == "software") return {stacks(), true};
    if (command.name == "schema") return {schema_tags(), false};
    if (option.name().find('|') != std::string::npos) return {split(option.name(), '|'), false};
    return {{}, true};
  }
  if (option.name() == "--over") return {axes(command), false};
  for (const Catalogue& catalogue : kCatalogues)
    if (option.name() == catalogue.option) return {catalogue.words(), catalogue.files};
  return {listed(option.type), takes_file(option.type)};
}

Words option_names(const DescribedCommand& command) {
  Words words;
  for (const DescribedOption& option : command.options)
    if (!option.is_argument()) words.insert(words.end(), option.names.begin(), option.names.end());
  return words;
}

Values arguments_of(const DescribedCommand& command) {
  for (const DescribedOption& option : command.options)
    if (option.is_argument()) return values_of(command, option);
  return {};
}

std::string in_line(const Words& words) { return joined(words, " "); }

std::string names_of(const std::vector<DescribedCommand>& commands) {
  Words words;
  for (const DescribedCommand& command : commands) words.push_back(command.name);
  return in_line(words);
}

std::string reply(const Values& values) {
  std::string line =
      values.words.empty() ? "" : fmt::format("_zplan_words '{}'; ", in_line(values.words));
  return line + (values.files ? "return" : "_zplan_no_files; return");
}

// "plan:--model|plan:-m) .." of each option with a value; options that take the same together.
std::string bash_values(const std::vector<DescribedCommand>& commands) {
  std::vector<std::pair<Values, Words>> cases;
  for (const DescribedCommand& command : commands) {
    for (const DescribedOption& option : command.options) {
      if (option.type.empty() || option.is_argument()) continue;
      const Values values = values_of(command, option);
      auto at = std::find_if(cases.begin(), cases.end(),
                             [&](const auto& one) { return one.first == values; });
      if (at == cases.end()) at = cases.insert(cases.end(), {values, {}});
      for (const std::string& name : option.names)
        at->second.push_back(fmt::format("{}:{}", command.name, name));
    }
  }
  std::string out;
  for (const auto& [values, patterns] : cases)
    out += fmt::format("    {}) {} ;;\n", joined(patterns, "|"), reply(values));
  return out;
}

// The body is the same in zsh, whose bashcompinit runs it.
std::string bash_script(const std::vector<DescribedCommand>& commands) {
  std::string options, arguments;
  for (const DescribedCommand& command : commands) {
    options +=
        fmt::format("    {}) options='{}' ;;\n", command.name, in_line(option_names(command)));
    arguments += fmt::format("    {}) {} ;;\n", command.name, reply(arguments_of(command)));
  }
  return fmt::format(
      R"sh(# Completion of zplan: source this file, or put it where your shell looks for such files.
_zplan_words() {{ COMPREPLY=($(compgen -W "$1" -- "$cur")); }}
_zplan_no_files() {{
  case ${{COMPREPLY[0]}} in *=) compopt -o nospace 2>/dev/null ;; esac
  compopt +o default 2>/dev/null
  return 0
}}
_zplan() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command=plan options
  COMPREPLY=()
  # "--option=value" is three words
  if [ "$cur" = "=" ]; then cur=; elif [ "$prev" = "=" ]; then prev=${{COMP_WORDS[COMP_CWORD-2]}}; fi
  local word
  for word in {0}; do [ "${{COMP_WORDS[1]}}" = "$word" ] && command=$word; done
  if [ "$COMP_CWORD" -eq 1 ]; then
    case $cur in -*) ;; *) _zplan_words '{0}'; _zplan_no_files; return ;; esac
  fi
  case $command:$prev in
{1}  esac
  case $command in
{2}  esac
  case $cur in -*) _zplan_words "$options"; _zplan_no_files; return ;; esac
  case $command in
{3}  esac
}}
)sh",
      names_of(commands), bash_values(commands), options, arguments);
}

std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

std::string fish_option(const std::string& command, const DescribedOption& option,
                        const Values& values) {
  std::string line = fmt::format("complete -c zplan -n '__fish_seen_subcommand_from {}'", command);
  for (const std::string& name : option.names)
    line += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2))
                                   : fmt::format(" -s {}", name.substr(1));
  if (!option.type.empty()) line += values.files ? " -r -F" : " -x";
  if (!values.words.empty()) line += fmt::format(" -a {}", quoted(in_line(values.words)));
  return line + fmt::format(" -d {}\n", quoted(option.help));
}

std::string fish_script(const std::vector<DescribedCommand>& commands) {
  std::string out = fmt::format(
      "complete -c zplan -f\n"
      "complete -c zplan -n 'not __fish_seen_subcommand_from {0}' -a '{0}'\n",
      names_of(commands));
  for (const DescribedCommand& command : commands) {
    for (const DescribedOption& option : command.options) {
      if (!option.is_argument())
        out += fish_option(command.name, option, values_of(command, option));
    }
    const Values values = arguments_of(command);
    if (values.words.empty() && !values.files) continue;
    out += fmt::format("complete -c zplan -n '__fish_seen_subcommand_from {}'{} -a {}\n",
                       command.name, values.files ? " -F" : "", quoted(in_line(values.words)));
  }
  return out;
}

}  // namespace

DescribedCommand read_description(std::string name, const std::string& table) {
  constexpr std::size_t kFields = 4;
  DescribedCommand command{
      .name = std::move(name), .options = {}, .about = {}, .usage = {}, .footer = {}};
  for (const std::string& line : split(table, '\n')) {
    const std::vector<std::string> fields = split(line, '\t');
    if (fields.size() == kFields) {
      command.options.push_back({fields[0], split(fields[1], ','), fields[2], fields[3]});
    } else if (fields[0] == kAboutRow) {
      command.about = fields[1];
    } else if (fields[0] == kUsageRow) {
      command.usage = fields[1];
    } else if (fields[0] == kFooterRow) {
      command.footer.push_back(fields[1]);
    }
  }
  return command;
}

std::string completion_script(std::string_view shell,
                              const std::vector<DescribedCommand>& commands) {
  if (shell == "fish") return fish_script(commands);
  const std::string ends = "complete -o default -F _zplan zplan ./zplan\n";
  if (shell == "bash") return bash_script(commands) + ends;
  ZPLAN_ASSERT(shell == "zsh");
  return "#compdef zplan\nautoload -U +X compinit && compinit\n"
         "autoload -U +X bashcompinit && bashcompinit\n" +
         bash_script(commands) + ends;
}

}  // namespace zplan
