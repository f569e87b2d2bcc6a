#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/foreign/measured_file.h"
#include "planner/foreign/nccl_table.h"
#include "tests/unit/foreign/measured_data.h"

namespace zplan {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const std::string& h100() {
  static const std::string text = measured_data("nccl_all_reduce_2x8_h100.json");
  return text;
}

std::string with(const std::string& from, const std::string& to) {
  return refusal([&] { parse_measured(replaced(h100(), from, to), "out.json"); });
}

TEST(NcclJson, SaysWhatTheTextOfTheSameRunSays) {
  const MeasuredFile file = parse_measured(h100(), "out.json");
  ASSERT_EQ(file.runs.size(), 1u);
  const NcclRun& run = file.runs[0];
  const NcclRun text = parse_nccl_text(measured_data("nccl_all_reduce_2x8_h100.txt"), "x").at(0);
  EXPECT_EQ(run.program, text.program);
  EXPECT_EQ(run.kind, text.kind);
  EXPECT_EQ(run.ranks, text.ranks);
  EXPECT_EQ(run.nodes, text.nodes);
  EXPECT_EQ(run.device, text.device);
  EXPECT_EQ(run.software, "nccl-tests, NCCL 2.29.2");
  EXPECT_EQ(run.date, "2026-07-10");
  ASSERT_EQ(run.times.size(), 14u) << "from 1 MiB on";
  for (std::size_t i = 0; i < run.times.size(); ++i) {
    EXPECT_EQ(run.times[i].size, text.times[i + 17].size);
    EXPECT_EQ(run.times[i].time, text.times[i + 17].time);
  }
}

// Of 16 GPUs in two processes of 8.
TEST(NcclJson, AnEntryOfADeviceStandsForAllOfItsProcess) {
  std::string text = h100();
  const std::size_t begin = text.find("\"devices\":["), end = text.find("]", begin);
  const auto device = [](int rank, const std::string& host) {
    return "{\"rank\":" + std::to_string(rank) + ",\"group\":0,\"pid\":1,\"hostname\":\"" + host +
           "\",\"device\":0,\"device_hex\":\"04\",\"device_info\":\"NVIDIA H100 80GB HBM3\"}";
  };
  text = replaced(
      text.replace(begin, end - begin, "\"devices\":[" + device(0, "a") + "," + device(8, "b")),
      "\"ngpus\":1", "\"ngpus\":8");
  const MeasuredFile file = parse_measured(text, "out.json");
  EXPECT_EQ(file.runs.at(0).ranks, 16);
  EXPECT_EQ(file.runs.at(0).nodes, 2);
}

TEST(NcclJson, WhatDoesNotHoldIsRefusedWithItsPlace) {
  EXPECT_THAT(with("\"nwrong\":0.0", "\"nwrong\":2.0"), HasSubstr("expected no wrong results, 0"));
  EXPECT_THAT(with("\"time\":203.2", "\"cpu_time\":203.2"), HasSubstr("/results/0/out_of_place"));
  EXPECT_THAT(with("\"time\":203.2", "\"time\":204.2"), HasSubstr("expected algbw 5.14"));
  EXPECT_THAT(with("\"count\":262144", "\"count\":262145"), HasSubstr("expected size 1048580"));
  EXPECT_THAT(with("\"out_of_bounds\":{\"count\":0", "\"out_of_bounds\":{\"count\":1"),
              HasSubstr("/out_of_bounds/count: expected 0"));
  EXPECT_THAT(with("\"rank\":1,", "\"rank\":0,"), HasSubstr("without MPI=1"));
  EXPECT_THAT(with("all_reduce_perf_mpi", "gather_perf"), HasSubstr("got \"gather_perf\""));
  EXPECT_THAT(refusal([] { parse_measured(h100().substr(0, 4000), "out.json"); }),
              StartsWith("out.json:1:3998: "));
}

// NCCL_VERSION of nccl.h: 1000 X + 100 Y + Z up to 2.8, 10000 X + 100 Y + Z from 2.9 on.
TEST(NcclVersion, OfOldAndNewCodes) {
  EXPECT_EQ(nccl_version(2803), "2.8.3");
  EXPECT_EQ(nccl_version(20903), "2.9.3");
  EXPECT_EQ(nccl_version(22803), "2.28.3");
}

}  // namespace
}  // namespace zplan
