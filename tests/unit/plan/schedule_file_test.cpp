#include "planner/plan/schedule_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_message.h"
#include "tests/support/schedules.h"

namespace zplan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::message_of;
using testing_support::text_of;

// A V of two ranks; the second one has its backward in two parts.
constexpr const char* kFile = R"({"schema": "zplan.schedule/1",
 "stages": 2, "micro_batches": 1,
 "chunks": [[0, 3], [1, 2]],
 "ranks": [["F0.0", "F1.0", "B1.0", "B0.0"],
           ["F0.0", "F1.0", "I1.0", "I0.0", "W1.0", "W0.0"]]})";

std::string refusal(const std::string& from, const std::string& to) {
  std::string text = kFile;
  const auto at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  text.replace(at, from.size(), to);
  return message_of([&] { schedule_from_json(text, "s.json"); });
}

TEST(ScheduleFile, HoldsPassesAndChunks) {
  const PipelineSchedule schedule = schedule_from_json(kFile, "s.json");
  EXPECT_EQ(schedule.micro_batches, 1);
  EXPECT_THAT(schedule.chunks.positions(), ElementsAre(ElementsAre(0, 3), ElementsAre(1, 2)));
  EXPECT_EQ(text_of(schedule.ranks[0].passes), "F0.0 F1.0 B1.0 B0.0");
  EXPECT_EQ(text_of(schedule.ranks[1].passes), "F0.0 F1.0 I1.0 I0.0 W1.0 W0.0");
  EXPECT_THAT(schedule.ranks[0].cuts, ElementsAre(1, 3));
}

TEST(ScheduleFile, SaysWhereAPassIsNone) {
  for (const char* pass :
       {"\"F2.0\"", "\"F0.1\"", "\"G0.0\"", "\"F0\"", "\"F0.\"", "\"F0x0\"", "\"F-0.0\"",
        "\"F0.0 \"", "\"F 0.0\"", "\"\"", "1", "\"F99999999999.0\""})
    EXPECT_THAT(refusal("\"F0.0\"", pass),
                HasSubstr("s.json:4:13: /ranks/0/0: expected F, B, I or W, a chunk up to 1, a dot "
                          "and a micro-batch up to 0, such as \"F0.0\", got "))
        << pass;
}

TEST(ScheduleFile, SaysWhichChunksAreWrong) {
  EXPECT_EQ(refusal("[1, 2]", "[1, 3]"),
            "s.json:3:25: /chunks/1/1: piece 3 is already the chunk of a rank");
  EXPECT_THAT(refusal("[1, 2]", "[1, 4]"),
              HasSubstr("/chunks/1/1: expected an integer from 0 to 3"));
  EXPECT_THAT(refusal("[1, 2]", "[1]"),
              HasSubstr("/chunks/1: expected 2 chunks as of the first rank, got 1"));
  EXPECT_THAT(refusal("[[0, 3], [1, 2]]", "[[0, 1]]"),
              HasSubstr("/chunks: expected chunks of 2 ranks, got 1"));
  EXPECT_THAT(refusal("[[0, 3], [1, 2]]", "[[], []]"), HasSubstr("/chunks/0: expected 1 to"));
}

TEST(ScheduleFile, SaysHowManyPassesAreThere) {
  EXPECT_THAT(refusal("\"B1.0\", \"B0.0\"", "\"B1.0\""),
              HasSubstr("/ranks/0: expected 4 passes or more, forward and backward of 2 chunks and "
                        "1 micro-batches, got 3"));
  EXPECT_THAT(refusal("\"stages\": 2", "\"stages\": 3"),
              HasSubstr("/chunks: expected chunks of 3 ranks, got 2"));
  EXPECT_THAT(refusal("\"ranks\": [", "\"ranks\": [[], "),
              HasSubstr("/ranks: expected passes of 2 ranks, got 3"));
}

TEST(ScheduleFile, NamesTheCircleOfADeadlock) {
  EXPECT_EQ(refusal("\"F0.0\", \"F1.0\", \"I1.0\"", "\"F1.0\", \"F0.0\", \"I1.0\""),
            "s.json:4:11: /ranks: rank 1 waits at forward of micro-batch 0, chunk 1 for the output "
            "of chunk 0 on rank 1");
}

TEST(ScheduleFile, NamesAKeyThatNobodyKnows) {
  EXPECT_THAT(refusal("\"stages\"", "\"stage\""), HasSubstr("stage"));
  EXPECT_THAT(refusal("\"stages\"", "\"name\": \"x\", \"stages\""), HasSubstr("name"));
  EXPECT_THAT(refusal("zplan.schedule/1", "zplan.schedule/2"), HasSubstr("/schema"));
}

}  // namespace
}  // namespace zplan
