// Three kinds of trouble, three mechanisms.
//   broken input, device, check   -> throw Error, caught once in main, one line on stderr
//   a plan that does not fit      -> a value (Infeasible, see planner/search), never thrown
//   our own bug                   -> ZPLAN_ASSERT, unreachable from any input
#pragma once

#include <stdexcept>
#include <string>

namespace zplan {

// Process exit codes; also what an Error carries.
enum class ExitCode : int {
  kOk = 0,
  kInfeasible = 1,
  kBadInput = 2,
  kInternal = 3,
  kDevice = 4,
  kCheckFailed = 5,
  kInterrupted = 130,
};

class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const { return code_; }

 private:
  ExitCode code_;
};

// The common case: something the user gave is wrong. One line, says what was expected.
[[noreturn]] void throw_bad_input(const std::string& message);

[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace zplan

#define ZPLAN_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::zplan::assertion_failed(#condition, __FILE__, __LINE__))
