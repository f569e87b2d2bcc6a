#include "planner/validate/run_form.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/lower/lower.h"
#include "planner/place/place.h"
#include "planner/program/text/fingerprint.h"
#include "planner/validate/record_plan.h"
#include "planner/validate/run_convert.h"
#include "tests/support/source_dir.h"
#include "tests/unit/validate/sample_run.h"

namespace zplan {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

// The template as a file, with a text in it replaced.
std::string edited(const std::string& from = "", const std::string& to = "") {
  const std::string text = run_template();
  return from.empty() ? text : changed(text, from, to);
}

std::string complaint(const std::string& text) {
  const RunFile file = parse_runs(text, "runs.jsonl");
  EXPECT_TRUE(file.runs.empty());
  return file.malformed.empty() ? "" : file.malformed.front();
}

TEST(RunForm, TheTemplateIsARecordThatIsPlanned) {
  const RunFile file = parse_runs(edited(), "runs.jsonl");
  ASSERT_THAT(file.malformed, IsEmpty());
  ASSERT_EQ(file.runs.size(), 1);
  const PlannedRun planned = plan_run(file.runs.front(), RunCatalogues());
  EXPECT_EQ(planned.unsupported, "");
  EXPECT_EQ(planned.stack, "megatron_core");
  EXPECT_TRUE(planned.stack_stated);
}

TEST(RunForm, SeveralRecordsOfSeveralLinesAreInAFile) {
  const std::string other = changed(edited(), "\"id\": \"mine/", "\"id\": \"yours/");
  const RunFile file = parse_runs(edited() + "\n" + other + kSampleRun + "\n", "runs.jsonl");
  EXPECT_THAT(file.malformed, IsEmpty());
  EXPECT_EQ(file.runs.size(), 3);
}

TEST(RunForm, ABrokenRecordLeavesTheNextOneAlone) {
  const std::string broken = edited().substr(0, 300);
  const RunFile file = parse_runs(broken + "\n" + kSampleRun + "\n" + edited(), "runs.jsonl");
  EXPECT_EQ(file.malformed.size(), 1);
  EXPECT_EQ(file.runs.size(), 2);
}

TEST(RunForm, UnknownKeysNameTheNearest) {
  EXPECT_THAT(complaint(edited("\"tp\": 2", "\"tpp\": 2, \"tp\": 2")),
              AllOf(HasSubstr("\"tpp\""), HasSubstr("key \"tp\"")));
  EXPECT_THAT(
      complaint(edited("\"micro_batch\"", "\"experts\": {\"dispacher\": 1}, \"micro_batch\"")),
      AllOf(HasSubstr("\"dispacher\""), HasSubstr("dispatcher")));
}

TEST(RunForm, TypesRangesAndWordsAreChecked) {
  EXPECT_THAT(complaint(edited("\"tp\": 2", "\"tp\": \"2\"")),
              AllOf(HasSubstr("/parallel/tp: expected"), HasSubstr("\"2\"")));
  EXPECT_THAT(complaint(edited("\"tp\": 2", "\"tp\": 0")), HasSubstr("/parallel/tp"));
  EXPECT_THAT(complaint(edited("\"tp\": 2", "\"tp\": 2.5")), HasSubstr("/parallel/tp"));
  EXPECT_THAT(complaint(edited("\"mode\": \"full\"", "\"mode\": \"some\"")),
              AllOf(HasSubstr("/recompute/mode"), HasSubstr("\"selective\"")));
  EXPECT_THAT(complaint(edited("\"dp\": 4,", "")), HasSubstr("\"dp\""));
  EXPECT_THAT(
      complaint(edited("\"micro_batch\"", "\"pipeline\": {\"flushes\": \"4\"}, \"micro_batch\"")),
      HasSubstr("/pipeline/flushes: expected"));
  EXPECT_THAT(complaint("{\"schema\": \"zplan.runs/3\"}"), HasSubstr("zplan.runs/2"));
  EXPECT_THAT(complaint("[]"), StartsWith("runs.jsonl:1:"));
}

TEST(RunForm, TheLineIsThatOfTheKey) {
  const std::string text = edited("\"tp\": 2", "\"tp\": \"2\"");
  const std::size_t at = text.find("\"tp\": \"2\"");
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<long>(at), '\n');
  EXPECT_THAT(complaint(text), StartsWith("runs.jsonl:" + std::to_string(line) + ":"));
}

TEST(RunForm, ContradictionsAreSaidAtTheKeyThatHasThem) {
  const auto added = [](const std::string& members) {
    return complaint(edited("\"micro_batch\"", members + ", \"micro_batch\""));
  };
  EXPECT_THAT(complaint(edited("\"dp\": 4", "\"dp\": 3")), HasSubstr("/parallel/dp: expected"));
  EXPECT_THAT(complaint(edited("\"gpus\": 8", "\"gpus\": 9")), HasSubstr("/hardware/gpus"));
  EXPECT_THAT(added("\"experts\": {\"tp\": 1}"), HasSubstr("/model/experts/count"));
  EXPECT_THAT(added("\"trained\": {\"lora\": {\"rank\": 8}}"), HasSubstr("/trained/what"));
  EXPECT_THAT(added("\"trained\": {\"what\": \"lora\"}"), HasSubstr("/trained/lora/rank"));
  EXPECT_THAT(added("\"pipeline\": {\"stage_layers\": [31]}"), HasSubstr("32 layers together"));
  EXPECT_THAT(added("\"sequences\": {\"packed\": false, \"document_tokens\": 512}"),
              HasSubstr("/sequences/packed"));
  EXPECT_THAT(complaint(edited("\"memory_gib\": 61.2", "\"memory_gib\": 61.2, \"memory_gb\": 65")),
              HasSubstr("one of memory_gb and memory_gib"));
}

TEST(RunForm, MemoryInGbIsThatInGib) {
  const RunFile file =
      parse_runs(edited("\"memory_gib\": 61.2", "\"memory_gb\": 10.737418240"), "runs.jsonl");
  ASSERT_EQ(file.runs.size(), 1);
  EXPECT_DOUBLE_EQ(*file.runs.front().measured.memory_gib, 10);
}

TEST(RunForm, WhatIsWrittenReadsTheSame) {
  const RunRecord run = parse_runs(edited(), "t").runs.at(0);
  const std::string text = write_run(run);
  EXPECT_EQ(write_run(parse_runs(text, "t").runs.at(0)), text);
}

// The fingerprint of the placed Job and what the plan says; the reason where there is none.
std::string outcome(const RunRecord& run, const RunCatalogues& catalogues, bool places) {
  const PlannedRun planned = plan_run(run, catalogues);
  if (!planned.unsupported.empty()) return planned.unsupported;
  std::string out = planned.stack + to_json(planned.plan);
  for (const std::string& flag : planned.flags) out += flag;
  if (!places) return out;
  Job job = lower(planned.plan, planned.model);
  place(job, {.slack = planned.plan.slack});
  return out + fingerprint(job);
}

TEST(RunForm, ARecordOfTheFirstFormAndItsConversionPlanAlike) {
  const RunCatalogues catalogues;
  const RunFile file = read_runs(ZPLAN_SOURCE_DIR "/tests/data/published_runs.jsonl");
  ASSERT_GT(file.runs.size(), 400);
  constexpr int kPlaced = 10;  // one in so many Jobs is placed; plans are compared of all
  int i = 0;
  for (const RunRecord& run : file.runs) {
    const std::string text = write_run(converted(run, catalogues));
    const RunFile again = parse_runs(text, "converted");
    ASSERT_THAT(again.malformed, IsEmpty());
    const bool places = i++ % kPlaced == 0;
    EXPECT_EQ(outcome(again.runs.front(), catalogues, places), outcome(run, catalogues, places))
        << run.id;
  }
}

TEST(RunForm, RecordsOfExpertsAreReadAndPlannedOrRefusedByName) {
  const RunCatalogues catalogues;
  const RunFile file = read_runs(ZPLAN_SOURCE_DIR "/tests/data/expert_runs.jsonl");
  EXPECT_THAT(file.malformed, IsEmpty());
  ASSERT_EQ(file.runs.size(), 249);
  int planned = 0;
  for (const RunRecord& run : file.runs) {
    const std::string why = plan_run(run, catalogues).unsupported;
    planned += why.empty() ? 1 : 0;
    if (!why.empty()) {
      EXPECT_THAT(why,
                  AnyOf(StartsWith("not modelled: "), HasSubstr("ep needs no groups of shards"),
                        HasSubstr("which no ranks share yet")))
          << run.id;
    }
  }
  EXPECT_GT(planned, 200);
}

}  // namespace
}  // namespace zplan
