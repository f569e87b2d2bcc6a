// zplan: the one place where errors become a line on stderr and an exit code.
#include <fmt/format.h>

#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <variant>
#include <vector>

#include "planner/cli/commands.h"
#include "planner/cli/frame/options.h"
#include "planner/cli/frame/output.h"
#include "planner/core/error.h"

namespace zplan {
namespace {

ExitCode run_program(const std::vector<std::string>& arguments) {
  try {
    const Command command = parse_arguments(arguments);
    return std::visit([](const auto& c) { return execute(c); }, command);
  } catch (const Error& error) {
    complain(error.what());
    return error.code();
  } catch (const std::bad_alloc&) {
    complain("out of memory");
  } catch (const std::system_error& error) {  // threads that cannot be started
    complain(fmt::format("the system refuses: {}", error.code().message()));
    return ExitCode::kDevice;
  } catch (const std::exception& error) {
    complain(fmt::format("internal error: {}; please report this", error.what()));
  }
  return ExitCode::kInternal;
}

}  // namespace
}  // namespace zplan

int main(int argc, char** argv) {
  zplan::prepare_streams();
  return static_cast<int>(zplan::run_program({argv + (argc > 0 ? 1 : 0), argv + argc}));
}
