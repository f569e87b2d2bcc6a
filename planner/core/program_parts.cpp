#include "planner/core/program_parts.h"

#include <fmt/format.h>
#include <signal.h>
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

// While a program runs that gets the terminal's signals, too, an interrupt is for that one alone:
// this process waits for its end, as system() of the C library does.
class InterruptsIgnored {
 public:
  InterruptsIgnored() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGINT, &ignore, &before_);
  }
  ~InterruptsIgnored() { sigaction(SIGINT, &before_, nullptr); }
  InterruptsIgnored(const InterruptsIgnored&) = delete;
  InterruptsIgnored& operator=(const InterruptsIgnored&) = delete;

 private:
  struct sigaction before_ {};
};

// Starts a program that an interrupt ends. Returns 0 or the error.
int spawn(pid_t& child, std::array<char*, 4>& words) {
  sigset_t usual;
  sigemptyset(&usual);
  sigaddset(&usual, SIGINT);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const int error = posix_spawn(&child, words[0], nullptr, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  return error;
}

// Returns the exit code of a program, as a shell says it: 128 and its number for a signal.
int exit_code_of(std::array<char*, 4> words) {
  constexpr int kSignal = 128;
  const InterruptsIgnored ignored;
  pid_t child = 0;
  if (const int error = spawn(child, words); error != 0)
    throw Error(ExitCode::kDevice, fmt::format("cannot start {}: {}", words[0],
                                               std::generic_category().message(error)));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignal + WTERMSIG(status);
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
  if (code == static_cast<int>(ExitCode::kInterrupted))
    throw Error(ExitCode::kInterrupted,
                fmt::format("{} {} {} was interrupted", program, option, word));
  if (code != 0)
    throw Error(ExitCode::kDevice,
                fmt::format("{} {} {} failed, see the messages above", program, option, word));
}

}  // namespace zplan
