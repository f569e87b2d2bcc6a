#include "planner/validate/runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/validate/sample_run.h"

namespace zplan {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string complaint(const std::string& text) {
  const RunFile file = parse_runs(text, "runs.jsonl");
  EXPECT_TRUE(file.runs.empty());
  EXPECT_EQ(file.malformed.size(), 1);
  return file.malformed.empty() ? "" : file.malformed.front();
}

TEST(Runs, ARecordIsReadWhole) {
  const RunRecord run = sample_run();
  EXPECT_EQ(run.line, 1);
  EXPECT_EQ(run.id, "a/1");
  EXPECT_EQ(run.hardware.device, "a100_sxm4_80gb");
  EXPECT_FALSE(run.hardware.system);
  EXPECT_EQ(run.hardware.gpus, 8);
  EXPECT_EQ(run.model.heads, 16);
  EXPECT_EQ(run.model.params, 1.3e9);
  EXPECT_EQ(run.parallel.tp, 2);
  EXPECT_EQ(run.parallel.overlap_grad_reduce, false);
  EXPECT_FALSE(run.parallel.overlap_param_gather);
  EXPECT_EQ(run.precision.compute, "bf16");
  EXPECT_EQ(run.recompute, "full");
  EXPECT_EQ(run.measured.step_time_s, 1.5);
  EXPECT_FALSE(run.measured.memory_gib);
}

TEST(Runs, WhatSoftwareDoesMayBeLeftOut) {
  EXPECT_FALSE(sample_run().software.cuda_graphs);
  const RunRecord run = sample_run({{"\"micro_batch\"",
                                     "\"software\": {\"cuda_graphs\": true, \"compiled\": null}, "
                                     "\"micro_batch\""}});
  EXPECT_EQ(run.software.cuda_graphs, true);
  EXPECT_FALSE(run.software.compiled);
  EXPECT_FALSE(run.software.foreach_update);
  EXPECT_FALSE(run.software.dense_mask);
  EXPECT_FALSE(run.software.fp8_rows);
  EXPECT_FALSE(run.software.eager_loss);
  EXPECT_THAT(complaint(changed(kSampleRun, "\"micro_batch\"",
                                "\"software\": {\"graphs\": true}, \"micro_batch\"")),
              HasSubstr("/software"));
}

TEST(Runs, OthersAreReadWhereOneIsBroken) {
  const std::string other = changed(kSampleRun, "a/1", "a/2");
  const RunFile file = parse_runs(std::string(kSampleRun) + "\n\n{\"id\": 3}\n" + other, "f");
  ASSERT_EQ(file.runs.size(), 2);
  EXPECT_EQ(file.runs[1].id, "a/2");
  EXPECT_EQ(file.runs[1].line, 4);
  EXPECT_THAT(file.malformed, ElementsAre(StartsWith("f:3:")));
}

TEST(Runs, BrokenRecordsAreToldWithLineAndPlace) {
  EXPECT_THAT(complaint("\n{\"id\": \"a\""), StartsWith("runs.jsonl:2:"));
  EXPECT_THAT(complaint(changed(kSampleRun, "\"tp\": 2", "\"tp\": \"2\"")),
              AllOf(StartsWith("runs.jsonl:1:"), HasSubstr("/parallel/tp: expected")));
  EXPECT_THAT(complaint(changed(kSampleRun, "\"dp\": 4", "\"dp\": 3")), HasSubstr("= 8 GPUs"));
  EXPECT_THAT(complaint(changed(kSampleRun, "\"nodes\": 1", "\"nodes\": 2")),
              HasSubstr("gpus_per_node 8 x nodes 2"));
  EXPECT_THAT(complaint(changed(kSampleRun, "\"step_time_s\": 1.5", "\"step_time_s\": 0")),
              HasSubstr("a number from 1e-09"));
  EXPECT_THAT(complaint(changed(kSampleRun, "\"optimizer\": \"gpu\"", "\"optimizer\": \"tape\"")),
              HasSubstr("/offload/optimizer"));
  EXPECT_THAT(complaint(changed(kSampleRun, "\"full\"", "\"some\"")), HasSubstr("/recompute"));
}

TEST(Runs, KeysAreNeitherMissingNorUnknown) {
  EXPECT_THAT(complaint(changed(kSampleRun, ", \"note\": null", "")), HasSubstr("\"note\""));
  EXPECT_THAT(complaint(changed(kSampleRun, "\"note\"", "\"nota\"")), HasSubstr("note"));
  EXPECT_THAT(complaint(changed(kSampleRun, "\"norm\"", "\"normal\": 1, \"norm\"")),
              HasSubstr("\"normal\""));
}

TEST(Runs, IdsAreUnique) {
  const RunFile file = parse_runs(std::string(kSampleRun) + "\n" + kSampleRun, "f");
  EXPECT_EQ(file.runs.size(), 1);
  EXPECT_THAT(file.malformed, ElementsAre(AllOf(StartsWith("f:2:"), HasSubstr("\"a/1\" again"))));
}

}  // namespace
}  // namespace zplan
