#include "exec/data_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <numeric>
#include <vector>

#include "planner/core/error.h"
#include "tests/unit/exec/golden_file.h"
#include "tests/unit/exec/mini_job.h"

namespace zplan::exec {
namespace {

DataSource counting_bytes(std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  return DataSource(bytes, "counting");
}

void expect_refused(const DataSource& data, std::int64_t sequence, std::int64_t vocab,
                    const std::string& why) {
  try {
    data.check(sequence, vocab);
    FAIL() << why;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_THAT(error.what(), ::testing::HasSubstr(why));
  }
}

TEST(DataSource, SamplesAreConsecutiveBytesAndTheirTargets) {
  const DataSource data = counting_bytes(100);
  std::vector<std::int32_t> tokens(9);
  for (std::int64_t sample = 0; sample < 200; ++sample) {
    data.load(3, sample, std::ssize(tokens) - 1, 0, tokens);
    const auto start = static_cast<std::int32_t>(data.sample_start(3, sample, 8));
    for (std::size_t i = 0; i < tokens.size(); ++i)
      ASSERT_EQ(tokens[i], start + static_cast<std::int32_t>(i));
  }
}

TEST(DataSource, APartOfASampleHasItsTokensFromWhereItBegins) {
  const DataSource data = counting_bytes(100);
  std::vector<std::int32_t> whole(9), part(4);
  data.load(3, 7, 8, 0, whole);
  data.load(3, 7, 8, 5, part);
  EXPECT_EQ(part, std::vector<std::int32_t>(whole.begin() + 5, whole.end()));
}

TEST(DataSource, EveryPositionThatFitsIsUsedAndNoOther) {
  const DataSource data = counting_bytes(12);
  std::vector<int> seen(12, 0);
  for (std::int64_t sample = 0; sample < 500; ++sample)
    ++seen[static_cast<std::size_t>(data.sample_start(0, sample, 8))];
  for (std::size_t start = 0; start < 12; ++start) EXPECT_EQ(seen[start] > 0, start < 4) << start;
}

TEST(DataSource, AgreesWithTheGoldenRun) {
  const testing::GoldenFile golden = testing::load_golden();
  const DataSource data = testing::mini_data();
  for (std::size_t step = 0; step < golden.sample_starts.size(); ++step) {
    for (std::size_t g = 0; g < golden.sample_starts[step].size(); ++g) {
      const auto sample =
          static_cast<std::int64_t>(step) * golden.global_batch + static_cast<std::int64_t>(g);
      EXPECT_EQ(data.sample_start(golden.seed, sample, golden.sequence),
                golden.sample_starts[step][g]);
    }
  }
}

TEST(DataSource, RefusesATextThatIsTooShort) {
  counting_bytes(9).check(8, 256);
  expect_refused(counting_bytes(8), 8, 256,
                 "counting: 8 bytes are too few for a sequence of 8 tokens and its targets, "
                 "expected at least 9");
}

TEST(DataSource, RefusesTokensOutsideTheVocabulary) {
  counting_bytes(20).check(8, 20);
  expect_refused(counting_bytes(20), 8, 19, "counting: holds byte 19");
}

// As dev/data/data_common.py of llm.c writes them.
template <typename Token>
std::string token_file(std::int32_t kind, std::int32_t version, const std::vector<Token>& tokens) {
  std::vector<std::int32_t> header(256, 0);
  header[0] = kind;
  header[1] = version;
  header[2] = static_cast<std::int32_t>(tokens.size());
  std::string text(reinterpret_cast<const char*>(header.data()), 1024);
  text.append(reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(Token));
  return text;
}

DataSource from_text(const std::string& text) {
  const std::string path = ::testing::TempDir() + "zplan_tokens.bin";
  std::ofstream(path, std::ios::binary) << text;
  return DataSource::from_file(path);
}

template <typename Token>
void expect_tokens(std::int32_t kind, std::int32_t version, Token first) {
  std::vector<Token> tokens(40);
  std::iota(tokens.begin(), tokens.end(), first);
  const DataSource data = from_text(token_file(kind, version, tokens));
  EXPECT_EQ(data.tokens(), 40);
  data.check(39, std::int64_t{first} + 40);
  expect_refused(data, 39, std::int64_t{first} + 39,
                 "holds token " + std::to_string(std::int64_t{first} + 39));
  expect_refused(data, 40, 1 << 30, "40 tokens are too few");
  std::vector<std::int32_t> loaded(9);
  data.load(3, 5, 8, 0, loaded);
  const auto start = data.sample_start(3, 5, 8);
  for (std::size_t i = 0; i < loaded.size(); ++i)
    EXPECT_EQ(loaded[i], std::int64_t{first} + start + static_cast<std::int64_t>(i));
}

TEST(DataSource, ReadsTokenFiles) {
  expect_tokens<std::uint16_t>(20240520, 1, 50000);
  expect_tokens<std::uint32_t>(20240801, 7, 128000);
}

TEST(DataSource, RefusesTokenFilesThatAreNotAsTheirHeaderSays) {
  const std::string good = token_file<std::uint16_t>(20240520, 1, {1, 2, 3});
  EXPECT_EQ(from_text(good).tokens(), 3);
  EXPECT_THROW(from_text(good.substr(0, good.size() - 2)), Error);
  EXPECT_THROW(from_text(good + "xx"), Error);
  EXPECT_THROW(from_text(token_file<std::uint16_t>(20240520, 2, {1})), Error);
  // A token per byte would be trained on without a word.
  EXPECT_THROW(from_text(token_file<std::uint16_t>(20240521, 1, {1})), Error);
  EXPECT_THROW(from_text("text"), Error);
}

TEST(DataSource, RefusesWhatIsNoFile) {
  const std::string pipe = ::testing::TempDir() + "zplan_pipe";
  ::unlink(pipe.c_str());
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero"), std::string("/")}) {
    try {
      DataSource::from_file(path);
      FAIL() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kBadInput);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("expected a file, got a"));
    }
  }
  ::unlink(pipe.c_str());
}

TEST(DataSource, RefusesAFileThatDoesNotExist) {
  EXPECT_THROW(DataSource::from_file("/nowhere/text.txt"), Error);
}

}  // namespace
}  // namespace zplan::exec
