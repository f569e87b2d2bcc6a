#include "planner/core/program_parts.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "planner/core/error.h"

namespace zplan {
namespace {

namespace fs = std::filesystem;

struct PartFiles {
  const char* file;
  std::string word;  // of --build
};

PartFiles names_of(ProgramPart part) {
  switch (part) {
    case ProgramPart::kExecutor:
      return {"zplan-executor", "executor"};
    case ProgramPart::kCuda:
      return {"libzplan_cuda.so", "cuda"};
  }
  ZPLAN_ASSERT(false);
}

// The exit code of a program that gets the terminal's signals, too.
int exit_code_of(std::array<char*, 4> words) {
  pid_t child = 0;
  const int error = posix_spawn(&child, words[0], nullptr, nullptr, words.data(), environ);
  if (error != 0)
    throw Error(ExitCode::kDevice, fmt::format("cannot start {}: {}", words[0],
                                               std::generic_category().message(error)));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

std::string part_path(ProgramPart part) {
  std::error_code error;
  const fs::path name = names_of(part).file;
  const fs::path folder = fs::read_symlink("/proc/self/exe", error).parent_path();
  const fs::path beside = folder / name;
  const fs::path installed = folder.parent_path() / "lib/zplan" / name;
  const bool is_installed = !fs::exists(beside, error) && fs::exists(installed, error);
  return (is_installed ? installed : beside).string();
}

void build_part(ProgramPart part) {
  const char* const launcher = std::getenv("ZPLAN_LAUNCHER");
  if (launcher == nullptr) return;
  std::string program = launcher, option = "--build", word = names_of(part).word;
  const int code = exit_code_of({program.data(), option.data(), word.data(), nullptr});
  if (code != 0)
    throw Error(ExitCode::kDevice,
                fmt::format("{} {} {} failed, see the messages above", program, option, word));
}

}  // namespace zplan
