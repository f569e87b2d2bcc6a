#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "planner/core/error.h"
#include "planner/foreign/syntax/toml.h"
#include "planner/foreign/syntax/yaml.h"

namespace zplan {
namespace {

JsonNode at(const JsonNode& root, std::initializer_list<std::string_view> path) {
  JsonNode node = root;
  for (const std::string_view key : path) node = JsonObject(node).member(key);
  return node;
}

std::string error_of(const auto& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Yaml, ScalarsAreWhatPyYamlTakesThemFor) {
  const JsonNode root = parse_yaml(
      "on: yes\nsize: 1_000\nhalf: .5\nwhole: 5.\nrate: 1e-4\nword: bf16\nnone: ~\n"
      "empty:\nquoted: '8'\noctal: 010\n",
      "a.yaml");
  EXPECT_TRUE(at(root, {"on"}).boolean());
  EXPECT_EQ(at(root, {"size"}).integer(0, 10'000), 1000);
  EXPECT_EQ(at(root, {"half"}).number(0, 1), 0.5);
  EXPECT_EQ(at(root, {"whole"}).number(0, 10), 5.0);
  EXPECT_EQ(at(root, {"rate"}).number(0, 1), 1e-4);
  EXPECT_EQ(at(root, {"word"}).string(), "bf16");
  EXPECT_TRUE(at(root, {"none"}).is_null());
  EXPECT_TRUE(at(root, {"empty"}).is_null());
  EXPECT_EQ(at(root, {"quoted"}).string(), "8");
  EXPECT_TRUE(at(root, {"octal"}).is_string());
}

TEST(Yaml, NamesPlacesInTheText) {
  const JsonNode root = parse_yaml("fsdp_config:\n  fsdp_version: two\n", "a.yaml");
  EXPECT_EQ(error_of([&] {
              at(root, {"fsdp_config", "fsdp_version"}).integer(1, 2);
            }),
            "a.yaml:2:17: /fsdp_config/fsdp_version: expected an integer from 1 to 2, got string "
            "\"two\"");
}

TEST(Yaml, MergesWhatIsNotSaidInPlace) {
  const JsonNode root = parse_yaml("a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  y: 3\n", "a.yaml");
  EXPECT_EQ(at(root, {"b", "x"}).integer(0, 9), 1);
  EXPECT_EQ(at(root, {"b", "y"}).integer(0, 9), 3);
}

TEST(Yaml, RefusesWhatIsNoConfiguration) {
  EXPECT_EQ(error_of([] { parse_yaml("a: 1\na: 2\n", "a.yaml"); }),
            "a.yaml:2:1: /: expected each key once, got \"a\" again");
  EXPECT_EQ(error_of([] { parse_yaml("a: 1\n---\nb: 2\n", "a.yaml"); }),
            "a.yaml:2:1: /: expected one document, got another");
  EXPECT_EQ(error_of([] { parse_yaml("{\"a\": 1},\n", "a.yaml"); }),
            "a.yaml:1:9: /: expected one document, got another");
  EXPECT_TRUE(error_of([] { parse_yaml("a: [1\n", "a.yaml"); }).starts_with("a.yaml:"));
}

TEST(Yaml, AliasesThatMultiplyEndInALine) {
  std::string text = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) text += (j > 0 ? ", " : "") + last;
    text += "]\n";
  }
  EXPECT_NE(error_of([&] { parse_yaml(text, "bomb.yaml"); }).find("at most 100000 values"),
            std::string::npos);
}

TEST(Yaml, DeepNestingEndsInALine) {
  const std::string text = std::string(5000, '[') + std::string(5000, ']');
  EXPECT_TRUE(error_of([&] { parse_yaml(text, "deep.yaml"); }).starts_with("deep.yaml:"));
}

TEST(Toml, TablesAreObjectsInFileOrder) {
  const JsonNode root =
      parse_toml("[training]\nlocal_batch_size = 8\n[model]\nname = \"llama3\"\n", "t.toml");
  EXPECT_EQ(root.members().front().first, "training");
  EXPECT_EQ(at(root, {"training", "local_batch_size"}).integer(1, 99), 8);
  EXPECT_EQ(at(root, {"model", "name"}).string(), "llama3");
}

TEST(Toml, NamesPlaces) {
  const JsonNode root = parse_toml("[training]\nlocal_batch_size = \"8\"\n", "t.toml");
  EXPECT_TRUE(error_of([&] {
                at(root, {"training", "local_batch_size"}).integer(1, 99);
              }).starts_with("t.toml:2:20: /training/local_batch_size: "));
  EXPECT_TRUE(error_of([] { parse_toml("a = \n", "t.toml"); }).starts_with("t.toml:1:"));
}

TEST(Toml, LettersOutsideAsciiAreNoWhiteSpace) {
  const JsonNode root = parse_toml("name = \"\"\"\\\n  \u00a7 1\"\"\"\n\"\u0451\" = 2\n", "t.toml");
  EXPECT_EQ(at(root, {"name"}).string(), "\u00a7 1");
  EXPECT_EQ(at(root, {"\u0451"}).integer(1, 9), 2);
  EXPECT_TRUE(error_of([] { parse_toml("z\u0451~", "t.toml"); }).starts_with("t.toml:1:2: "));
}

TEST(Toml, LettersOutsideAsciiStandInStringsAndCommentsAlone) {
  const auto refuses = [](const std::string& text, const std::string& place) {
    EXPECT_THAT(error_of([&] { parse_toml(text, "t.toml"); }),
                ::testing::AllOf(::testing::StartsWith("t.toml:" + place + ": "),
                                 ::testing::HasSubstr("a key with one stands in quotes")))
        << text;
  };
  refuses("z\u05d8~", "1:2");
  refuses("a = 1\n\u05d8 = 2\n", "2:1");
  refuses("a = 'x' \u05d8", "1:9");
  refuses("a = \"\\\"\" \u05d8", "1:10");     // the quote within is escaped
  refuses("a = '\\' \u05d8", "1:9");          // of a literal string it is not
  refuses("a = \"open\nb\u05d8 = 1", "2:2");  // a string ends with its line
  const JsonNode root = parse_toml(
      "\ufeffa = \"\u05d8#\" # \u05d8\nb = '\u05d8'\nc = \"\"\"\u05d8\n\"\u05d8\"\"\"\n'\u05d8' = "
      "4\n",
      "t.toml");
  EXPECT_EQ(at(root, {"a"}).string(), "\u05d8#");
  EXPECT_EQ(at(root, {"c"}).string(), "\u05d8\n\"\u05d8");
  EXPECT_EQ(at(root, {"\u05d8"}).integer(1, 9), 4);
}

}  // namespace
}  // namespace zplan
