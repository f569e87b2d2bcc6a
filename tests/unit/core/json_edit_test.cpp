// Documents that say what differs from others, and JSON as text.
#include "planner/core/json_edit.h"

#include <gtest/gtest.h>

#include "tests/support/error_message.h"

namespace zplan {
namespace {

using testing_support::message_of;

JsonNode base() {
  return parse_json(R"({"a": 1, "in": {"x": {"value": 2, "ref": "r"}, "y": [1, 2]}, "gone": 3})",
                    "base");
}

std::string changed(const std::string& changes) {
  return json_text(written_over(base(), parse_json(changes, "f")));
}

TEST(WrittenOver, ReplacesMembersAndKeepsTheOthers) {
  EXPECT_EQ(changed(R"({"a": "new", "in": {"y": [3]}, "more": true})"),
            "{\n  \"a\": \"new\",\n  \"in\": {\n    \"x\": {\"value\": 2, \"ref\": \"r\"},\n    "
            "\"y\": [3]\n  "
            "},\n  \"gone\": 3,\n  \"more\": true\n}");
}

TEST(WrittenOver, NullRemoves) {
  EXPECT_EQ(changed(R"({"in": null, "gone": null, "never": null})"), "{\n  \"a\": 1\n}");
}

TEST(WrittenOver, WhatStandsForOneNumberIsReplacedWhole) {
  EXPECT_NE(changed(R"({"in": {"x": {"value": 5}}})").find("{\"value\": 5}"), std::string::npos);
  EXPECT_NE(changed(R"({"in": {"x": 5}})").find("\"x\": 5,"), std::string::npos);
}

TEST(WrittenOver, FaultsNameTheFileThatTheyAreIn) {
  const JsonNode both = written_over(base(), parse_json("{\n \"a\": 7}", "f"));
  JsonObject object = both.object();
  EXPECT_EQ(message_of([&] { object.member("a").boolean(); }),
            "f:2:7: /a: expected true or false, got number 7");
  EXPECT_EQ(message_of([&] { object.member("gone").boolean(); }),
            "base:1:70: /gone: expected true or false, got number 3");
  const JsonNode again = written_over(both, parse_json("{}", "g"));
  EXPECT_EQ(message_of([&] { again.object().member("gone").boolean(); }),
            "base:1:70: /gone: expected true or false, got number 3");
}

TEST(JsonText, ReadsBackAsTheSame) {
  const std::string text = R"({"a \"b\" \\ \u0001": [1.50, null, {"d": [{}, []]}], "e": "\u00e9"})";
  const std::string once = json_text(parse_json(text, "f"));
  EXPECT_EQ(json_text(parse_json(once, "f")), once);
  EXPECT_NE(once.find("1.50"), std::string::npos) << "numbers as they were written";
}

// A writer that tried both forms of each part at every level would take years.
TEST(JsonText, OfDeepDocumentsTakesNoLonger) {
  std::string deep(90, '[');
  deep.append("{\"a\": {\"b\": 1}}").append(90, ']');
  EXPECT_GT(json_text(parse_json(deep, "f")).size(), deep.size());
}

}  // namespace
}  // namespace zplan
