#include "planner/cli/frame/sheet.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "planner/cli/frame/table.h"

namespace zplan {
namespace {

constexpr Bytes kGib{std::int64_t{1} << 30};

TEST(Value, IsAPlainNumberInJsonAndHasItsUnitInWords) {
  EXPECT_EQ(Value(kGib).json, "1073741824");
  EXPECT_EQ(Value(kGib).words, "1.00 GiB");
  EXPECT_EQ(Value(Seconds{0.5}).json, "0.5");
  EXPECT_EQ(Value(Seconds{0.5}).words, "500 ms");
  EXPECT_EQ(Value(25600).words, "25,600");
  EXPECT_EQ(share(0.345).words, "34.5 %");
  EXPECT_EQ(counted(2, "step").words, "2 steps");
  EXPECT_EQ(number("{:.1e}", 0.25).words, "2.5e-01");
  EXPECT_EQ(Value(std::vector<std::string>{"a", "b"}).json, R"(["a","b"])");
  EXPECT_EQ(Value(std::vector<std::string>{"a", "b"}).words, "a, b");
}

TEST(Value, IsNullWhereNothingIsKnown) {
  EXPECT_EQ(Value(std::optional<double>()).json, "null");
  EXPECT_EQ(Value(std::optional<double>()).words, "");
  EXPECT_EQ(Value(std::optional<double>(2)).json, "2.0");
}

TEST(Sheet, SaysOfItsFactsWhatJsonHas) {
  Sheet sheet("zplan.test/1");
  sheet.facts({{"ranks", counted(4, "rank")}, {"size", kGib}});
  sheet.say("{ranks} of {size}{}", {", {ranks} typed"});
  sheet.entry("Size", "{size}");
  EXPECT_EQ(sheet.text(), "4 ranks of 1.00 GiB, {ranks} typed\nSize        1.00 GiB\n");
  EXPECT_EQ(sheet.json(), R"({"schema":"zplan.test/1","ranks":4,"size":1073741824})");
}

TEST(Sheet, KeepsThePlaceOfAFactThatIsSaidLate) {
  Sheet sheet{{"a", 1}, {"late", nullptr}, {"never", nullptr}};
  sheet.facts({{"b", left_out()}, {"c", only_words("words")}, {"d", 3}});
  sheet.fact("late", 2);
  EXPECT_EQ(sheet.json(), R"({"a":1,"late":2,"never":null,"d":3})");
}

TEST(Sheet, IsAFactOfAnotherWithItsText) {
  Sheet part{{"steps", 5}};
  part.say("{steps} steps");
  Sheet whole{{"part", part}};
  whole.heading("Parts");
  whole.show({"part"});
  EXPECT_EQ(whole.text(), "\nParts\n5 steps\n");
  EXPECT_EQ(whole.json(), R"({"part":{"steps":5}})");
}

TEST(Sheet, WrapsParagraphsUnderTheirIndent) {
  const std::string first(60, 'a'), second(60, 'b');
  Sheet sheet{{"long", fmt::format("{} {}", first, second)}};
  sheet.say("{long}", 2);
  EXPECT_EQ(sheet.text(), fmt::format("  {}\n    {}\n", first, second));
}

TEST(Sheet, OfEachThingMakesAnArray) {
  const Value all = each(std::vector{1, 2}, [](int n) {
    Sheet sheet{{"n", n}};
    sheet.say("number {n}");
    return sheet;
  });
  EXPECT_EQ(all.json, R"([{"n":1},{"n":2}])");
  EXPECT_EQ(all.words, "number 1\nnumber 2\n");
}

TEST(Table, ShowsColumnsAndKeepsEveryFact) {
  Table table({"lane", "busy_s: busy", "none:"});
  table.row({{"lane", "compute"}, {"latency_s", Seconds{1}}, {"busy_s", Seconds{0.25}}});
  table.row({{"lane", "hidden"}, {"busy_s", Seconds{1}}}, false);
  table.below("  under it\n");
  table.words_row({"all", right("-"), "x"});
  EXPECT_EQ(table.text(), "lane       busy\ncompute  250 ms\n  under it\nall           -  x\n");
  EXPECT_EQ(table.json().json,
            R"([{"lane":"compute","latency_s":1.0,"busy_s":0.25},{"lane":"hidden","busy_s":1.0}])");
}

TEST(Table, CountsLettersNotTheirBytes) {
  Table table({"µ", "x"});
  table.words_row({"us", "a"});
  EXPECT_EQ(table.text(), "µ   x\nus  a\n");
}

TEST(Wrap, FillsALineToItsLastLetterAndNotBeyond) {
  EXPECT_EQ(wrap("ab cd", 5, 0, 0), "ab cd");
  EXPECT_EQ(wrap("ab cd", 4, 0, 0), "ab\ncd");
}

TEST(Table, HasNoHeadingWithoutTitlesAndNothingWithoutRows) {
  Table table({"", ""});
  EXPECT_EQ(table.text(), "");
  table.words_row({"a", 1});
  EXPECT_EQ(table.text(2), "  a  1\n");
  EXPECT_EQ(Table({"title"}).text(), "");
}

}  // namespace
}  // namespace zplan
