#include "planner/core/error.h"

#include <fmt/format.h>

namespace zplan {

void throw_bad_input(const std::string& message) { throw Error(ExitCode::kBadInput, message); }

void assertion_failed(const char* condition, const char* file, int line) {
  throw Error(ExitCode::kInternal,
              fmt::format("internal error: {}:{}: assertion '{}' failed; please report this", file,
                          line, condition));
}

}  // namespace zplan
