// An empty folder of its own for a test of the NVMe tier.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "exec/offload/storage.h"
#include "planner/core/error.h"

namespace zplan::exec::testing {

class StorageFolder : public ::testing::Test {
 protected:
  StorageFolder() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string("zplan_") + info->test_suite_name() + "_" + info->name();
    for (char& c : name) c = c == '/' ? '_' : c;
    folder_ = std::filesystem::path(::testing::TempDir()) / name;
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  ~StorageFolder() override { std::filesystem::remove_all(folder_); }

  StorageOptions options(IoFault fault = {}) const {
    return {.directory = folder_.string(), .method = IoMethod::kAuto, .fault = std::move(fault)};
  }
  std::vector<std::filesystem::path> files() const {
    const std::filesystem::directory_iterator begin(folder_), end;
    return {begin, end};
  }

  std::filesystem::path folder_;
};

// The one line of the device error that the action ends with.
template <typename Action>
std::string device_error(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kDevice) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    return error.what();
  }
  ADD_FAILURE() << "expected an error";
  return "";
}

}  // namespace zplan::exec::testing
