#include "planner/foreign/measured_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/foreign/measured_data.h"

namespace zplan {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string why_not(const std::string& text) {
  return refusal([&] { parse_measured(text, "x"); });
}

TEST(MeasuredFile, TellsTheToolByTheContent) {
  EXPECT_EQ(parse_measured(measured_data("nccl_all_reduce_2x8_h100.txt"), "x").runs.size(), 1u);
  EXPECT_EQ(parse_measured(measured_data("nccl_all_reduce_2x8_h100.json"), "x").runs.size(), 1u);
  EXPECT_TRUE(parse_measured(measured_data("fio_five_jobs.json"), "x").fio);
}

TEST(MeasuredFile, OtherToolsAreRefused) {
  EXPECT_EQ(
      why_not("read: (groupid=0, jobs=1): err= 0: pid=46840: Wed May 10\n  read: IOPS=65.8k\n"),
      "x:1: expected what nccl-tests or fio (--output-format=json) write, got "
      "\"read: (groupid=0, jobs=1): err= 0: pid=4...\"");
  EXPECT_THAT(why_not(""), StartsWith("x:1: expected what nccl-tests or fio"));
  EXPECT_THAT(why_not("{\"schema\": \"zplan.hw/1\"}"),
              StartsWith("x:1:1: /: expected what fio or nccl-tests write, got neither"));
  EXPECT_THAT(why_not("# nThread 1 nGpus 8\n"), HasSubstr("\"# Avg bus bandwidth\""));
  EXPECT_THAT(why_not("algbw busbw\n"), StartsWith("x:1: expected a table of nccl-tests"));
  EXPECT_THAT(why_not("{\n"), StartsWith("x:2:1: "));
}

}  // namespace
}  // namespace zplan
