// The manual page, in the macros of man(7), made of what the subcommands say of themselves
// (Syntax). It has no date, so that the same program gives the same page.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/cli/frame/completion.h"

namespace zplan {

// `top`: the program without a subcommand. Options that a subcommand shares with `plan`, the first
// of them, are described there alone, group by group.
std::string manual_page(const DescribedCommand& top, const std::vector<DescribedCommand>& commands,
                        std::string_view exit_codes);

}  // namespace zplan
