// Files of tests/data/measured, and what a parser says of a text that it refuses.
#pragma once

#include <string>

#include "planner/core/error.h"
#include "planner/core/json_reader.h"
#include "tests/support/source_dir.h"

namespace zplan {

inline std::string measured_data(const std::string& name) {
  return read_text_file(ZPLAN_SOURCE_DIR "/tests/data/measured/" + name);
}

// The first of `from` replaced; the text must have it.
inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  ZPLAN_ASSERT(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

template <typename Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "not refused";
}

}  // namespace zplan
