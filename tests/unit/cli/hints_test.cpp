#include "planner/cli/frame/hints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "planner/cli/frame/completion.h"
#include "planner/cli/frame/pin_options.h"
#include "planner/cli/frame/subcommands.h"
#include "planner/cli/frame/syntax.h"
#include "planner/core/error.h"
#include "planner/plan/choices.h"

namespace zplan {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<std::string> options_of(Command (*parse)(const std::vector<std::string>&)) {
  const Command table = parse({std::string(kDescribe)});
  std::vector<std::string> names;
  for (const DescribedOption& option : read_description("", std::get<ShowText>(table).text).options)
    names.insert(names.end(), option.names.begin(), option.names.end());
  return names;
}

std::string failure(const std::vector<std::string>& arguments) {
  try {
    parse_arguments(arguments);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// A word may have several rows, of which one at least has a target that exists.
TEST(OptionHints, NameOptionsThatExist) {
  std::set<std::string> known;
  for (const auto parse : {parse_plan, parse_need})
    for (const std::string& name : options_of(parse)) known.insert(name);
  for (const OptionHint& hint : option_hints()) {
    const bool has_target = std::ranges::any_of(option_hints(), [&](const OptionHint& other) {
      return other.typed == hint.typed && known.contains(std::string(other.target));
    });
    EXPECT_TRUE(has_target) << hint.typed;
    EXPECT_FALSE(known.contains(std::string(hint.typed))) << hint.typed;
  }
}

TEST(OptionHints, AreWhatAnUnknownOptionIsAnsweredWith) {
  const std::vector<std::string> known = options_of(parse_plan);
  for (const OptionHint& hint : option_hints()) {
    if (std::ranges::find(known, hint.target) == known.end()) continue;
    const std::string why = failure({"plan", std::string(hint.typed)});
    EXPECT_THAT(why, HasSubstr("; type ")) << hint.typed;
    EXPECT_THAT(why, HasSubstr(std::string(hint.typed)));
    EXPECT_LT(why.size(), 200U) << why;
  }
}

// Each option that an advice names is one.
TEST(OptionHints, AdviseOptionsThatExist) {
  std::set<std::string> known{"--for"};  // where the program has it
  for (const auto parse : {parse_plan, parse_need})
    for (const std::string& name : options_of(parse)) known.insert(name);
  const auto check = [&](std::string_view advice) {
    for (std::size_t at = advice.find("--"); at != advice.npos; at = advice.find("--", at + 2)) {
      const std::size_t end = advice.find_first_not_of("abcdefghijklmnopqrstuvwxyz-", at);
      const std::string name(advice.substr(at, end == advice.npos ? end : end - at));
      EXPECT_TRUE(known.contains(name)) << name << " in " << advice;
    }
  };
  for (const OptionHint& hint : option_hints()) check(hint.advice);
  for (const ValueHint& hint : value_hints()) {
    check(hint.option);
    check(hint.advice);
  }
}

TEST(ValueHints, AreWhatAnUnknownValueIsAnsweredWith) {
  for (const ValueHint& hint : value_hints()) {
    const std::string value = hint.value == "N" ? "13B" : std::string(hint.value);
    EXPECT_THAT(failure({"plan", std::string(hint.option), value}),
                HasSubstr(std::string(hint.advice)));
  }
}

TEST(SubcommandHints, NameSubcommandsThatExist) {
  for (const SubcommandHint& hint : subcommand_hints()) {
    EXPECT_THAT(failure({std::string(hint.target), "--no-such-option"}),
                Not(HasSubstr("unknown subcommand")))
        << hint.typed;
    const std::string why = failure({std::string(hint.typed)});
    EXPECT_THAT(why, HasSubstr("unknown subcommand")) << hint.typed;
    EXPECT_THAT(why, HasSubstr(std::string(hint.advice)));
    EXPECT_LT(why.size(), 200U) << why;
  }
}

TEST(PinsPage, HasEveryDecisionThatHasAnOptionUnderItsSubject) {
  const std::string page = pins_page();
  for (const Decision& row : kChoices) {
    if (row.option.name.empty()) continue;
    EXPECT_FALSE(subject_of(row).empty()) << row.pointer;
    EXPECT_THAT(page, HasSubstr("\n  " + std::string(row.option.name) + " ")) << row.pointer;
  }
}

}  // namespace
}  // namespace zplan
