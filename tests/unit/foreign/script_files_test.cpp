#include "planner/foreign/syntax/script_files.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "planner/core/error.h"
#include "planner/foreign/frameworks/config_file.h"
#include "planner/foreign/frameworks/config_reader.h"
#include "planner/foreign/syntax/command_line.h"

namespace zplan {
namespace {

namespace fs = std::filesystem;

class ScriptFilesTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        fs::temp_directory_path() / (std::string("zplan_scripts_") +
                                     testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(folder_ / "conf");
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name)) << text;
  }
  // What stands before a command that uses the variables.
  CommandLine read(std::string text) const {
    text.append("run.py --tp $TP --pp $PP --gpus $GPUS\n");
    return parse_command_line(std::move(text), path("run.sh"));
  }
  std::string error_of(const std::string& text) const {
    try {
      read(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

  fs::path folder_;
};

std::string word(const CommandLine& line, std::string_view option) {
  const auto node = find_key(line.root, "arguments");
  for (const auto& [name, value] : node->members())
    if (name == option) return value.is_string() ? value.string() : value.describe();
  return "absent";
}

std::string place(const CommandLine& line, std::string_view option) {
  for (const auto& [name, value] : find_key(line.root, "arguments")->members())
    if (name == option) return value.location();
  return "absent";
}

TEST_F(ScriptFilesTest, VariablesOfAScriptThatIsReadCount) {
  write("common.sh", "# of all\nTP=4\nPP=$((TP * BASE))\n");
  write("conf/node.sh", "GPUS=8\n");
  const CommandLine line = read("BASE=2\nsource common.sh\n. \"conf/node.sh\"\nTP=1\n");
  EXPECT_EQ(word(line, "--tp"), "number 1");
  EXPECT_EQ(word(line, "--pp"), "number 8");
  EXPECT_EQ(word(line, "--gpus"), "number 8");
  // Places are those of the file where a value stands.
  EXPECT_EQ(place(line, "--tp"), path("run.sh") + ":4:4");
  EXPECT_EQ(place(line, "--pp"), path("common.sh") + ":3:4");
  EXPECT_EQ(place(line, "--gpus"), path("conf/node.sh") + ":1:6");
  ASSERT_EQ(line.scripts.size(), 2U);
  EXPECT_EQ(line.scripts[0].place, path("run.sh") + ":2:8");
  EXPECT_EQ(line.scripts[0].name, "common.sh");
  EXPECT_TRUE(line.scripts[0].is_read);
}

TEST_F(ScriptFilesTest, ScriptsReadOthersInTurn) {
  write("outer.sh", "TP=2\nsource inner.sh\nGPUS=$TP\n");
  write("inner.sh", "TP=$((TP + 1))\nPP=5\n");
  const CommandLine line = read("source outer.sh\nsource inner.sh\n");
  EXPECT_EQ(word(line, "--tp"), "number 4");
  EXPECT_EQ(word(line, "--gpus"), "number 3");
  EXPECT_EQ(place(line, "--pp"), path("inner.sh") + ":2:4");
  ASSERT_EQ(line.scripts.size(), 3U);
  EXPECT_EQ(line.scripts[1].place, path("outer.sh") + ":2:8");
}

TEST_F(ScriptFilesTest, WhatIsNotKnownOfAPathIsTheFolder) {
  write("common.sh", "TP=4\n");
  for (const char* written : {"$(dirname \"$0\")/common.sh", "${SCRIPT_DIR}/common.sh",
                              "\"$(dirname ${BASH_SOURCE[0]})\"/common.sh"})
    EXPECT_EQ(word(read("source " + std::string(written) + "\n"), "--tp"), "number 4") << written;
  write("conf/node.sh", "TP=8\n");
  EXPECT_EQ(word(read("source \"${DIR}/conf/node.sh\"\n"), "--tp"), "number 8");
  EXPECT_EQ(word(read("source `pwd`/conf/node.sh\n"), "--tp"), "number 8");
  // In another branch it is not read.
  EXPECT_EQ(word(read("if a; then\n:\nelse\nsource common.sh\nfi\n"), "--tp"), "$TP");
}

TEST_F(ScriptFilesTest, WhatIsNotBesideTheScriptIsSaid) {
  const CommandLine line =
      read("source absent.sh\nsource /etc/profile\nsource ../up.sh\n. ~/.rc\nsource $X\n");
  ASSERT_EQ(line.scripts.size(), 5U);
  EXPECT_EQ(line.scripts[0].name, "absent.sh");
  EXPECT_EQ(line.scripts[1].name, "/etc/profile");
  for (const ReadScript& script : line.scripts) EXPECT_FALSE(script.is_read) << script.name;
}

// BASH_SOURCE is the script that reads, and $0 the one that was started.
TEST_F(ScriptFilesTest, AScriptBesideAnotherIsFound) {
  write("conf/a.sh", "source \"$(dirname \"${BASH_SOURCE[0]}\")/b.sh\"\n. $(dirname $0)/b.sh\n");
  write("conf/b.sh", "TP=8\n");
  write("b.sh", "PP=2\n");
  const CommandLine line = read("source conf/a.sh\n");
  EXPECT_EQ(word(line, "--tp"), "number 8");
  EXPECT_EQ(word(line, "--pp"), "number 2");
  ASSERT_EQ(line.scripts.size(), 3U);
  EXPECT_EQ(line.scripts[1].name, "conf/b.sh");
  EXPECT_EQ(line.scripts[2].name, "b.sh");
}

TEST_F(ScriptFilesTest, CirclesAndTooManyAreRefusedInALine) {
  write("a.sh", "source b.sh\n");
  write("b.sh", "\n  source ./a.sh\n");
  EXPECT_EQ(error_of("source a.sh\n"),
            path("b.sh") +
                ":2:10: /: expected scripts that do not read each other, got \"a.sh\" "
                "within itself");
  write("run.sh", "");
  EXPECT_EQ(error_of("\n. run.sh\n"),
            path("run.sh") +
                ":2:3: /: expected scripts that do not read each other, got "
                "\"run.sh\" within itself");
  write("one.sh", "A=1\n");
  std::string many;
  for (int i = 0; i < 33; ++i) many += "source one.sh\n";
  EXPECT_EQ(error_of(many),
            path("run.sh") + ":33:8: /: expected at most 32 scripts, 8 within each other");
  for (int i = 0; i < 12; ++i)
    write("deep" + std::to_string(i) + ".sh", "source deep" + std::to_string(i + 1) + ".sh\n");
  EXPECT_EQ(error_of("source deep0.sh\n"),
            path("deep7.sh") + ":1:8: /: expected at most 32 scripts, 8 within each other");
}

TEST_F(ScriptFilesTest, AreNamedAmongTheFindings) {
  write("common.sh", "TP=4\n");
  const ConfigFile file = parse_config(
      "source common.sh\nsource env.sh\npretrain_gpt.py --tensor-model-parallel-size $TP\n",
      path("run.sh"));
  ASSERT_EQ(file.findings.size(), 2U);
  EXPECT_EQ(file.findings[0].message, "\"common.sh\" is read, its variables count");
  EXPECT_EQ(file.findings[1].message, "\"env.sh\" is not in the folder of the script: not read");
  EXPECT_EQ(file.findings[1].place, path("run.sh") + ":2:8");
}

}  // namespace
}  // namespace zplan
