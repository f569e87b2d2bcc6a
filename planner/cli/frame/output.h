// Where results and messages go. Files appear whole or not at all: they are written under another
// name in the same folder and renamed. Devices and pipes ("/dev/stdout") are written as they are.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zplan {

// Throws Error when stdout cannot take it (a full disk).
void write_stdout(std::string_view text);

// One line on stderr, "zplan: <message>"; line breaks within become "; ".
void complain(std::string_view message);

// Throws Error when a file could not be written to `path`, before long work is put into it. Nothing
// is created.
void check_writable(const std::string& path);

// Of the files that a command writes and reads, empty when not given: throws Error when one cannot
// be written, or would be written twice or over an input.
void check_outputs(const std::vector<std::string>& outputs, const std::vector<std::string>& inputs);

// A file that is written piece by piece and replaces what was there when it is finished. Its
// functions throw Error naming the path, and leave nothing behind.
class FileWriter {
 public:
  explicit FileWriter(const std::string& path);
  ~FileWriter();
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(std::string_view text);
  void finish();

 private:
  void check(bool good);
  void give_up();

  std::string path_;
  std::string target_, part_;  // empty for devices and pipes
  int file_ = -1;
};

// Replaces the file; throws Error naming the path.
void write_file(const std::string& path, std::string_view text);

}  // namespace zplan
