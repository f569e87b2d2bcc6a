#include "hwprofiles/index_rule.h"

#include <gtest/gtest.h>

#include "planner/core/error.h"
#include "tests/support/error_message.h"

namespace zplan {
namespace {

std::int64_t value_of(const std::string& text, std::vector<std::int64_t> values = {}) {
  std::vector<std::string> names{"a", "b"};
  const IndexRule rule(text, names);
  values.resize(names.size());
  return rule.at(values);
}

TEST(IndexRule, OperatorsBindAsInArithmetic) {
  EXPECT_EQ(value_of("1 + 2 * 3"), 7);
  EXPECT_EQ(value_of("(1 + 2) * 3"), 9);
  EXPECT_EQ(value_of("7 - 2 - 1"), 4);
  EXPECT_EQ(value_of("17 / 5 * 5 + 17 % 5"), 17);
  EXPECT_EQ(value_of("-a + b", {2, 5}), 3);
  EXPECT_EQ(value_of("a < b and b <= 5", {2, 5}), 1);
  EXPECT_EQ(value_of("a < b and b != 5", {2, 5}), 0);
  EXPECT_EQ(value_of("a and b", {2, 0}), 0);
}

TEST(IndexRule, DivisionRoundsDownAndTheRestIsNeverNegative) {
  EXPECT_EQ(value_of("(a - 1) % 4", {0}), 3);
  EXPECT_EQ(value_of("(a - 1) / 4", {0}), -1);
}

TEST(IndexRule, NamesAreNumberedAsTheyComeAndFoundAgain) {
  std::vector<std::string> names;
  const IndexRule first("x + y", names), alone("y", names);
  EXPECT_EQ(names, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(first.only_name(), -1);
  EXPECT_EQ(alone.only_name(), 1);
}

TEST(IndexRule, WhatIsNoRuleIsSaidWithItsPlace) {
  const auto refusal = [](const std::string& text) {
    return testing_support::message_of([&] { value_of(text, {1, 0}); });
  };
  EXPECT_EQ(refusal(""), "expected a number, a name or '(' in \"\", got its end");
  EXPECT_EQ(refusal("a +"), "expected a number, a name or '(' in \"a +\", got its end");
  EXPECT_EQ(refusal("(a"), "expected ')' in \"(a\", got its end");
  const std::string expected =
      "expected one of the operators * / % + - < <= > >= == != and, or the end";
  EXPECT_EQ(refusal("a b"), expected + " in \"a b\", got \"b\"");
  EXPECT_EQ(refusal("a = b"), expected + " in \"a = b\", got \"= b\"");
  EXPECT_EQ(refusal("0 <= a < 8"),
            "expected two comparisons joined by \"and\" in \"0 <= a < 8\", got \"< 8\"");
  EXPECT_EQ(refusal("a andb"), expected + " in \"a andb\", got \"andb\"");
  EXPECT_EQ(refusal("a / -a"), "expected a divisor of 1 or more in \"a / -a\", got -1");
  EXPECT_EQ(refusal("a / b"), "expected a divisor of 1 or more in \"a / b\", got 0");
  EXPECT_NE(refusal("99999999999").find("expected a number up to"), std::string::npos);
  EXPECT_NE(refusal("1000000000 * 1000000000").find("expected up to"), std::string::npos);
  EXPECT_NE(refusal(std::string(1000, '(')).find("expected fewer brackets"), std::string::npos);
  std::string nested = "1";
  for (int i = 0; i < 60; ++i) nested = "(1 < 2 + 3 * " + nested + ")";
  EXPECT_NE(refusal(nested).find("expected fewer brackets"), std::string::npos);
  std::string sums = "1";
  for (int i = 0; i < 1000; ++i) sums += "+1";
  EXPECT_EQ(value_of(sums), 1001);
}

}  // namespace
}  // namespace zplan
