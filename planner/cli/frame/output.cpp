#include "planner/cli/frame/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "planner/core/error.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kNewFileMode = 0666;  // less the umask

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : value;
}

bool shows_colours() {
  return ::isatty(STDOUT_FILENO) == 1 && variable("NO_COLOR").empty() && variable("TERM") != "dumb";
}

[[noreturn]] void fail(const std::string& path, const char* reason) {
  throw_bad_input(fmt::format("{}: cannot be written: {}", visible(path), reason));
}

// The file behind symbolic links, whether it exists or not.
fs::path final_target(const std::string& path) {
  std::error_code error;
  fs::path target = fs::weakly_canonical(fs::absolute(path), error);
  if (error) fail(path, error.message().c_str());
  return target;
}

// Devices, pipes and what stands for open files are not replaced by a file.
bool is_special(const std::string& path) {
  if (path.starts_with("/dev/") || path.starts_with("/proc/")) return true;
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

// Taken for reading, so that it cannot be written: a result that goes there is not lost in silence.
// Those before it are taken, so that it is the least number that is free, which open() gives.
void take_if_closed(int descriptor) {
  if (::fcntl(descriptor, F_GETFD) >= 0 || errno != EBADF) return;
  [[maybe_unused]] const int taken = ::open("/dev/null", O_RDONLY);
}

constexpr int kNeverWaiting = O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

[[noreturn]] void fail_to_open(const std::string& path) {
  fail(path, errno == ENXIO ? "it is a pipe that nobody reads, or a socket" : std::strerror(errno));
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EAGAIN) {  // whoever opened it shares it with others
      pollfd ready{file, POLLOUT, 0};
      ::poll(&ready, 1, -1);
      continue;
    }
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// A replaced file keeps its permissions.
void keep_mode(int file, const fs::path& target) {
  struct stat old {};
  if (::stat(target.c_str(), &old) == 0) static_cast<void>(::fchmod(file, old.st_mode & 07777));
}

}  // namespace

std::string with_coloured_verdict(std::string text) {
  // ECMA-48 sec 8.3.117, SGR: bold, and green or red.
  constexpr std::string_view kGood = "\033[1;32m", kBad = "\033[1;31m", kEnd = "\033[0m";
  const bool is_good = text.starts_with("Yes: ") || text.starts_with("yes: ");
  const bool is_bad = text.starts_with("No: ") || text.starts_with("no: ");
  if (!(is_good || is_bad) || !shows_colours()) return text;
  text.insert(text.find(':'), kEnd);
  text.insert(0, is_good ? kGood : kBad);
  return text;
}

void prepare_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    take_if_closed(descriptor);
  for (const int number : {SIGHUP, SIGPIPE, SIGXFSZ}) std::signal(number, SIG_IGN);
}

void write_stdout(std::string_view text) {
  if (write_all(STDOUT_FILENO, text)) return;
  throw Error(ExitCode::kDevice,
              fmt::format("standard output cannot be written: {}",
                          errno == EBADF ? "it is closed" : std::strerror(errno)));
}

void write_notice(std::string_view text, std::chrono::milliseconds patience) noexcept {
  while (!text.empty()) {
    pollfd ready{STDERR_FILENO, POLLOUT, 0};
    const int is_ready = ::poll(&ready, 1, static_cast<int>(patience.count()));
    // A pipe that is ready takes so much at once.
    const ssize_t written = is_ready > 0 ? ::write(STDERR_FILENO, text.data(),
                                                   std::min<std::size_t>(text.size(), PIPE_BUF))
                                         : is_ready;
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

void complain(std::string_view message) {
  constexpr std::chrono::seconds kPatience{5};
  std::string line = "zplan: ";
  while (true) {
    const std::size_t end = message.find('\n');
    line += visible(message.substr(0, end));
    if (end == message.npos) break;
    line += "; ";
    message.remove_prefix(end + 1);
  }
  write_notice(line + '\n', kPatience);
}

void check_writable(const std::string& path) {
  std::error_code error;
  if (path == "-") fail(path, "standard output has the answer; give a file");
  if (fs::is_directory(path, error)) fail(path, "it is a directory");
  if (is_special(path)) {
    if (!fs::exists(path, error)) fail(path, "no such device");
    return;
  }
  const fs::path target = final_target(path);
  const fs::path folder = target.parent_path();
  if (!fs::is_directory(folder, error)) {
    fail(path, fs::exists(folder, error) ? "its folder is not a directory" : "no such folder");
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) fail(path, std::strerror(errno));
}

void check_outputs(const std::vector<std::string>& outputs,
                   const std::vector<std::string>& inputs) {
  std::vector<fs::path> taken;
  for (const std::string& path : inputs) {
    std::error_code error;  // what reads it says what is wrong with it
    const fs::path target = fs::weakly_canonical(fs::absolute(path, error), error);
    if (!path.empty() && !error && !is_special(path)) taken.push_back(target);
  }
  const std::size_t first_output = taken.size();
  for (const std::string& path : outputs) {
    if (path.empty()) continue;
    check_writable(path);
    if (is_special(path)) continue;
    const fs::path target = final_target(path);
    const auto same = std::find(taken.begin(), taken.end(), target);
    if (same != taken.end()) {
      const bool is_input = same - taken.begin() < static_cast<std::ptrdiff_t>(first_output);
      fail(path, is_input ? "it is the input" : "two results would go to the same file");
    }
    taken.push_back(target);
  }
}

FileWriter::FileWriter(const std::string& path) : path_(path) {
  check_writable(path);
  if (is_special(path)) {
    file_ = ::open(path.c_str(), O_WRONLY | kNeverWaiting);
  } else {
    target_ = final_target(path).string();
    part_ = fmt::format("{}.{}.part", target_, ::getpid());
    file_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kNewFileMode);
  }
  if (file_ < 0) fail_to_open(path);
  if (!part_.empty()) keep_mode(file_, target_);
}

FileWriter::~FileWriter() { give_up(); }

void FileWriter::give_up() {
  if (file_ < 0) return;
  ::close(file_);
  file_ = -1;
  if (!part_.empty()) ::unlink(part_.c_str());
}

void FileWriter::check(bool good) {
  if (good) return;
  const int reason = errno;
  give_up();
  fail(path_, std::strerror(reason));
}

void FileWriter::write(std::string_view text) { check(write_all(file_, text)); }

void FileWriter::finish() {
  if (part_.empty()) {
    ::close(file_);
    file_ = -1;
    return;
  }
  // Some file systems know no fsync (EINVAL).
  check(::fsync(file_) == 0 || errno == EINVAL);
  check(::rename(part_.c_str(), target_.c_str()) == 0);
  ::close(file_);
  file_ = -1;
}

LineWriter::LineWriter(const std::string& path) {
  check_writable(path);
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | kNeverWaiting, kNewFileMode);
  if (file_ < 0) fail_to_open(path);
  struct stat info {};
  if (::fstat(file_, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) return;
  char last = '\n';
  const int reader = ::open(path.c_str(), O_RDONLY | kNeverWaiting);
  if (reader >= 0 && ::pread(reader, &last, 1, info.st_size - 1) == 1 && last != '\n') add("\n");
  ::close(reader);
}

LineWriter::~LineWriter() { ::close(file_); }

std::optional<std::string> LineWriter::add(std::string_view line) {
  while (!line.empty()) {
    const ssize_t written = ::write(file_, line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return std::strerror(errno);
    line.remove_prefix(static_cast<std::size_t>(written));
  }
  return std::nullopt;
}

void write_file(const std::string& path, std::string_view text) {
  FileWriter file(path);
  file.write(text);
  file.finish();
}

}  // namespace zplan
