// This writes the pages of the help that are no subcommand's: the first screen, all subcommands,
// the planning choices, the kernel sets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/cli/frame/completion.h"

namespace zplan {

// The first screen groups subcommands by what they are for.
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

// Returns the first screen; `top` describes `zplan` without a subcommand.
std::string first_page(const DescribedCommand& top, const std::vector<SubcommandEntry>& commands);

// The first screen shows these, but for those that the program lacks. One with --zero stands for
// all pins.
inline constexpr std::string_view kFirstOptions[] = {
    "--model",  "--cluster", "--for",  "--global-batch", "--seq",  "--precision",
    "--tokens", "--price",   "--zero", "--output",       "--json", "--details"};

// Returns the page of `zplan help NAME`, or nothing where there is none.
std::optional<std::string> help_page(std::string_view name,
                                     const std::vector<SubcommandEntry>& commands);

}  // namespace zplan
