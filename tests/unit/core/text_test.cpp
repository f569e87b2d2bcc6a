// Text for messages, and the errors themselves.
#include "planner/core/text.h"

#include <gtest/gtest.h>

#include "planner/core/error.h"

namespace zplan {
namespace {

TEST(Text, InQuotesStaysOnOneLine) {
  EXPECT_EQ(in_quotes("a\nb\t\x01\x7f\""), "\"a\\nb\\t\\u0001\\u007f\\\"\"");
}

// A name could show "exe.gpj" for "jpg.exe", or be two names that look alike.
TEST(Text, DirectionsAndLettersWithoutWidthAreEscaped) {
  EXPECT_EQ(visible("a\u202egpj.exe"), "a\\u202egpj.exe");
  EXPECT_EQ(in_quotes("\u2066x\u2069"), "\"\\u2066x\\u2069\"");
  EXPECT_EQ(visible("\u200b\u200f\u061c\u2028\ufeff"), "\\u200b\\u200f\\u061c\\u2028\\ufeff");
  EXPECT_EQ(visible("\u0085\U000e0041"), "\\u0085\\ue0041");
  EXPECT_EQ(visible("\u00e9 \u05d0 \u4e2d \u2010 \u202f"), "\u00e9 \u05d0 \u4e2d \u2010 \u202f");
  EXPECT_EQ(visible("\xe2\x80"), "\xe2\x80");  // cut short
}

TEST(Text, VisibleLinesKeepTheirEnds) {
  EXPECT_EQ(visible_lines("a\u202e\n\nb\t\n"), "a\\u202e\n\nb\\t\n");
  EXPECT_EQ(visible_lines("a"), "a");
}

TEST(Text, InQuotesCutsBetweenCharacters) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "\xc3\xa9";
  EXPECT_EQ(in_quotes(text), '"' + text.substr(0, 80) + "...\"");
}

TEST(Text, InQuotesToleratesBrokenUtf8) { EXPECT_EQ(in_quotes("\xff"), "\"\xff\""); }

TEST(Text, ToLowerLeavesOtherBytesAlone) { EXPECT_EQ(to_lower("AbZ-9\xc3\x89"), "abz-9\xc3\x89"); }

TEST(Text, Utf8LengthKnowsTheLimits) {
  EXPECT_EQ(utf8_length("\xf4\x8f\xbf\xbf", 0), 4u);  // U+10FFFF
  EXPECT_EQ(utf8_length("\xf4\x90\x80\x80", 0), 0u);  // above it
  EXPECT_EQ(utf8_length("\xe0\x9f\xbf", 0), 0u);      // overlong
  EXPECT_EQ(utf8_length("\xf0\x8f\xbf\xbf", 0), 0u);  // overlong
  EXPECT_EQ(utf8_length("\x80", 0), 0u);
}

TEST(Error, CarriesTheExitCode) {
  try {
    throw_bad_input("wrong");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kBadInput);
    EXPECT_STREQ(error.what(), "wrong");
  }
}

TEST(Error, AssertionNamesTheCondition) {
  try {
    ZPLAN_ASSERT(1 + 1 == 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kInternal);
    EXPECT_NE(std::string(error.what()).find("assertion '1 + 1 == 3' failed"), std::string::npos);
  }
}

}  // namespace
}  // namespace zplan
