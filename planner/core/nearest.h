// The name a user probably meant: least edit distance, letter case ignored, ties to the first.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zplan {

// Insertions, deletions, substitutions and swaps of neighbours, each 1; case ignored.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate at the least distance, when at least half of the letters agree.
std::optional<std::string> nearest_name(std::string_view name,
                                        const std::vector<std::string>& candidates);

// "; did you mean \"dgx2\"?" or nothing.
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

// For names of which there are too many to list: "; did you mean \"a\" or \"b\"? (PAGE lists all)",
// with the nearest and at most two others at the same distance. `page` is the command that
// lists them.
std::string nearest_or_page(std::string_view name, const std::vector<std::string>& candidates,
                            std::string_view page);

}  // namespace zplan
