// JSON reading: values come out right, and every defect is named with file, line, column, pointer.
#include "planner/core/json_reader.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "planner/core/error.h"
#include "tests/support/error_message.h"

namespace zplan {
namespace {

using testing_support::message_of;

JsonNode parse(std::string text) { return parse_json(std::move(text), "f"); }

std::string parse_error(std::string text) {
  return message_of([&] { parse(std::move(text)); });
}

// ---- syntax -----------------------------------------------------------------------------------

struct SyntaxCase {
  std::string text, message;
};

class JsonSyntax : public testing::TestWithParam<SyntaxCase> {};

TEST_P(JsonSyntax, ErrorHasPositionAndReason) {
  EXPECT_EQ(parse_error(GetParam().text), GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, JsonSyntax,
    testing::Values(
        SyntaxCase{"", "f:1:1: /: expected a value, got end of file"},
        SyntaxCase{"  \n ", "f:2:2: /: expected a value, got end of file"},
        SyntaxCase{"{", "f:1:2: /: expected a key in double quotes, got end of file"},
        SyntaxCase{"{\"a\" 1}", "f:1:6: /a: expected ':', got '1'"},
        SyntaxCase{"{\"a\": 1,}", "f:1:9: /: expected a key in double quotes, got '}'"},
        SyntaxCase{"{\"a\": 1 \"b\": 2}", "f:1:9: /: expected ',' or '}', got '\"'"},
        SyntaxCase{"{a: 1}", "f:1:2: /: expected a key in double quotes, got 'a'"},
        SyntaxCase{"{\n  \"a\": [1, 2,\n]}", "f:3:1: /a/2: expected a value, got ']'"},
        SyntaxCase{"[1 2]", "f:1:4: /: expected ',' or ']', got '2'"},
        SyntaxCase{"[1]]", "f:1:4: /: expected end of file, got ']'"},
        SyntaxCase{"[1", "f:1:3: /: expected ',' or ']', got end of file"},
        SyntaxCase{"{\"a\":\n  NaN}", "f:2:3: /a: expected a value, got \"NaN\""},
        SyntaxCase{"[-Infinity]", "f:1:2: /0: expected a JSON number, got \"-Infinity\""},
        SyntaxCase{"[01]", "f:1:2: /0: expected a JSON number, got \"01\""},
        SyntaxCase{"[1.]", "f:1:2: /0: expected a JSON number, got \"1.\""},
        SyntaxCase{"[+1]", "f:1:2: /0: expected a JSON number, got \"+1\""},
        SyntaxCase{"[.5]", "f:1:2: /0: expected a value, got \".5\""},
        SyntaxCase{"[1e]", "f:1:2: /0: expected a JSON number, got \"1e\""},
        SyntaxCase{"[0x10]", "f:1:2: /0: expected a JSON number, got \"0x10\""},
        SyntaxCase{"[1e999]", "f:1:2: /0: expected a number below 1.8e308, got \"1e999\""},
        SyntaxCase{"[True]", "f:1:2: /0: expected a value, got \"True\""},
        SyntaxCase{"['a']", "f:1:2: /0: expected a value, got '''"},
        SyntaxCase{"// no", "f:1:1: /: expected a value, got '/'"},
        SyntaxCase{"[\"a]", "f:1:2: /0: expected a closing '\"', got end of file"},
        SyntaxCase{"[\"a\n\"]", "f:1:2: /0: expected a closing '\"', got end of line"},
        SyntaxCase{"[\"\t\"]",
                   "f:1:3: /0: expected no control character in a string, got byte 0x09"},
        SyntaxCase{"[\"\\x\"]",
                   "f:1:4: /0: expected one of \" \\ / b f n r t u after '\\', got 'x'"},
        SyntaxCase{"[\"\\u12g4\"]", "f:1:7: /0: expected four hexadecimal digits, got 'g'"},
        SyntaxCase{"[\"\\ud800\"]", "f:1:3: /0: expected a surrogate pair, got half of one"},
        SyntaxCase{"[\"\\udc00\"]", "f:1:3: /0: expected a surrogate pair, got half of one"},
        SyntaxCase{"[\"\\ud800\\u0041\"]", "f:1:3: /0: expected a surrogate pair, got half of one"},
        SyntaxCase{"[\"\\ud800\\ue000\"]", "f:1:3: /0: expected a surrogate pair, got half of one"},
        SyntaxCase{"[\"\xff\"]", "f:1:3: /: expected UTF-8 text, got byte 0xff"},
        SyntaxCase{"[\"\xc0\xaf\"]", "f:1:3: /: expected UTF-8 text, got byte 0xc0"},
        SyntaxCase{"[\"\xed\xa0\x80\"]", "f:1:3: /: expected UTF-8 text, got byte 0xed"},
        SyntaxCase{"[\"\xe2\x82\"]", "f:1:3: /: expected UTF-8 text, got byte 0xe2"},
        SyntaxCase{"\xef\xbb\xbf{}", "f:1:1: /: expected a value, got a byte order mark"},
        SyntaxCase{"[\"\xc3\xa9\xc3\xa9\", x]", "f:1:8: /1: expected a value, got \"x\""},
        SyntaxCase{"{\"a\": 1,\n \"a\": 2}",
                   "f:2:2: /a: expected each key once, got \"a\" again (first on line 1)"},
        SyntaxCase{"{\"a/b~c\": }", "f:1:11: /a~1b~0c: expected a value, got '}'"}));

TEST(JsonReader, AcceptsNestingUpToTheLimit) {
  const std::string open(kMaxJsonDepth, '['), close(kMaxJsonDepth, ']');
  EXPECT_TRUE(parse(open + close).is_array());
}

TEST(JsonReader, RejectsDeeperNesting) {
  const std::string message = parse_error(std::string(100'000, '['));
  EXPECT_NE(message.find("f:1:101: /0/0/"), std::string::npos) << message;
  EXPECT_NE(message.find("expected at most 100 nested levels, got more"), std::string::npos);
}

// ---- values -----------------------------------------------------------------------------------

TEST(JsonReader, ReadsEveryKindOfValue) {
  JsonObject object = parse(R"({"s": "x\n\u00e9\ud83d\ude00\/", "i": -42, "d": 2.5e3, "t": true,
                                "n": null, "a": [1, 2], "o": {"k": 1}, "m": {"p": 1, "q": 2}})")
                          .object();
  EXPECT_EQ(object.member("s").string(), "x\n\xc3\xa9\xf0\x9f\x98\x80/");
  EXPECT_EQ(object.member("i").integer(-42, -42), -42);
  EXPECT_EQ(object.member("d").number(0, 1e4), 2500.0);
  EXPECT_TRUE(object.member("t").boolean());
  EXPECT_TRUE(object.member("n").is_null());
  EXPECT_EQ(object.member("a").items().at(1).integer(0, 9), 2);
  EXPECT_EQ(object.member("o").object().member("k").integer(0, 9), 1);
  EXPECT_EQ(object.member("m").members().at(1).first, "q");
  EXPECT_FALSE(object.optional_member("absent"));
  EXPECT_NO_THROW(object.finish());
}

TEST(JsonReader, NodesKeepTheDocumentAlive) {
  const JsonNode node = parse("{\"a\": [\"kept\"]}").object().member("a").items().front();
  EXPECT_EQ(node.string(), "kept");
  EXPECT_EQ(node.pointer(), "/a/0");
  EXPECT_EQ(node.location(), "f:1:8");
}

TEST(JsonReader, ReadsTheFullIntegerRange) {
  const auto items = parse("[9223372036854775807, -9223372036854775808, -0]").items();
  EXPECT_EQ(items[0].integer(INT64_MIN, INT64_MAX), INT64_MAX);
  EXPECT_EQ(items[1].integer(INT64_MIN, INT64_MAX), INT64_MIN);
  EXPECT_EQ(items[2].integer(0, 0), 0);
}

TEST(JsonReader, TinyNumbersReadAsZero) { EXPECT_EQ(parse("1e-999").number(0, 1), 0.0); }

struct ValueCase {
  std::string text;
  std::function<void(const JsonNode&)> read;
  std::string message;
};

class JsonValueError : public testing::TestWithParam<ValueCase> {};

TEST_P(JsonValueError, NamesExpectationAndValue) {
  const JsonNode node = parse("{\n\"k\": " + GetParam().text + "}").object().member("k");
  EXPECT_EQ(message_of([&] { GetParam().read(node); }), "f:2:6: /k: " + GetParam().message);
}

INSTANTIATE_TEST_SUITE_P(
    All, JsonValueError,
    testing::Values(
        ValueCase{"1", [](auto& n) { n.string(); }, "expected a string, got number 1"},
        ValueCase{"\"\"", [](auto& n) { n.non_empty_string(); },
                  "expected a non-empty string, got string \"\""},
        ValueCase{"{}", [](auto& n) { n.string(); }, "expected a string, got an object"},
        ValueCase{"[]", [](auto& n) { n.boolean(); }, "expected true or false, got an array"},
        ValueCase{"null", [](auto& n) { n.items(); }, "expected an array, got null"},
        ValueCase{"true", [](auto& n) { n.object(); }, "expected an object, got true"},
        ValueCase{"false", [](auto& n) { n.members(); }, "expected an object, got false"},
        ValueCase{"5", [](auto& n) { n.integer(0, 4); },
                  "expected an integer from 0 to 4, got number 5"},
        ValueCase{"-1", [](auto& n) { n.integer(0, 4); },
                  "expected an integer from 0 to 4, got number -1"},
        ValueCase{"1.0", [](auto& n) { n.integer(0, 4); },
                  "expected an integer from 0 to 4, got number 1.0"},
        ValueCase{"99999999999999999999", [](auto& n) { n.integer(0, 4); },
                  "expected an integer from 0 to 4, got number 99999999999999999999"},
        ValueCase{"\"3\"", [](auto& n) { n.integer(0, 4); },
                  "expected an integer from 0 to 4, got string \"3\""},
        ValueCase{"1.5", [](auto& n) { n.number(0, 1); },
                  "expected a number from 0 to 1, got number 1.5"},
        ValueCase{"\"a\\nb\"", [](auto& n) { n.number(0, 1); },
                  "expected a number from 0 to 1, got string \"a\\nb\""},
        ValueCase{"80", [](auto& n) { n.bytes(); },
                  "expected a size with a unit such as \"80 GiB\", got number 80"},
        ValueCase{"\"80\"", [](auto& n) { n.bytes(); },
                  "expected a size with a unit such as \"80 GiB\", got string \"80\""},
        ValueCase{"\"80 GiB\"", [](auto& n) { n.bytes_per_second(); },
                  "expected a rate with a unit such as \"12.5 GB/s\" or \"100 Gbit/s\", got string "
                  "\"80 GiB\""},
        ValueCase{"\"0 GB/s\"", [](auto& n) { n.bytes_per_second(); },
                  "expected a rate above zero, got string \"0 GB/s\""},
        ValueCase{"125", [](auto& n) { n.flops_per_second(); },
                  "expected a compute rate with a unit such as \"125 TFLOP/s\", got number 125"},
        ValueCase{"6", [](auto& n) { n.seconds(); },
                  "expected a time with a unit such as \"6 us\", got number 6"},
        ValueCase{
            "\"fast\"",
            [](auto& n) {
              n.one_of({"fsat", "slow"});
            },
            "expected one of \"fsat\", \"slow\", got string \"fast\"; did you mean \"fsat\"?"},
        ValueCase{"7", [](auto& n) { n.one_of({"a"}); }, "expected one of \"a\", got number 7"},
        ValueCase{"[]", [](auto& n) { read_sourced(n); },
                  "expected a value, or an object with \"value\", \"source\" and \"ref\", got an "
                  "array"},
        ValueCase{"{\"value\": 1, \"ref\": \"r\"}", [](auto& n) { read_sourced(n); },
                  "expected key \"source\", got an object without it"}));

TEST(JsonReader, LongValuesAreCutInMessages) {
  std::string text = "\"";
  text.append(1000, 'y').append("\"");
  const JsonNode node = parse(text);
  std::string message = "f:1:1: /: expected true or false, got string \"";
  message.append(40, 'y').append("...\"");
  EXPECT_EQ(message_of([&] { node.boolean(); }), message);
}

TEST(JsonReader, QuantitiesComeWithUnits) {
  const auto items = parse(R"(["1.5 KiB", "100 Gbit/s", "125 TFLOP/s", "6 us", "0 B"])").items();
  EXPECT_EQ(items[0].bytes(), Bytes{1536});
  EXPECT_EQ(items[1].bytes_per_second(), BytesPerSecond{12.5e9});
  EXPECT_EQ(items[2].flops_per_second(), FlopsPerSecond{125e12});
  EXPECT_EQ(items[3].seconds(), Seconds{6e-6});
  EXPECT_EQ(items[4].bytes(), Bytes{0});
}

// ---- objects ----------------------------------------------------------------------------------

TEST(JsonObject, UnknownKeyNamesTheNearest) {
  JsonObject object = parse("{\"layers\": 1,\n  \"hiden\": 2}").object();
  object.member("layers");
  object.optional_member("hidden");
  EXPECT_EQ(message_of([&] { object.finish(); }),
            "f:2:3: /hiden: expected key \"hidden\", got unknown key \"hiden\"");
}

TEST(JsonObject, UnknownKeyWithoutNeighbourListsTheKnown) {
  JsonObject object = parse("{\"a\": {\"zzz\": 2}}").object().member("a").object();
  object.optional_member("layers");
  object.optional_member("hidden");
  EXPECT_EQ(
      message_of([&] { object.finish(); }),
      "f:1:8: /a/zzz: expected one of the keys \"layers\", \"hidden\", got unknown key \"zzz\"");
}

TEST(JsonObject, MissingKeyIsNamed) {
  JsonObject object = parse("\n {\"b\": 1}").object();
  EXPECT_EQ(message_of([&] { object.member("layers"); }),
            "f:2:2: /: expected key \"layers\", got an object without it");
}

TEST(JsonObject, MissingKeyShowsAMisspeltOne) {
  JsonObject object = parse("{\"laeyrs\": 1}").object();
  EXPECT_EQ(message_of([&] { object.member("layers"); }),
            "f:1:1: /: expected key \"layers\", got \"laeyrs\" instead");
}

TEST(JsonObject, SchemaTagMustMatch) {
  JsonObject object = parse("{\"schema\": \"zplan.plan/1\"}").object();
  EXPECT_NO_THROW(object.schema("zplan.plan/1"));
  EXPECT_EQ(message_of([&] { object.schema("zplan.model/1"); }),
            "f:1:12: /schema: expected \"zplan.model/1\", got string \"zplan.plan/1\"");
}

TEST(JsonObject, SourcedValueKeepsItsSource) {
  const SourcedNode sourced =
      read_sourced(parse(R"({"value": "1 us", "source": "measured", "ref": "[Ren21 Table 4]"})"));
  EXPECT_EQ(sourced.value.seconds(), Seconds{1e-6});
  EXPECT_EQ(sourced.source, "measured");
  EXPECT_EQ(sourced.ref, "[Ren21 Table 4]");
}

TEST(JsonObject, ABareValueIsItsOwnSource) {
  const SourcedNode sourced = read_sourced(parse("\"40 GiB\""));
  EXPECT_EQ(sourced.value.bytes(), Bytes{40LL << 30});
  EXPECT_EQ(sourced.source, "stated");
  EXPECT_EQ(sourced.ref, "stated in the file");
}

// ---- faults at once ---------------------------------------------------------------------------

// Reads {"a", "b", "in": {"layers", "hidden"}}, all of them integers and needed.
std::string faults_of(const std::string& text) {
  return message_of([&] {
    JsonObject object = gathering_faults(parse(text)).object();
    object.member("a").integer(3, 9);
    JsonObject in = object.member("in").object();
    in.member("layers").integer(1, 9);
    in.member("hidden").integer(1, 9);
    in.finish();
    object.member("b").integer(1, 9);
    object.finish();
  });
}

TEST(GatheredFaults, AreNoneOfADocumentWithoutAny) {
  EXPECT_EQ(faults_of(R"({"a": 3, "b": 2, "in": {"layers": 1, "hidden": 1}})"), "no error");
}

TEST(GatheredFaults, AreToldTogetherObjectByObject) {
  EXPECT_EQ(faults_of("{\n\"in\": {}}"),
            "f:1:1: /: expected keys \"a\", \"b\", got an object without them; "
            "f:2:7: /in: expected keys \"layers\", \"hidden\", got an object without them");
}

TEST(GatheredFaults, OfAWholeObjectThatIsMissingAreThatObject) {
  EXPECT_EQ(faults_of(R"({"a": 3, "b": 2})"),
            "f:1:1: /: expected key \"in\", got an object without it");
}

TEST(GatheredFaults, JoinAMissingKeyWithWhatItWasMisspeltAs) {
  EXPECT_EQ(faults_of(R"({"a": 3, "in": {"layer": 1, "hidden": 1, "hiden": 1}, "zzz": 1})"),
            "f:1:1: /: expected key \"b\", got an object without it; "
            "f:1:55: /zzz: expected one of the keys \"a\", \"in\", \"b\", got unknown key \"zzz\"; "
            "f:1:16: /in: expected key \"layers\", got \"layer\" instead; "
            "f:1:42: /in/hiden: expected key \"hidden\", got unknown key \"hiden\"");
}

TEST(GatheredFaults, ComeBeforeAnyOtherFault) {
  EXPECT_EQ(faults_of(R"({"in": {"layers": "one"}})"),
            "f:1:1: /: expected key \"a\", got an object without it");
  EXPECT_EQ(faults_of(R"({"a": 1})"), "f:1:7: /a: expected an integer from 3 to 9, got number 1");
}

// ---- files ------------------------------------------------------------------------------------

TEST(JsonFile, MessagesCarryThePath) {
  const std::string path = testing::TempDir() + "/json_reader_test.json";
  std::ofstream(path) << "{\"a\": }";
  EXPECT_EQ(message_of([&] { read_json_file(path); }),
            path + ":1:7: /a: expected a value, got '}'");
  std::filesystem::remove(path);
}

TEST(JsonFile, AnUnreadableFileSaysWhy) {
  EXPECT_EQ(message_of([] { read_json_file("/nonexistent/x.json"); }),
            "/nonexistent/x.json: cannot read the file: No such file or directory");
  EXPECT_EQ(message_of([] { read_json_file("/"); }), "/: expected a file, got a directory");
}

TEST(JsonFile, OddPathsAreErrorsLikeOthers) {
  EXPECT_EQ(message_of([] { read_json_file("/no\nsuch"); }),
            "/no\\nsuch: cannot read the file: No such file or directory");
  EXPECT_EQ(message_of([] { read_json_file("/" + std::string(5000, 'x')); }).substr(5001),
            ": cannot read the file: File name too long");
}

TEST(JsonFile, AnEmptyFileIsASyntaxError) {
  const std::string path = testing::TempDir() + "/json_reader_empty.json";
  std::ofstream(path).close();
  EXPECT_EQ(message_of([&] { read_json_file(path); }),
            path + ":1:1: /: expected a value, got end of file");
  std::filesystem::remove(path);
}

TEST(JsonReader, TakesWhatPythonWritesForNoNumberUntilANumberIsRead) {
  JsonObject object =
      parse_python_json("{\"a\": [0.0, Infinity], \"b\": -Infinity, \"c\": NaN, \"d\": 1}", "f")
          .object();
  EXPECT_EQ(object.member("d").integer(0, 2), 1);
  EXPECT_TRUE(object.member("b").is_number());
  for (const char* key : {"b", "c"}) {
    EXPECT_THROW(object.member(key).number(-1e308, 1e308), Error) << key;
    EXPECT_THROW(object.member(key).integer(0, 1), Error) << key;
  }
  EXPECT_THROW(parse_python_json("[infinity]", "f"), Error);
  EXPECT_THROW(parse_json("[Infinity]", "f"), Error);
}

}  // namespace
}  // namespace zplan
