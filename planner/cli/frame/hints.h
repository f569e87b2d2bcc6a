// What people type from other tools, and what means the same here: options, values of options and
// subcommands. An error names the one that was probably meant, by meaning first, then by spelling,
// else the page that lists all.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zplan {

// `advice` is what to type instead. It counts only where the subcommand has `target`; of several
// rows for one word the first that counts does.
struct OptionHint {
  std::string_view typed, target, advice;
};
std::span<const OptionHint> option_hints();

// A value that another option takes; "N" is any that begins with a digit.
struct ValueHint {
  std::string_view option, value, advice;
};
std::span<const ValueHint> value_hints();

struct SubcommandHint {
  std::string_view typed, target, advice;
};
std::span<const SubcommandHint> subcommand_hints();

// What was typed for the cluster, and behind an option that counts nodes.
struct TypedNodes {
  std::string cluster, count;
};

// Returns "; type --train lora" for an option that is not among `known`; `pages` lists those.
std::string option_advice(const std::string& typed, const std::vector<std::string>& known,
                          std::string_view pages, const TypedNodes& nodes);
// Returns "; type --optimizer-kind adamw", or nothing.
std::string value_advice(std::string_view option, std::string_view value);
// The same of a word that is none of the subcommands `known`.
std::string subcommand_advice(const std::string& typed, const std::vector<std::string>& known);

}  // namespace zplan
