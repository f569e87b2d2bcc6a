// Scripts that complete what is typed at a shell's prompt, made of the options that the subcommands
// describe themselves (Syntax) and of the names of the catalogues.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace zplan {

// Syntax's table (kDescribe): a row of an option, and all of it.
struct DescribedOption {
  std::string group;
  std::vector<std::string> names;  // "-m", "--model"; of an argument without dashes one
  std::string type;                // of its value; empty: it takes none
  std::string help;
  // The first word; those after it are older spellings.
  const std::string& name() const {
    const auto word =
        std::ranges::find_if(names, [](const std::string& one) { return one.starts_with("--"); });
    return word == names.end() ? names.back() : *word;
  }
  bool is_argument() const { return !names.back().starts_with('-'); }
};
struct DescribedCommand {
  std::string name;
  std::vector<DescribedOption> options;
  std::string about, usage;
  std::vector<std::string> footer;  // its lines
};
DescribedCommand read_description(std::string name, const std::string& table);

inline constexpr std::string_view kShells[] = {"bash", "zsh", "fish"};

std::string completion_script(std::string_view shell,
                              const std::vector<DescribedCommand>& commands);

}  // namespace zplan
