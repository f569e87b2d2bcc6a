#include "planner/core/input_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "planner/core/error.h"
#include "planner/core/json_reader.h"

namespace zplan {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class InputFiles : public ::testing::Test {
 protected:
  InputFiles() { fs::create_directories(folder_); }
  ~InputFiles() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ / name; }
  std::string pipe() const {
    EXPECT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
    return path("pipe");
  }
  static std::string error_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      return error.what();
    }
    return "nothing was thrown";
  }

 private:
  fs::path folder_ = fs::path(::testing::TempDir()) / "zplan_input_file_test";
};

TEST_F(InputFiles, ThatAreRegularAreReadWhole) {
  std::ofstream(path("file")) << std::string(3 << 20, 'x') << "end";
  const std::string text = read_text_file(path("file"));
  EXPECT_EQ(text.size(), (3U << 20) + 3);
  EXPECT_TRUE(text.ends_with("xend"));
  EXPECT_EQ(InputFile(path("file")).bytes(), (3 << 20) + 3);
}

TEST_F(InputFiles, ThatHaveNoEndAreRefused) {
  EXPECT_THAT(error_of([] { read_text_file("/dev/zero"); }),
              HasSubstr("/dev/zero: expected a file, got a device"));
  EXPECT_THAT(error_of([] { read_text_file("/"); }), HasSubstr("got a directory"));
}

TEST_F(InputFiles, PipesAreReadWhereAWriterIsThere) {
  const std::string name = pipe();
  EXPECT_THAT(error_of([&] { InputFile{name}; }), HasSubstr("got a pipe"));
  EXPECT_THAT(error_of([&] { read_text_file(name); }), HasSubstr("got a pipe that nobody writes"));
  const int writer = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
  std::jthread slow([writer] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(::write(writer, "late", 4), 4);
    ::close(writer);
  });
  EXPECT_EQ(read_text_file(name), "late");
}

TEST_F(InputFiles, LinksAreFollowedUnlessTheyAreRefused) {
  std::ofstream(path("file")) << "text";
  fs::create_symlink("file", path("link"));
  fs::create_symlink("loop", path("loop"));
  EXPECT_EQ(read_text_file(path("link")), "text");
  EXPECT_THAT(error_of([&] { InputFile(path("link"), Pipes::kRefused, Links::kRefused); }),
              HasSubstr("expected a file, got a link"));
  EXPECT_THAT(error_of([&] { read_text_file(path("loop")); }),
              HasSubstr("cannot read the file: Too many levels of symbolic links"));
}

}  // namespace
}  // namespace zplan
