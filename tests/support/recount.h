// Runs recount.py, the independent counter of live bytes, on a placed Job.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include "planner/program/text/text.h"
#include "tests/support/source_dir.h"

namespace zplan {

struct Recount {
  bool ok = false;
  std::string out;  // JSON {stage: {tier: {peak_bytes, by_category}}}
  std::string err;  // breaches
};

inline std::string recount_file_text(const std::string& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// `unique` keeps tests that run at the same time apart; its hash names the files, because the name
// of a plan with many decisions is longer than a file's name may be.
inline Recount recount(const Job& job, const std::string& unique) {
  const std::string base =
      testing::TempDir() + "recount_" + std::to_string(std::hash<std::string>{}(unique));
  std::ofstream(base + ".zprog") << to_text(job);
  const std::string command = "python3 " ZPLAN_SOURCE_DIR "/tests/support/recount.py '" + base +
                              ".zprog' >'" + base + ".out' 2>'" + base + ".err'";
  const int status = std::system(command.c_str());
  return {status == 0, recount_file_text(base + ".out"), recount_file_text(base + ".err")};
}

}  // namespace zplan
