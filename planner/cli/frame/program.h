// The command line consists of two programs: zplan answers, and zplan-executor, which zplan hands
// its command line to, does what needs the executor (planner/core/program_parts.h). This is what
// both begin and end with: the one place where errors become a line on stderr and an exit code.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "planner/cli/frame/options.h"
#include "planner/core/error.h"

namespace zplan {

// Whether a command is one of zplan-executor's.
template <typename T>
inline constexpr bool kNeedsExecutor =
    std::is_same_v<T, RunCommand> || std::is_same_v<T, CalibrateCommand> ||
    std::is_same_v<T, DoctorCommand>;

using Arguments = std::vector<std::string>;

// The body of main(). `act` does what the arguments, here also as they were typed, ask for.
int run_program(int argc, char** argv, ExitCode (*act)(const Command&, const Arguments&));

}  // namespace zplan
