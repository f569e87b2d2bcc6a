#include "exec/comm/job_token.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "exec/comm/hmac.h"
#include "exec/comm/socket.h"
#include "planner/core/error.h"

namespace zplan::exec {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMadeBytes = 32;
constexpr std::size_t kMostFileBytes = 4096;  // of a file
constexpr const char* kAdvice =
    "; set ZPLAN_JOB_TOKEN to the same random text for all processes of the job";

// Of the processes of one host.
fs::path runtime_folder(const Lookup& lookup) {
  const auto given = lookup("XDG_RUNTIME_DIR");
  struct stat info {};
  if (given && ::stat(given->c_str(), &info) == 0 && info.st_uid == ::geteuid())
    return fs::path(*given) / "zplan";
  return fmt::format("/tmp/zplan-{}", ::geteuid());
}

// "job-node003-29500.token"
std::string file_name(const LaunchEnvironment& at) {
  std::string host = at.address;
  for (char& c : host)
    if (c == '/') c = '_';
  return fmt::format("job-{}-{}.token", host, at.port);
}

bool is_own_alone(const struct stat& info) {
  return info.st_uid == ::geteuid() && (info.st_mode & 077) == 0;
}

// A folder in /tmp may be somebody else's.
void check_folder(const fs::path& folder) {
  struct stat info {};
  if (::lstat(folder.c_str(), &info) != 0) return;
  if (!S_ISDIR(info.st_mode) || !is_own_alone(info))
    throw_bad_input(
        fmt::format("{}: expected a folder that only this user reads{}", folder.string(), kAdvice));
}

[[noreturn]] void fail(const std::string& path, int error) {
  throw Error(ExitCode::kDevice, fmt::format("{}: the job token cannot be written: {}{}", path,
                                             std::strerror(error), kAdvice));
}

// Whole or not at all, in place of what a killed run may have left.
void write_token(const std::string& path, const std::string& text) {
  const fs::path folder = fs::path(path).parent_path();
  std::error_code ignored;  // shows in what follows
  fs::create_directories(folder.parent_path(), ignored);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) fail(path, errno);
  check_folder(folder);
  const std::string part = fmt::format("{}.{}", path, ::getpid());
  ::unlink(part.c_str());
  const int file = ::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) fail(path, errno);
  const bool is_written =
      ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = is_written ? 0 : errno;
  ::close(file);
  if (is_written && ::rename(part.c_str(), path.c_str()) == 0) return;
  const int last = is_written ? errno : error;
  ::unlink(part.c_str());
  fail(path, last);
}

std::string read_file(const std::string& path) {
  check_folder(fs::path(path).parent_path());
  const Socket file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (!file.is_open() || ::fstat(file.descriptor(), &info) != 0) return "";
  if (!S_ISREG(info.st_mode) || !is_own_alone(info))
    throw_bad_input(fmt::format("{}: expected a file that only this user reads{}", path, kAdvice));
  std::array<char, kMostFileBytes> text;
  const ssize_t size = ::read(file.descriptor(), text.data(), text.size());
  return size > 0 ? std::string(text.data(), static_cast<std::size_t>(size)) : "";
}

}  // namespace

TokenSource token_source(const LaunchEnvironment& at, const Lookup& lookup) {
  if (const auto given = lookup("ZPLAN_JOB_TOKEN")) {
    if (given->size() < kLeastToken)
      throw_bad_input(fmt::format("ZPLAN_JOB_TOKEN: expected at least {} characters, got {}",
                                  kLeastToken, given->size()));
    return {*given, ""};
  }
  if (is_loopback(at.address)) return {"", runtime_folder(lookup) / file_name(at)};
  const auto home = lookup("HOME");
  if (!home) return {};
  return {"", fs::path(*home) / ".local" / "state" / "zplan" / file_name(at)};
}

IssuedToken::IssuedToken(const TokenSource& source) : text_(source.given) {
  if (!text_.empty()) return;
  if (source.file.empty()) throw_bad_input(fmt::format("HOME: expected a folder{}", kAdvice));
  text_ = to_hex(random_bytes(kMadeBytes));
  write_token(source.file, text_);
  file_ = source.file;
}

IssuedToken::~IssuedToken() { remove_file(); }

void IssuedToken::remove_file() noexcept {
  if (!file_.empty()) ::unlink(file_.c_str());
  file_.clear();
}

std::string read_token(const TokenSource& source) {
  if (!source.given.empty()) return source.given;
  if (source.file.empty()) throw_bad_input(fmt::format("HOME: expected a folder{}", kAdvice));
  return read_file(source.file);
}

}  // namespace zplan::exec
