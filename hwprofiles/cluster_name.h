// What the name of a cluster is made of: a kind or a path, a count of nodes, settings of
// quantities.
//   "dgx-h100x16{gpu.memory=40GiB,network=x2}"
// So written a name stands for hardware that no file describes, wherever a cluster is asked for and
// in plans.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace zplan {

// "dgx2x32" -> {"dgx2", "32"}; nothing when the text does not end in x and digits.
struct CountedName {
  std::string_view name, digits;
};
std::optional<CountedName> split_count(std::string_view text);
// From 1 to kMaxNodes; throws Error, which shows the whole `text`.
int node_count(std::string_view text, std::string_view digits);

struct VariedName {
  std::string plain;                  // without settings
  std::vector<std::string> settings;  // "gpu.memory=40GiB"
};
// Throws Error where the braces are not at the end or hold nothing.
VariedName split_settings(std::string_view text);
// The same text; further settings go behind those that a name has.
std::string with_settings(std::string_view name, std::span<const std::string> settings);

}  // namespace zplan
