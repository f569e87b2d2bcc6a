#include "planner/cli/frame/output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace zplan {
namespace {

namespace fs = std::filesystem;

class Files : public testing::Test {
 protected:
  Files() { fs::create_directories(folder_); }
  ~Files() override { fs::remove_all(folder_); }

  std::string path() const { return folder_ / "answer.json"; }
  std::string content() const {
    std::ifstream in(path());
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_))
      all.push_back(entry.path().filename().string());
    return all;
  }

 private:
  fs::path folder_ = fs::path(testing::TempDir()) / "zplan_output_test";
};

TEST_F(Files, ThatAreNotFinishedLeaveTheOldOneAndNoPart) {
  write_file(path(), "old");
  {
    FileWriter writer(path());
    writer.write("half of it");
  }
  EXPECT_EQ(content(), "old");
  EXPECT_THAT(names(), testing::ElementsAre("answer.json"));
}

TEST_F(Files, ThatAreFinishedReplaceTheOldOneAndKeepItsMode) {
  write_file(path(), "old");
  fs::permissions(path(), fs::perms::owner_read | fs::perms::owner_write);
  FileWriter writer(path());
  writer.write("new");
  writer.finish();
  EXPECT_EQ(content(), "new");
  EXPECT_EQ(fs::status(path()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_THAT(names(), testing::ElementsAre("answer.json"));
}

}  // namespace
}  // namespace zplan
