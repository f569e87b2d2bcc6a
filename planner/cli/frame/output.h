// Where results and messages go. Files appear whole or not at all: they are written under another
// name in the same folder and renamed. Devices and pipes ("/dev/stdout") are written as they are; a
// pipe that nobody reads is an error and not waited for.
//
// Messages go to stderr by write_notice() and complain() alone. They never throw for a terminal
// that is closed, a disk that is full or a reader that has gone: then the message is lost, and the
// run or the answer is not.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zplan {

// At the start of the program. Descriptors 0, 1 and 2 that are closed are taken, so that no file
// which is opened later gets one of them and the messages that are meant for it. Signals of a lost
// terminal (SIGHUP), of a reader that has gone (SIGPIPE) and of a file beyond `ulimit -f` (SIGXFSZ)
// are ignored: what cannot be written shows where it is written.
void prepare_streams();

// Throws Error(kDevice) when stdout cannot take it (a full disk).
void write_stdout(std::string_view text);

// The text with the verdict that it begins with, "Yes: " or "No: ", in green or red where stdout is
// a terminal that shows colours. NO_COLOR, not empty, says that none are wanted (no-color.org), and
// so does TERM=dumb.
std::string with_coloured_verdict(std::string text);

// Shows text on stderr, as it is. It is dropped where stderr cannot be written, or takes no more
// for so long, as a pipe does whose reader stands still.
void write_notice(std::string_view text, std::chrono::milliseconds patience) noexcept;

// One line on stderr, "zplan: <message>"; line breaks within become "; ", and what would change how
// the line looks is escaped. Waits 5 s for stderr.
void complain(std::string_view message);

// Throws Error when a file could not be written to `path`, before long work is put into it. Nothing
// is created.
void check_writable(const std::string& path);

// Of the files that a command writes and reads, empty when not given: throws Error when one cannot
// be written, or would be written twice or over an input.
void check_outputs(const std::vector<std::string>& outputs, const std::vector<std::string>& inputs);

// write_answer() of sheet.h, with the files of the answer, which are written first. One that cannot
// be written ends with its Error, after the answer is shown.
class Sheet;
void write_answer(const Sheet& answer, bool json, const std::function<void()>& write_files);

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

// Whole lines behind those that a file has, of something that goes on whether they are written or
// not: a pipe that is full is not waited for.
class LineWriter {
 public:
  // Throws Error naming the path. A last line that was cut short is ended.
  explicit LineWriter(const std::string& path);
  ~LineWriter();
  LineWriter(const LineWriter&) = delete;
  LineWriter& operator=(const LineWriter&) = delete;

  // Says why it cannot be written; nothing where it is.
  std::optional<std::string> add(std::string_view line);

 private:
  int file_ = -1;
};

// Replaces the file; throws Error naming the path.
void write_file(const std::string& path, std::string_view text);

}  // namespace zplan
