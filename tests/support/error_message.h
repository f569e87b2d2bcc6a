// What an action that must fail on broken input says.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "planner/core/error.h"

namespace zplan::testing_support {

inline std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    return error.what();
  }
  return "no error";
}

}  // namespace zplan::testing_support
