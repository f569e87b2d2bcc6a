#include "planner/foreign/hugging_face/hub_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

#include "models/model_formulas.h"
#include "planner/foreign/model_file.h"
#include "tests/unit/foreign/measured_data.h"

namespace zplan {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;

// A variable of the environment while a test runs.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() {
    if (before_)
      ::setenv(name_, before_->c_str(), 1);
    else
      ::unsetenv(name_);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// A folder of its own.
class TempDir {
 public:
  TempDir()
      : path_(testing::TempDir() + "zplan_hub_" +
              testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~TempDir() { fs::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

TEST(HubCache, TellsNamesFromPaths) {
  for (const char* name : {"Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B", "a/b_c"})
    EXPECT_TRUE(has_hub_form(name)) << name;
  for (const char* path :
       {"./x", "../x", "/x", "a/b/c", "a/", "models/x.json", "gpt2", "a/b c", ""})
    EXPECT_FALSE(has_hub_form(path)) << path;
  EXPECT_TRUE(is_hub_name("nobody/nothing"));
}

TEST(HubCache, FindsTheSnapshotThatMainNames) {
  const TempDir temp;
  const fs::path cache(temp.path());
  const Variable hub("HF_HUB_CACHE", temp.path());
  const fs::path repository = cache / "models--Some--Llama";
  EXPECT_EQ(hub_folder("Some/Llama"), repository.string());
  EXPECT_FALSE(cached_config("Some/Llama"));
  write(repository / "refs" / "main", "0a1b2c\n");
  EXPECT_FALSE(cached_config("Some/Llama")) << "no config.json was downloaded";
  write(repository / "snapshots" / "0a1b2c" / "config.json", R"({"model_type": "llama"})");
  EXPECT_THAT(cached_config("Some/Llama").value(), EndsWith("snapshots/0a1b2c/config.json"));
  const NamedModel named = load_named_model("Some/Llama");
  EXPECT_EQ(named.model.name, "Llama");
  EXPECT_EQ(parameter_count(named.model), 6'738'415'616);
  EXPECT_THAT(named.folder, EndsWith("0a1b2c"));
  write(repository / "refs" / "main", "../../elsewhere");
  EXPECT_FALSE(cached_config("Some/Llama"));
}

TEST(HubCache, StandsWhereTheEnvironmentSays) {
  const Variable no_hub("HF_HUB_CACHE", "");
  const Variable home("HF_HOME", "/hf");
  EXPECT_EQ(hub_folder("a/b"), "/hf/hub/models--a--b");
  const Variable no_home("HF_HOME", "");
  const Variable no_caches("XDG_CACHE_HOME", "");
  const Variable user("HOME", "/home/me");
  EXPECT_EQ(hub_folder("a/b"), "/home/me/.cache/huggingface/hub/models--a--b");
}

TEST(HubCache, LeavesTheRestToTheCatalogue) {
  const TempDir temp;
  const Variable hub("HF_HUB_CACHE", temp.path());
  EXPECT_EQ(load_named_model("Qwen/Qwen3-8B").model.name, "qwen3-8b");
  EXPECT_EQ(load_named_model("meta-llama/Llama-3.1-70B-Instruct").model.name, "llama3-70b");
  EXPECT_EQ(model_file_of("Qwen/Qwen3-8B"), "");
  EXPECT_THAT(
      refusal([] { load_named_model("Qwen/Qwen3-8C"); }),
      AllOf(HasSubstr("no file or folder \"Qwen/Qwen3-8C\""),
            HasSubstr("did you mean \"Qwen/Qwen3-8B\"?"), HasSubstr("models--Qwen--Qwen3-8C"),
            HasSubstr("hf download Qwen/Qwen3-8C config.json")));
}

}  // namespace
}  // namespace zplan
