// Files that are read, opened in one place. Only a regular file is read, or a pipe where a stream
// of bytes is enough: a device has no end, and a pipe that nobody writes would be waited for.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace zplan {

enum class Pipes : std::uint8_t { kRefused, kRead };
// Whether the last part of the path may be a symbolic link.
enum class Links : std::uint8_t { kRefused, kFollowed };

class InputFile {
 public:
  // Throws Error(kBadInput) naming the path: absent, or not such a file. Never waits.
  explicit InputFile(const std::string& path, Pipes pipes = Pipes::kRefused,
                     Links links = Links::kFollowed);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  int descriptor() const { return descriptor_; }
  bool is_pipe() const { return is_pipe_; }
  std::int64_t bytes() const { return bytes_; }  // of a regular file, as it was opened

  // The next bytes, as many as there is room for unless the file ends; returns their number. Waits
  // for the writer of a pipe. Throws Error(kBadInput).
  std::size_t read(std::span<char> block) const;
  // All that is left. Throws Error(kBadInput), also where that is more than 1 GiB, of a pipe 256
  // MiB, and where a pipe has nothing in it and nobody writes it.
  std::string read_all() const;

 private:
  std::string path_;
  int descriptor_ = -1;
  bool is_pipe_ = false;
  std::int64_t bytes_ = 0;
};

}  // namespace zplan
