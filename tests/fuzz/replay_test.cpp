// Every file of corpus/TARGET/ through the function that libFuzzer calls: valid files, broken ones,
// and what once crashed a parser.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/targets.h"
#include "tests/support/decision_levels.h"
#include "tests/support/source_dir.h"

namespace zplan::fuzz {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> result;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    result.push_back(entry.path());
  std::sort(result.begin(), result.end());
  return result;
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Replay : public testing::TestWithParam<Target> {};

TEST_P(Replay, NoFileOfTheCorpusBreaksTheParser) {
  const fs::path folder = fs::path(ZPLAN_SOURCE_DIR) / "tests/fuzz/corpus" / GetParam().name;
  const std::vector<fs::path> files = files_in(folder);
  EXPECT_GE(files.size(), 3u) << folder;
  for (const fs::path& file : files) {
    SCOPED_TRACE(file);
    GetParam().run(bytes_of(file));
  }
}

INSTANTIATE_TEST_SUITE_P(All, Replay, testing::ValuesIn(targets().begin(), targets().end()),
                         [](const auto& info) { return std::string(info.param.name); });

// Files that the rows of choices.h make.
TEST(Replay, NoValueOfADecisionBreaksTheReaderOfPlans) {
  const auto target = std::find_if(targets().begin(), targets().end(),
                                   [](const Target& t) { return t.name == "plan"; });
  for (const Decision& row : kChoices) {
    for (const Setting& level : testing_support::levels_of(row)) {
      Plan plan;
      row.field.set(plan, level);
      plan.model = plan.hardware = "x";
      target->run(to_json(plan));
    }
  }
}

TEST(Replay, EveryFolderOfTheCorpusHasATarget) {
  for (const fs::path& folder : files_in(fs::path(ZPLAN_SOURCE_DIR) / "tests/fuzz/corpus")) {
    const auto has_name = [&](const Target& t) { return t.name == folder.filename().string(); };
    EXPECT_TRUE(std::any_of(targets().begin(), targets().end(), has_name)) << folder;
  }
}

}  // namespace
}  // namespace zplan::fuzz
