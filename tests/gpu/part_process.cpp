#include "tests/gpu/part_process.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <csignal>

#include <algorithm>
#include <optional>
#include <thread>

extern char** environ;

namespace zplan::gpu {
namespace {

// The status of a process that has ended within the limit.
std::optional<int> await(pid_t process, std::chrono::seconds limit) {
  constexpr std::chrono::milliseconds kPause{20};
  const auto end = std::chrono::steady_clock::now() + limit;
  int status = 0;
  while (waitpid(process, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) return std::nullopt;
    std::this_thread::sleep_for(kPause);
  }
  return status;
}

}  // namespace

std::string run_process(const std::string& program, const std::vector<std::string>& arguments,
                        std::chrono::seconds limit, std::vector<int> accepted, int& exit_code) {
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_t process = 0;
  exit_code = -1;
  if (posix_spawn(&process, program.c_str(), nullptr, nullptr, pointers.data(), environ) != 0)
    return "it did not start";
  const auto status = await(process, limit);
  if (!status) {
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
    return fmt::format("killed after {} s", limit.count());
  }
  if (WIFSIGNALED(*status)) return fmt::format("ended by signal {}", WTERMSIG(*status));
  exit_code = WEXITSTATUS(*status);
  const bool fine =
      exit_code == 0 || std::find(accepted.begin(), accepted.end(), exit_code) != accepted.end();
  return fine ? "" : fmt::format("exit code {}", exit_code);
}

}  // namespace zplan::gpu
