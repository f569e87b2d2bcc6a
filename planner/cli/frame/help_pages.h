// The pages of the help that are no subcommand's: the first screen, all subcommands, the planning
// choices, the kernel sets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/cli/frame/completion.h"

namespace zplan {

// What a subcommand is for, as the first screen groups them.
enum class Verb : std::uint8_t { kAsk, kCheck, kCompare, kExplain, kRun, kLookUp };

struct SubcommandEntry {
  std::string_view name, summary;
  Verb verb;
};

inline constexpr const char* kTopExamples =
    "\nExamples:\n"
    "  ./zplan --model 1T --cluster dgx2x32\n"
    "  ./zplan --model tiny-gpt --cluster workstation -o plan.json\n"
    "  ./zplan simulate plan.json --trace trace.json\n"
    "  ./zplan run plan.json --steps 10 --check\n";

inline constexpr const char* kExitCodes =
    "0 done, 1 does not fit, 2 bad input, 3 internal error, 4 device, 5 check failed,\n"
    "130 interrupted";

// The first screen. `top` describes `zplan` without a subcommand.
std::string first_page(const DescribedCommand& top, const std::vector<SubcommandEntry>& commands);

// The options that it shows; those that the program lacks are left out.
inline constexpr std::string_view kFirstOptions[] = {
    "--model",  "--cluster", "--for",  "--global-batch", "--seq",  "--precision", "--gpus",
    "--tokens", "--price",   "--zero", "--output",       "--json", "--details"};

// Of `zplan help NAME`; nothing: there is no such page.
std::optional<std::string> help_page(std::string_view name,
                                     const std::vector<SubcommandEntry>& commands);

}  // namespace zplan
