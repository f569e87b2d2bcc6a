#include "exec/comm/job_token.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "planner/core/error.h"

namespace zplan::exec {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class JobToken : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  TokenSource source(const std::map<std::string, std::string>& variables,
                     const std::string& address = "127.0.0.1") const {
    LaunchEnvironment at;
    at.address = address;
    return token_source(at, [&](const char* name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      if (found == variables.end()) return std::nullopt;
      return found->second;
    });
  }
  TokenSource made() const { return source({{"XDG_RUNTIME_DIR", folder_}}); }

  static mode_t mode(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  }
  static std::string error_of(const std::function<void()>& body) {
    try {
      body();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }

  fs::path folder_;
};

TEST_F(JobToken, IsTheOneThatIsGiven) {
  const TokenSource given = source({{"ZPLAN_JOB_TOKEN", "0123456789abcdef"}});
  EXPECT_EQ(IssuedToken(given).text(), "0123456789abcdef");
  EXPECT_EQ(read_token(given), "0123456789abcdef");
  EXPECT_THAT(error_of([&] {
                source({{"ZPLAN_JOB_TOKEN", "0123456789abcde"}});
              }),
              HasSubstr("expected at least 16 characters, got 15"));
}

TEST_F(JobToken, IsMadeForEachRunAndLivesInAFileThatOnlyTheUserReads) {
  std::string first;
  {
    const IssuedToken issued(made());
    first = issued.text();
    EXPECT_EQ(first.size(), 64u);
    EXPECT_EQ(read_token(made()), first);
    EXPECT_EQ(mode(made().file), 0600u);
    EXPECT_EQ(mode(folder_ / "zplan"), 0700u);
  }
  EXPECT_FALSE(fs::exists(made().file));
  EXPECT_EQ(read_token(made()), "");
  const IssuedToken second(made());
  EXPECT_NE(second.text(), first);
}

TEST_F(JobToken, LiesInTheHomeFolderWhenHostsShareIt) {
  const TokenSource shared = source({{"HOME", folder_}}, "node/1");
  EXPECT_EQ(shared.file, (folder_ / ".local/state/zplan/job-node_1-29500.token").string());
  const IssuedToken issued(shared);
  EXPECT_EQ(read_token(shared), issued.text());
  EXPECT_THAT(error_of([&] { IssuedToken token(source({}, "node1")); }),
              HasSubstr("set ZPLAN_JOB_TOKEN"));
}

TEST_F(JobToken, OfOneHostWithoutAFolderForTheRunIsInTmp) {
  EXPECT_THAT(source({}).file, StartsWith("/tmp/zplan-"));
  EXPECT_THAT(source({{"XDG_RUNTIME_DIR", folder_ / "absent"}}).file, StartsWith("/tmp/zplan-"));
}

TEST_F(JobToken, WhatAKilledRunLeftIsReplaced) {
  { const IssuedToken issued(made()); }
  std::ofstream(made().file) << "old";
  fs::permissions(made().file, fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(read_token(made()), "old");
  const IssuedToken issued(made());
  EXPECT_EQ(read_token(made()), issued.text());
}

TEST_F(JobToken, AFileThatOthersReadOrALinkIsNotTrusted) {
  { const IssuedToken issued(made()); }
  std::ofstream(made().file) << "a token of somebody";
  for (const fs::perms others : {fs::perms::group_read, fs::perms::others_read}) {
    fs::permissions(made().file, fs::perms::owner_read | others);
    EXPECT_THAT(error_of([&] { read_token(made()); }), HasSubstr("only this user reads"));
  }
  fs::remove(made().file);
  std::ofstream(folder_ / "elsewhere") << "a token of somebody";
  fs::permissions(folder_ / "elsewhere", fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink(folder_ / "elsewhere", made().file);
  EXPECT_EQ(read_token(made()), "");
}

TEST_F(JobToken, AFolderOfSomebodyElseIsNotTrusted) {
  fs::create_directory(folder_ / "zplan");
  fs::permissions(folder_ / "zplan", fs::perms::all);
  EXPECT_THAT(error_of([&] { IssuedToken token(made()); }), HasSubstr("a folder that only"));
  EXPECT_THAT(error_of([&] { read_token(made()); }), HasSubstr("a folder that only"));
  fs::remove(folder_ / "zplan");
  fs::create_directory_symlink(folder_, folder_ / "zplan");
  EXPECT_THAT(error_of([&] { IssuedToken token(made()); }), HasSubstr("a folder that only"));
}

}  // namespace
}  // namespace zplan::exec
