// zplan-executor: the commands of zplan that run on this machine.
#include <type_traits>
#include <variant>

#include "planner/cli/commands.h"
#include "planner/cli/frame/program.h"

namespace zplan {
namespace {

ExitCode act(const Command& command, const Arguments&) {
  return std::visit(
      [&](const auto& c) -> ExitCode {
        if constexpr (kNeedsExecutor<std::decay_t<decltype(c)>>)
          return execute(c);
        else
          throw_bad_input("zplan-executor: expected run, calibrate or doctor; the rest is zplan's");
      },
      command);
}

}  // namespace
}  // namespace zplan

int main(int argc, char** argv) { return zplan::run_program(argc, argv, zplan::act); }
