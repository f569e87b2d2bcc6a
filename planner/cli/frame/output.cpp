#include "planner/cli/frame/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "planner/core/error.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kNewFileMode = 0666;  // less the umask

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

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
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

void write_stdout(std::string_view text) {
  const bool good = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!good || std::fflush(stdout) != 0) {
    throw_bad_input(fmt::format("standard output cannot be written: {}", std::strerror(errno)));
  }
}

void complain(std::string_view message) {
  std::string line = "zplan: ";
  for (const char c : message) {
    if (c == '\n') {
      line += "; ";
    } else {
      line += c;
    }
  }
  line += '\n';
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void check_writable(const std::string& path) {
  std::error_code error;
  if (path == "-") fail(path, "standard output has the answer; give a file");
  if (fs::is_directory(path, error)) fail(path, "it is a directory");
  if (is_special(path)) return;
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
  for (const std::string& path : inputs)
    if (!path.empty() && !is_special(path)) taken.push_back(final_target(path));
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
    file_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    target_ = final_target(path).string();
    part_ = fmt::format("{}.{}.part", target_, ::getpid());
    file_ = ::open(part_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kNewFileMode);
  }
  if (file_ < 0) fail(path, std::strerror(errno));
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

void write_file(const std::string& path, std::string_view text) {
  FileWriter file(path);
  file.write(text);
  file.finish();
}

}  // namespace zplan
