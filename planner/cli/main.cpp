// zplan: answers by itself, and hands over to zplan-executor what runs on this machine.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <type_traits>
#include <variant>

#include "planner/cli/commands.h"
#include "planner/cli/frame/program.h"
#include "planner/core/program_parts.h"

namespace zplan {
namespace {

// The executor takes this process over, with the whole command line; so it is the executor that
// gets signals, and whose exit code is seen. Returns only by throwing Error(kDevice).
[[noreturn]] void hand_over(const Arguments& arguments) {
  build_part(ProgramPart::kExecutor);
  std::string program = part_path(ProgramPart::kExecutor);
  std::vector<char*> words{program.data()};
  Arguments owned = arguments;
  for (std::string& argument : owned) words.push_back(argument.data());
  words.push_back(nullptr);
  ::execv(program.c_str(), words.data());
  throw Error(ExitCode::kDevice,
              fmt::format("the executor {} cannot be started: {}; build the target zplan_executor",
                          program, std::generic_category().message(errno)));
}

ExitCode act(const Command& command, const Arguments& arguments) {
  return std::visit(
      [&](const auto& c) -> ExitCode {
        if constexpr (kNeedsExecutor<std::decay_t<decltype(c)>>)
          hand_over(arguments);
        else
          return execute(c);
      },
      command);
}

}  // namespace
}  // namespace zplan

int main(int argc, char** argv) { return zplan::run_program(argc, argv, zplan::act); }
