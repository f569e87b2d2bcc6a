#include "planner/cli/frame/program.h"

#include <fmt/format.h>

#include <exception>
#include <new>
#include <system_error>

#include "planner/cli/frame/output.h"

namespace zplan {
namespace {

ExitCode guarded(const Arguments& arguments, ExitCode (*act)(const Command&, const Arguments&)) {
  try {
    return act(parse_arguments(arguments), arguments);
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

int run_program(int argc, char** argv, ExitCode (*act)(const Command&, const Arguments&)) {
  prepare_streams();
  return static_cast<int>(guarded({argv + (argc > 0 ? 1 : 0), argv + argc}, act));
}

}  // namespace zplan
