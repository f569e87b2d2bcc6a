// What an action says when it fails, for tests of one error among several.
#pragma once

#include <functional>
#include <string>

#include "planner/core/error.h"

namespace zplan {

// "": no error.
inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace zplan
