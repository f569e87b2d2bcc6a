#include "planner/core/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "planner/core/error.h"
#include "planner/core/text.h"

namespace zplan {
namespace {

// [assumed] beyond any plan, model, timeline or text to train on that is meant to be read here.
constexpr std::size_t kMostInputBytes = std::size_t{1} << 30;
// [assumed] likewise; less, because the length of a pipe is not known before it is read.
constexpr std::size_t kMostPipeBytes = std::size_t{256} << 20;
constexpr std::size_t kReadBlock = std::size_t{1} << 20;

[[noreturn]] void fail(const std::string& path, int error) {
  throw_bad_input(fmt::format("{}: cannot read the file: {}", visible(path), std::strerror(error)));
}

[[noreturn]] void fail_kind(const std::string& path, const char* kind) {
  throw_bad_input(fmt::format("{}: expected a file, got {}", visible(path), kind));
}

const char* kind_of(int descriptor, mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return ::isatty(descriptor) == 1 ? "a terminal" : "a device";
}

}  // namespace

InputFile::InputFile(const std::string& path, Pipes pipes, Links links) : path_(path) {
  const int follow = links == Links::kFollowed ? 0 : O_NOFOLLOW;
  // A pipe without a writer, and some devices, would keep us waiting.
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | follow);
  if (descriptor_ < 0 && errno == ELOOP && links == Links::kRefused) fail_kind(path, "a link");
  if (descriptor_ < 0 && errno == ENXIO) fail_kind(path, "a socket or a device");
  if (descriptor_ < 0) fail(path, errno);
  struct stat info {};
  const int error = ::fstat(descriptor_, &info) == 0 ? 0 : errno;
  is_pipe_ = S_ISFIFO(info.st_mode);
  bytes_ = info.st_size;
  if (error == 0 && (S_ISREG(info.st_mode) || (is_pipe_ && pipes == Pipes::kRead))) return;
  const char* const kind = kind_of(descriptor_, info.st_mode);
  ::close(descriptor_);
  if (error != 0) fail(path, error);
  fail_kind(path, kind);
}

InputFile::~InputFile() { ::close(descriptor_); }

std::size_t InputFile::read(std::span<char> block) const {
  std::size_t had = 0;
  while (had < block.size()) {
    const ssize_t got = ::read(descriptor_, block.data() + had, block.size() - had);
    if (got == 0) break;
    if (got > 0) {
      had += static_cast<std::size_t>(got);
    } else if (errno == EAGAIN) {
      pollfd wait{descriptor_, POLLIN, 0};
      ::poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      fail(path_, errno);
    }
  }
  return had;
}

std::string InputFile::read_all() const {
  const std::size_t most = is_pipe_ ? kMostPipeBytes : kMostInputBytes;
  std::string text;
  std::vector<char> block(kReadBlock);
  std::size_t got = block.size();
  while (got == block.size() && text.size() <= most) {
    got = read(block);
    text.append(block.data(), got);
  }
  if (text.size() > most)
    throw_bad_input(fmt::format("{}: expected {} of up to {} MiB, this one is larger",
                                visible(path_), is_pipe_ ? "a pipe" : "a file", most >> 20));
  if (text.empty() && is_pipe_) fail_kind(path_, "a pipe that nobody writes");
  return text;
}

}  // namespace zplan
